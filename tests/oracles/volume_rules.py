"""Where bound pods may use their volumes, in the plan checker: bound claims, node affinity, volumes per node.

Claims that are not bound yet are not judged; what is decided for them is the business of test_volumes.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.engine.core.plan import Plan
from muster.model.core import Pod
from muster.model.meta import Object, key
from muster.model.selectors import node_matches
from muster.model.storage import CSINode, PersistentVolume, PersistentVolumeClaim
from oracles.plan_end import End

_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
_EBS_IN_TREE, _EBS = "kubernetes.io/aws-ebs", "ebs.csi.aws.com"
_MOST_EBS = 39  # kube-scheduler's limit for volumes of the driver in the tree


def check_volumes(objects: Iterable[Object], end: End, plan: Plan) -> set[str]:
    """Returns the bound pods whose claims could not be judged."""
    every = list(objects)
    claims = {key(o): o for o in every if isinstance(o, PersistentVolumeClaim)}
    volumes = {key(o): o for o in every if isinstance(o, PersistentVolume)}
    drivers = {key(o): o for o in every if isinstance(o, CSINode)}
    if not claims:
        return set()
    unjudged: set[str] = set()
    attached: dict[tuple[str, str], set[str]] = {}  # node and driver → handles
    newly: set[tuple[str, str]] = set()  # where a bound pod attaches one
    for name, node in end.holding.items():
        for claim in _claims(end.pods[name]):
            found = claims.get(claim)
            if found is None or not found.spec.volume_name:
                if name in plan.binds:
                    unjudged.add(name)
                continue
            volume = volumes[found.spec.volume_name]
            at = node, _driver(volume, drivers.get(node))
            if at[1]:
                attached.setdefault(at, set()).add(key(volume))
            if name in plan.binds:
                _check_reachable(name, volume, end, node)
                newly.add(at)
    for node, driver in newly:
        most = _most(driver, drivers.get(node))
        count = len(attached.get((node, driver), ()))
        assert most is None or count <= most, f"{node} has {count} volumes of {driver}, of {most}"
    return unjudged


def _claims(pod: Pod) -> Iterable[str]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"


def _check_reachable(pod: str, volume: PersistentVolume, end: End, node: str) -> None:
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        labels = end.nodes[node].metadata.labels
        assert node_matches(affinity.required, node, labels), f"{pod}: {key(volume)} cannot be reached from {node}"


def _driver(volume: PersistentVolume, node: CSINode | None) -> str:
    """The driver that attaches the volume: that of a migrated volume is CSI's."""
    if volume.spec.csi is not None:
        return volume.spec.csi.driver
    if volume.spec.aws_elastic_block_store is None:
        return ""
    notes = node.metadata.annotations.get(_MIGRATED, "") if node is not None else ""
    return _EBS if _EBS_IN_TREE in notes.split(",") else _EBS_IN_TREE


def _most(driver: str, node: CSINode | None) -> int | None:
    if driver == _EBS_IN_TREE:
        return _MOST_EBS
    for one in node.spec.drivers if node is not None else ():
        if one.name == driver and one.allocatable is not None:
            return one.allocatable.count
    return None
