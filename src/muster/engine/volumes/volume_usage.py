"""What the pods on the nodes use: claims, disks that cannot be shared, and volumes attached by CSI drivers.

Counts of pods, so that a pod's coming and going are exact inverses. A CSI driver may limit how many volumes it attaches
to a node (CSINode); a volume used by several pods of a node is attached once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from muster.engine.core.hooks import Bools, Index
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import Nodes
from muster.engine.volumes.volume_claims import VolumeClaim, VolumeClaims, claim_name
from muster.model.core import PodSpec
from muster.model.meta import Object
from muster.model.storage import CSINode, PersistentVolume

MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
# In-tree plugins that may be migrated to a CSI driver on a node.
_DRIVER_OF = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com", "kubernetes.io/gce-pd": "pd.csi.storage.gke.io"}
_UNLIMITED = np.iinfo(np.int64).max


class Disk(NamedTuple):
    """A disk named in a pod's spec; two pods of a node get along only if both share it."""

    identity: tuple[str, ...]
    shared: bool


class Attachable(NamedTuple):
    """A volume that a CSI driver attaches; with a plugin: only on nodes where the plugin's work is the driver's."""

    driver: str
    handle: str
    plugin: str = ""


def disks_of(spec: PodSpec) -> list[Disk]:
    disks: list[Disk] = []
    for volume in spec.volumes:
        if volume.gce_persistent_disk is not None:
            gce = volume.gce_persistent_disk
            disks.append(Disk(("gce", gce.pd_name), gce.read_only))
        if volume.aws_elastic_block_store is not None:
            disks.append(Disk(("aws", volume.aws_elastic_block_store.volume_id), False))
        if volume.iscsi is not None:
            disks.append(Disk(("iscsi", volume.iscsi.iqn), volume.iscsi.read_only))
        if volume.rbd is not None:
            rbd = volume.rbd
            # Two images are the same if they have a monitor in common: hence one identity per monitor.
            disks += [Disk(("rbd", rbd.pool, rbd.image, m), rbd.read_only) for m in dict.fromkeys(rbd.monitors)]
    return disks


class PodVolumes(NamedTuple):
    """What a pod uses on its node."""

    claims: list[str]
    disks: list[Disk]
    attached: list[tuple[str, str]]  # driver, handle


