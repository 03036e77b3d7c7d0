"""The volume filters: shared volumes, attach limits of nodes, zones of volumes, and volume binding.

Each is a term of the predicates plugin, with the order, wording and status of kube-scheduler 1.34. kube-scheduler's
volume binding scores only behind a feature gate that is off, so nothing here scores.
"""

from __future__ import annotations

import numpy as np

from muster.engine.core.hooks import Batch, Bools, Effect, NodeFilter, Reason, Scope, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import NodeView
from muster.engine.volumes.volume_binder import VolumeBinder
from muster.engine.volumes.volume_claims import UNBOUND
from muster.engine.volumes.volume_topology import ZONE_LABELS, zones_of
from muster.engine.volumes.volume_usage import disks_of
from muster.model.storage import PersistentVolume

__all__ = ["VolumeBinding", "VolumeLimits", "VolumeRestrictions", "VolumeZone", "effects"]

_DISK = Reason("disk-conflict", "node(s) had no available disk")
_IN_USE = Reason(
    "claim-in-use",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
)
_LIMIT = Reason("volume-limit", "node(s) exceed max volume count")
_ZONE = Reason("volume-zone", "node(s) had no available volume zone", resolvable=False)
_BINDING = [  # in the order of the codes of `VolumeBinder.find`
    Reason("volume-node-affinity", "node(s) didn't match PersistentVolume's node affinity", resolvable=False),
    Reason("no-volume-to-bind", "node(s) didn't find available persistent volumes to bind", resolvable=False),
    Reason("no-free-storage", "node(s) did not have enough free storage", resolvable=False),
    Reason(
        "volume-missing",
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        resolvable=False,
    ),
]


def effects(volumes: VolumeBinder, task: Task) -> list[Effect]:
    """Returns what to write on the claims of a placed pod. Pods that share a claim write the same."""
    return [
        Effect("claim", key, {"volumeName": settled.volume} if settled.volume else {"selectedNode": settled.node})
        for key, settled in volumes.assumed_bindings(task)
    ]


class _VolumeRule(NodeFilter):
    def __init__(self, volumes: VolumeBinder) -> None:
        self.volumes = volumes


class _ClaimRule(_VolumeRule):
    """A filter that reads only claims: equal pods get the same answer once their claims are decided."""

    def batch(self, task: Task) -> Batch:
        if not task.shape.spec.volumes or not self.volumes.has(task.shape)[0]:
            return Batch.SKIP
        rules = self.volumes.of(task).node_rules
        if rules is not None and not rules:
            return Batch.SKIP
        return Batch.COLUMNS if self.volumes.is_assumed(task) else Batch.SINGLE


def _nowhere(nodes: NodeView, reason: Reason) -> Verdict:
    return Verdict.of(np.ones(len(nodes), np.bool_), reason)


class VolumeRestrictions(_VolumeRule):
    """Refuses ReadWriteOncePod claims in use, and disks that pods of one node cannot share."""

    term = "VolumeRestrictions"
    scope = Scope.CLUSTER  # the pod that uses the claim may be on any node

    def batch(self, task: Task) -> Batch:
        if not task.shape.spec.volumes:
            return Batch.SKIP
        has_claims, has_disks = self.volumes.has(task.shape)
        claims = self.volumes.of(task) if has_claims else None
        if claims is not None and claims.once:
            return Batch.SINGLE
        if has_disks:
            shared = all(disk.shared for disk in disks_of(task.shape.spec))
            return Batch.COLUMNS if shared else Batch.ONCE
        return Batch.COLUMNS if claims is not None and claims.missing is not None else Batch.SKIP

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        claims = self.volumes.of(task)
        if claims.missing is not None:
            return _nowhere(nodes, claims.missing)
        use = self.volumes.use(nodes.kind)
        conflict = use.disk_conflicts(disks_of(task.shape.spec))[nodes.index]
        code = conflict.astype(np.uint16)
        if any(key in use.users for key in claims.once):
            code[~conflict] = 2
        return Verdict(code, [_DISK, _IN_USE])


class VolumeLimits(_VolumeRule):
    """Refuses nodes where a CSI driver can attach no more volumes."""

    term = "NodeVolumeLimits"
    scope = Scope.NODE

    def batch(self, task: Task) -> Batch:
        # Copies of a pod use the same claims: where one fits, the next attaches no further volume.
        if not task.shape.spec.volumes or True not in self.volumes.has(task.shape):
            return Batch.SKIP
        claims = self.volumes.of(task)
        return Batch.COLUMNS if claims.limited or claims.missing is not None else Batch.SKIP

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        missing = self.volumes.of(task).missing
        if missing is not None:
            return _nowhere(nodes, missing)
        use = self.volumes.use(nodes.kind)
        return Verdict.of(use.over_limit(use.attachable(task))[nodes.index], _LIMIT)


class VolumeZone(_ClaimRule):
    """Refuses nodes outside the zone and region in the labels of a bound volume."""

    term = "VolumeZone"
    scope = Scope.CLUSTER  # a claim may be bound in this cycle, by a pod on another node

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        claims = self.volumes.of(task)
        if claims.missing is not None:
            return _nowhere(nodes, claims.missing)
        if any(not claim.object.spec.volume_name for claim in claims.immediate):
            return _nowhere(nodes, UNBOUND)
        refused = np.zeros(len(nodes.nodes), np.bool_)
        for claim in (*claims.bound, *claims.immediate, *claims.delayed):
            name = self.volumes.volume_name(claim)
            if not name or claim.key in claims.ephemeral:  # kube-scheduler does not check ephemeral volumes
                continue
            volume = self.volumes.volume(name)
            if volume is None:
                text = f'persistentvolume "{name}" not found'
                return _nowhere(nodes, Reason("volume-missing", text, resolvable=False))
            refused |= self._elsewhere(nodes, volume)
        return Verdict.of(refused[nodes.index], _ZONE)

    def _elsewhere(self, nodes: NodeView, volume: PersistentVolume) -> Bools:
        labels = nodes.nodes.labels
        refused = np.zeros(len(nodes.nodes), np.bool_)
        for key, value in zones_of(volume):
            zones = {zone.strip() for zone in value.split("__")}
            if "" in zones:  # kube-scheduler ignores a label that cannot be read
                continue
            instead = ZONE_LABELS[key]
            inside = labels.where(key, lambda value, zones=zones: value in zones)  # type: ignore[misc]
            if instead != key:
                other = labels.where(instead, lambda value, zones=zones: value in zones)  # type: ignore[misc]
                inside = np.where(labels.has(key), inside, other)
            refused |= ~inside
        if refused.any():
            # A node without any such label counts as a cluster with a single zone.
            refused &= np.logical_or.reduce([labels.has(key) for key in ZONE_LABELS])
        return refused


class VolumeBinding(_ClaimRule):
    """Accepts nodes that bound volumes can reach, and where unbound claims find a volume or one can be provisioned."""

    term = "VolumeBinding"
    scope = Scope.CLUSTER  # a volume taken on one node is not available on the others

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        fault = self.volumes.of(task).fault
        if fault is not None:
            return _nowhere(nodes, fault)
        return Verdict(self.volumes.find(task).code[nodes.index], _BINDING)
