"""Predicts what the controllers of node group management would do to a cluster, by simulation.

The simulation starts with the cluster as it is and the changes applied to it. Replacements of evicted pods are created
and placed, so that evictions that wait for one another all appear in the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from muster.cluster.embedded import EmbeddedCluster
from muster.cluster.memory import MemoryStore
from muster.cycle.scheduler import Scheduler
from muster.engine.core.session import silent
from muster.engine.core.state import State
from muster.groupctl.controllers.application_index import ApplicationIndex
from muster.groupctl.controllers.dry_run import Write
from muster.groups.applications import BindingState, PolicyLabels, binding_state, template_path
from muster.groups.assignment import EDITION, edition_name
from muster.groups.override import OverrideError, edition
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.groups import OverridePolicy
from muster.model.kinds import decode_as, plain
from muster.model.meta import Object, seconds
from muster.sim.group_controllers import GroupControllers
from muster.sim.simulate import Run

# The writes that matter to users; statuses and annotations are left out.
SHOWN = ("evict", "images", "patch", "delete")


@dataclass(slots=True)
class ControllerPlan:
    """The predicted writes in order, and the state at the end."""

    began: float
    steps: list[Write] = field(default_factory=list)
    pending: dict[str, str] = field(default_factory=dict)
    settled: bool = False
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        return {
            "steps": [
                {
                    "at": round(step.at - self.began, 3), "verb": step.verb, "kind": step.kind, "object": step.key,
                    "text": step.text,
                }
                for step in self.steps
            ],
            "counts": dict(sorted(Counter(step.verb for step in self.steps).items())),
            "pending": self.pending,
            "settled": self.settled,
        }  # fmt: skip


def plan(
    scheduler: Scheduler, objects: Mapping[str, Mapping[str, Object]], now: float, *, webhook: bool = False
) -> ControllerPlan:
    """Simulates until the cluster is settled. `webhook`: a webhook is alive that creates pods in their edition."""
    found = ControllerPlan(now)

    def on_write(written: Write) -> None:
        if written.verb in SHOWN:
            found.steps.append(written)

    cluster = EmbeddedCluster(objects, now)
    cluster.join(GroupControllers(cluster, on_write, SimulatedWebhook if webhook else None))
    state = State(_scheduler_names(objects))
    cluster.follow(state)
    run = Run(scheduler, cluster, state, silent)
    run.until_settled(None)
    result = run.finish()
    found.pending = dict(result.pending)
    found.settled = result.summary.settled
    found.warnings = list(result.summary.warnings)
    return found


def _scheduler_names(objects: Mapping[str, Mapping[str, Object]]) -> Iterable[str]:
    """Returns the names of all schedulers in the cluster: the simulation decides for each of them."""
    named = {pod.spec.scheduler_name for pod in objects.get("Pod", {}).values() if isinstance(pod, Pod)}
    return sorted({"default-scheduler", "muster", "volcano", *named})


class SimulatedWebhook:
    """A model of the webhook that runs before the controllers: new pods are in the edition of their group.

    The real webhook chooses the group when a pod is created, and requires it with an affinity. Here the scheduler
    chooses the group by the same policy, and the pod is changed when it is bound, before any controller sees it.
    """

    def __init__(self, store: MemoryStore, custom: Sequence[type[CustomApplication]]) -> None:
        self._store = store
        self._began = store.clock.now()
        self._known = frozenset(pod.metadata.uid for pod in store.of(Pod).values())
        self._apps = ApplicationIndex(store, PolicyLabels.OVERRIDE, custom)

    def run(self) -> bool:
        wrote = False
        for ref in sorted(self._apps.take_changed()):
            app = self._apps.get(ref)
            if app is not None and binding_state(app.metadata.labels, PolicyLabels.OVERRIDE) == BindingState.BOUND:
                wrote = self._make(app) or wrote
        return wrote

    def next_time(self) -> float | None:
        return None

    def _make(self, app: Object) -> bool:
        key = f"{app.metadata.namespace or 'default'}/{app.metadata.labels[PolicyLabels.OVERRIDE.binding]}"
        policy = self._apps.cache.of(OverridePolicy).get(key)
        if policy is None:
            return False
        divided = binding_state(app.metadata.labels, PolicyLabels.PROPAGATION) == BindingState.BOUND
        groups_of, wrote = self._apps.edition_groups(app), False
        for pod in (pod for unit in self._apps.units(app) for pod in unit if self._is_new(pod)):
            groups = groups_of(pod.spec.node_name)
            if groups and (divided or self._apps.grouping.certain_groups(pod.spec)):
                wrote = self._edited(pod, policy, groups, template_path(type(app))) or wrote
        return wrote

    def _is_new(self, pod: Pod) -> bool:
        made = seconds(pod.metadata.creation_timestamp)
        fresh = pod.metadata.uid not in self._known and made >= int(self._began)
        return fresh and bool(pod.spec.node_name) and EDITION not in pod.metadata.annotations

    def _edited(self, pod: Pod, policy: OverridePolicy, groups: list[str], base: tuple[str, ...]) -> bool:
        whole = plain(pod)
        parts = {"metadata": whole["metadata"], "spec": whole["spec"]}
        try:
            made = edition(policy.spec, groups, parts, bases=(base,)).template
        except OverrideError:
            return False  # the policy's status reports it
        made["metadata"].setdefault("annotations", {})[EDITION] = edition_name(policy, groups[0])
        self._store.write(decode_as(Pod, {**whole, **made}))
        return True