class VolumeUsage:
    def __init__(self, nodes: Nodes, objects: Mapping[str, Mapping[str, Object]], claims: VolumeClaims) -> None:
        self.nodes = nodes
        self.users: dict[str, int] = {}  # claim key → pods on nodes that use it
        self.disks: dict[tuple[str, ...], dict[int, list[int]]] = {}  # disk → node → [pods, pods that do not share]
        self.attached: dict[tuple[str, str], dict[int, int]] = {}  # (driver, handle) → node → pods
        self.count: dict[str, Index] = {}  # driver → attached volumes per node
        self._limits: dict[str, Index] | None = None
        self._migrated: dict[str, Bools] = {}
        self.read_from(objects, claims)

    def read_from(self, objects: Mapping[str, Mapping[str, Object]], claims: VolumeClaims) -> None:
        """What pods attach is read from these objects from now on. The CSINodes must be those that it began with."""
        self.claims = claims
        self._volumes = objects.get("PersistentVolume", {})
        self._csi_nodes = objects.get("CSINode", {})

    def of(self, task: Task, node: int) -> PodVolumes:
        """Returns what the pod uses on this node."""
        named = (volume.persistent_volume_claim for volume in task.pod.spec.volumes)
        attached = [
            (one.driver, one.handle)
            for one in self.attachable(task)
            if not one.plugin or self.migrated(one.plugin)[node]
        ]
        claims = [f"{task.namespace}/{claim.claim_name}" for claim in named if claim is not None]
        return PodVolumes(claims, disks_of(task.shape.spec), attached)

    def add(self, volumes: PodVolumes, node: int, sign: int) -> None:
        """A pod with these volumes comes to the node (+1) or leaves it (−1)."""
        for key in volumes.claims:
            self.users[key] = self.users.get(key, 0) + sign
            if not self.users[key]:
                del self.users[key]
        for disk in volumes.disks:
            on = self.disks.setdefault(disk.identity, {})
            pods = on.setdefault(node, [0, 0])
            pods[0] += sign
            pods[1] += 0 if disk.shared else sign
            if not pods[0]:
                del on[node]
                if not on:
                    del self.disks[disk.identity]
        for attached in volumes.attached:
            self._attach(attached, node, sign)

    def _attach(self, volume: tuple[str, str], node: int, sign: int) -> None:
        on = self.attached.setdefault(volume, {})
        before = on.get(node, 0)
        on[node] = before + sign
        if not on[node]:
            del on[node]
            if not on:
                del self.attached[volume]
        change = (before + sign > 0) - (before > 0)
        if change:
            self.attached_by(volume[0])[node] += change

    # --- disks

    def disk_conflicts(self, disks: list[Disk]) -> Bools:
        """The nodes where another pod has one of these disks and does not share it, or must not have it shared."""
        refused = np.zeros(len(self.nodes), np.bool_)
        for disk in disks:
            for node, (pods, unshared) in self.disks.get(disk.identity, {}).items():
                refused[node] |= unshared > 0 if disk.shared else pods > 0
        return refused

    # --- limits

    def attached_by(self, driver: str) -> Index:
        if driver not in self.count:
            self.count[driver] = np.zeros(len(self.nodes), np.int64)
        return self.count[driver]

    def over_limit(self, volumes: set[Attachable]) -> Bools:
        """The nodes where attaching these volumes (those not attached there yet) would exceed a driver's limit."""
        refused = np.zeros(len(self.nodes), np.bool_)
        limits = self.limits()
        for driver in sorted({v.driver for v in volumes} & limits.keys()):
            more = np.zeros(len(self.nodes), np.int64)
            for volume in sorted(v for v in volumes if v.driver == driver):
                new = np.ones(len(self.nodes), np.bool_)
                new[list(self.attached.get((driver, volume.handle), ()))] = False
                more += new & self.migrated(volume.plugin) if volume.plugin else new
            refused |= (more > 0) & (self.attached_by(driver) + more > limits[driver])
        return refused

    def limits(self) -> dict[str, Index]:
        """Driver → how many volumes it attaches to each node."""
        if self._limits is None:
            self._limits = {}
            for name, csi_node in self._csi_nodes.items():
                node = self.nodes.rank.get(name)
                if node is None or not isinstance(csi_node, CSINode):
                    continue
                for driver in csi_node.spec.drivers:
                    if driver.allocatable is not None and driver.allocatable.count is not None:
                        if driver.name not in self._limits:
                            self._limits[driver.name] = np.full(len(self.nodes), _UNLIMITED)
                        self._limits[driver.name][node] = driver.allocatable.count
        return self._limits

    def migrated(self, plugin: str) -> Bools:
        """The nodes where a CSI driver does the in-tree plugin's work."""
        known = self._migrated.get(plugin)
        if known is None:
            known = self._migrated[plugin] = np.zeros(len(self.nodes), np.bool_)
            for name, csi_node in self._csi_nodes.items():
                if name in self.nodes.rank and plugin in csi_node.metadata.annotations.get(MIGRATED, "").split(","):
                    known[self.nodes.rank[name]] = True
        return known

    # --- what a pod attaches

    def attachable(self, task: Task) -> set[Attachable]:
        """The volumes that CSI drivers would attach for the pod, as far as they are known."""
        found: set[Attachable] = set()
        for volume in task.pod.spec.volumes:
            name = claim_name(task.name, volume)
            if name is not None:
                claim = self.claims.get(f"{task.namespace}/{name}")
                one = self._of_claim(claim) if isinstance(claim, VolumeClaim) else None
            elif volume.aws_elastic_block_store is not None:
                one = _aws(volume.aws_elastic_block_store.volume_id)
            elif volume.gce_persistent_disk is not None:
                one = _gce(volume.gce_persistent_disk.pd_name, "UNSPECIFIED")
            else:
                continue
            if one is not None and one.driver and one.handle:
                found.add(one)
        return found

    def _of_claim(self, claim: VolumeClaim) -> Attachable | None:
        volume = self._volumes.get(claim.object.spec.volume_name)
        if not isinstance(volume, PersistentVolume):
            # Not bound, or to a volume that is gone: kube-scheduler counts one volume of the class's driver.
            found = self.claims.storage_class(claim.storage_class)
            if found is None:
                return None
            if found.provisioner in _DRIVER_OF:
                return Attachable(_DRIVER_OF[found.provisioner], f"claim {claim.key}", found.provisioner)
            return Attachable(found.provisioner, f"claim {claim.key}")
        spec = volume.spec
        if spec.csi is not None:
            return Attachable(spec.csi.driver, spec.csi.volume_handle)
        if spec.aws_elastic_block_store is not None:
            return _aws(spec.aws_elastic_block_store.volume_id)
        if spec.gce_persistent_disk is not None:
            labels = volume.metadata.labels
            zone = labels.get("topology.kubernetes.io/zone") or labels.get("failure-domain.beta.kubernetes.io/zone")
            return _gce(spec.gce_persistent_disk.pd_name, zone or "UNSPECIFIED")
        return None


def _aws(volume_id: str) -> Attachable:
    # Written as aws://zone/id or as the id alone.
    return Attachable(_DRIVER_OF["kubernetes.io/aws-ebs"], volume_id.rsplit("/", 1)[-1], "kubernetes.io/aws-ebs")


def _gce(disk: str, zone: str) -> Attachable:
    handle = f"projects/UNSPECIFIED/zones/{zone}/disks/{disk}"
    return Attachable(_DRIVER_OF["kubernetes.io/gce-pd"], handle, "kubernetes.io/gce-pd")
