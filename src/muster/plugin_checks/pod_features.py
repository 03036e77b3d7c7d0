"""What the pods of random clusters request, of resources and otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["AVOIDED_TAINT", "CHIPS", "GPU", "HOST", "PLAIN_POD_RULES", "POD_RULES", "REQUESTS", "TAINT", "ZONE"]

GPU = "nvidia.com/gpu"
CHIPS = "huawei.com/Ascend910"
HOST, ZONE = "kubernetes.io/hostname", "zone"


def near(app: str, label: str = ZONE) -> dict[str, Any]:
    """A pod affinity term: pods of the app, within a value of the label."""
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": label}


def affinity(
    required: Sequence[Any] = (), anti: Sequence[Any] = (), preferred: Sequence[Any] = (), avoided: Sequence[Any] = ()
) -> dict[str, Any]:
    """spec.affinity; `preferred` and `avoided` are pairs of weight and term."""
    hard, soft = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"

    def weighted(terms: Sequence[Any]) -> list[dict[str, Any]]:
        return [{"weight": weight, "podAffinityTerm": term} for weight, term in terms]

    return {
        "podAffinity": {hard: list(required), soft: weighted(preferred)},
        "podAntiAffinity": {hard: list(anti), soft: weighted(avoided)},
    }


def spread(app: str, label: str = ZONE, skew: int = 1, soft: bool = False) -> dict[str, Any]:
    """A topology spread constraint over pods of the app."""
    when = "ScheduleAnyway" if soft else "DoNotSchedule"
    selector = {"matchLabels": {"app": app}}
    return {"maxSkew": skew, "topologyKey": label, "whenUnsatisfiable": when, "labelSelector": selector}


REQUESTS: tuple[dict[str, Any], ...] = (
    {"cpu": 1},
    {"cpu": 2, "memory": "2Gi"},
    {"cpu": "1500m", "memory": "1Gi"},
    {"memory": "3Gi"},
    {"cpu": 1, GPU: 1},
    {"cpu": "300m", "memory": "700Mi"},
    {},
)
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
AVOIDED_TAINT = {"key": "slow", "value": "", "effect": "PreferNoSchedule"}
_PREFERS = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 3, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}},
            {"weight": 5, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}},
        ]
    }
}
# What a pod may request besides resources.
PLAIN_POD_RULES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"nodeSelector": {"disk": "ssd"}},
    {"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    {"ports": [{"containerPort": 80, "hostPort": 8080}]},
)
POD_RULES: tuple[dict[str, Any], ...] = (
    *PLAIN_POD_RULES,
    {"affinity": _PREFERS},
    {"affinity": affinity(required=[near("x")])},
    {"affinity": affinity(anti=[near("x", HOST)])},
    {"affinity": affinity(anti=[near("y")])},
    {"affinity": affinity(preferred=[(7, near("x"))], avoided=[(4, near("y", HOST))])},
    {"topologySpreadConstraints": [spread("x")]},
    {"topologySpreadConstraints": [spread("y", soft=True), spread("y", HOST, skew=2, soft=True)]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c0"}}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c1"}}]},
    {"image": "big"},
)
