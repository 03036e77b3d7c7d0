"""The chips that topology910 gives to bound pods, in the plan checker: boards of eight chips in two rings of four."""

from __future__ import annotations

from muster.engine.core.plan import Plan
from oracles.plan_end import End

CHIPS = "huawei.com/Ascend910"
_RINGS = (frozenset(range(4)), frozenset(range(4, 8)))
_BOARD = 8
_UNITS = 1000  # amounts are in thousandths


def check_chips(end: End, plan: Plan) -> None:
    """Every bound pod has as many chips as it requests, which are free, its own and in its rings."""
    held: dict[str, set[int]] = {}
    for pod, node in plan.binds.items():
        want = end.requests[pod].get(CHIPS, 0) // _UNITS
        if not want:
            continue  # the devices of other pods are the business of gpu-share
        given = set(plan.devices.get(pod, ()))
        assert len(given) == len(plan.devices.get(pod, ())) == want, f"{pod} has the chips {given} of {want}"
        assert given <= free_chips(end, node), f"{pod}: not all of {given} are free on {node}"
        assert not given & held.get(node, set()), f"{pod}: {given} of {node} are held by others"
        held.setdefault(node, set()).update(given)
        whole = given == set(range(_BOARD))
        assert whole or (want < _BOARD and any(given <= ring for ring in _RINGS)), f"{pod}: {given} are not of one ring"


def free_chips(end: End, node: str) -> set[int]:
    """What the device plugin lists, less what pods on the node hold."""
    found = _listed(end.nodes[node].metadata.annotations)
    for pod in end.residents.get(node, ()):
        found -= _listed(end.pods[pod].metadata.annotations)
    return found


def _listed(annotations: dict[str, str]) -> set[int]:
    names = [name for name in annotations.get(CHIPS, "").split(",") if name]
    return {int(name.rpartition("-")[2]) for name in names}
