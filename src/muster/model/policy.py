"""What stands around pods: priority classes, disruption budgets, namespaces, configuration maps."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from muster.model.meta import Condition, Int, LabelSelector, Object, Partial


class PriorityClass(Object, kw_only=True):
    """A priority with a name."""

    namespaced: ClassVar[bool] = False

    api_version: str = "scheduling.k8s.io/v1"
    kind: str = "PriorityClass"
    value: Int = 0
    global_default: bool = False
    preemption_policy: str = ""
    description: str = ""


class PodDisruptionBudgetSpec(Partial, kw_only=True):
    """A number or a percentage; a budget with only a selector is valid."""

    min_available: Int | str | None = None
    max_unavailable: Int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(Partial, kw_only=True):
    """What the budget's controller counted; None where it has not yet."""

    disruptions_allowed: Int | None = None
    current_healthy: Int | None = None
    desired_healthy: Int | None = None
    expected_pods: Int | None = None
    disrupted_pods: dict[str, str] = {}
    observed_generation: Int = 0
    conditions: list[Condition] = []


class PodDisruptionBudget(Object, kw_only=True):
    """How many pods of a selection may be missing at once."""

    namespaced: ClassVar[bool] = True

    api_version: str = "policy/v1"
    kind: str = "PodDisruptionBudget"
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)


class Namespace(Object, kw_only=True):
    """A namespace; its labels are what namespaceSelector reads."""

    namespaced: ClassVar[bool] = False

    api_version: str = "v1"
    kind: str = "Namespace"


class ConfigMap(Object, kw_only=True):
    """A configuration map."""

    namespaced: ClassVar[bool] = True

    api_version: str = "v1"
    kind: str = "ConfigMap"
    data: dict[str, str] = {}
    binary_data: dict[str, str] = {}
