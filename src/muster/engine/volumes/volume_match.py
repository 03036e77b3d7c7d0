"""Finds a volume for an unbound claim on each node: a free volume, or one that its class can provision.

kube-scheduler's choice is the smallest volume that fits among those the node reaches; equal sizes are settled by name.
For all nodes at once: of the free candidates only the first few of each pool of nodes can be chosen, so a
choice costs as much as the nodes of the pools, whatever the number of volumes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from muster.engine.core.hooks import Bools, Index
from muster.engine.volumes.volume_claims import VolumeClaim, VolumeClaims, class_of_volume
from muster.engine.volumes.volume_topology import VolumeTopology
from muster.model.meta import Object
from muster.model.pod_states import is_terminating
from muster.model.quantity import QuantityError, units
from muster.model.selectors import check_label_selector, matches
from muster.model.storage import CSIDriver, CSIStorageCapacity, PersistentVolume, StorageClass

_encode = msgspec.msgpack.Encoder().encode
_LATER = np.iinfo(np.int64).max


class ClassVolumes:
    """The unclaimed volumes of one class, smallest first."""

    __slots__ = ("free", "ids", "pools", "sizes", "volumes")

    def __init__(self, ids: list[int], volumes: list[PersistentVolume], sizes: list[int], pools: list[int]) -> None:
        self.volumes = volumes
        self.ids: Index = np.array(ids, np.int64)
        self.sizes: Index = np.array(sizes, np.int64)
        self.pools: Index = np.array(pools, np.int64)
        self.free: Bools = np.ones(len(ids), np.bool_)


class VolumeMatcher:
    def __init__(self, volumes: Mapping[str, Object], topology: VolumeTopology) -> None:
        self.topology = topology
        self.names: list[str] = sorted(volumes)
        self.number = {name: i for i, name in enumerate(self.names)}
        self._classes: dict[str, ClassVolumes] = {}
        self._place: dict[str, tuple[ClassVolumes, int]] = {}
        self._claim_refs: dict[str, list[PersistentVolume]] = {}  # claim key → volumes that name it
        self._candidates: dict[object, Index] = {}
        self._read({name: v for name, v in sorted(volumes.items()) if isinstance(v, PersistentVolume)})

    def _read(self, volumes: dict[str, PersistentVolume]) -> None:
        rows: dict[str, list[tuple[int, str]]] = {}
        for name, volume in volumes.items():
            if is_terminating(volume):
                continue
            ref = volume.spec.claim_ref
            if ref is not None:
                self._claim_refs.setdefault(f"{ref.namespace or 'default'}/{ref.name}", []).append(volume)
            elif volume.status.phase in ("Available", ""):  # no status, as in a manifest: unclaimed
                size = size_of(volume)
                if size is not None:
                    rows.setdefault(class_of_volume(volume), []).append((size, name))
        for storage_class, row in rows.items():
            row.sort()
            ordered = [volumes[name] for _, name in row]
            pools = [self.topology.pool(v) for v in ordered]
            table = ClassVolumes([self.number[n] for _, n in row], ordered, [size for size, _ in row], pools)
            self._classes[storage_class] = table
            for i, (_, name) in enumerate(row):
                self._place[name] = (table, i)

    def take(self, volume: str) -> None:
        """The volume is reserved."""
        place = self._place.get(volume)
        if place is not None:
            place[0].free[place[1]] = False

    def release(self, volume: str) -> None:
        place = self._place.get(volume)
        if place is not None:
            place[0].free[place[1]] = True

    def choose(self, claim: VolumeClaim, earlier: Sequence[Index]) -> Index:
        """Per node the number of the volume the claim would get there, −1 = none.

        `earlier` are the choices made for other claims of the same pod: a volume is given once.
        """
        nodes = len(self.topology.nodes)
        prebound = self._prebound(claim)
        if prebound is not None:
            # kube-scheduler: a volume that names the claim is the claim's; where it does not reach there is none.
            return np.where(self.topology.mask(self.topology.pool(prebound)), self.number[prebound.metadata.name], -1)
        table = self._classes.get(claim.storage_class)
        if table is None:
            return np.full(nodes, -1)
        found = self._fitting(claim, table)
        found = _first_of_each(found[table.free[found]], table.pools, 1 + len(earlier))
        position, node = self.topology.spread(table.pools[found])
        for other in earlier:
            still = other[node] != table.ids[found[position]]
            position, node = position[still], node[still]
        first = np.full(nodes, _LATER)
        np.minimum.at(first, node, position)
        # Positions are in order of size and name, so the first is the smallest.
        chosen = np.full(nodes, -1)
        got = first != _LATER
        chosen[got] = table.ids[found[first[got]]]
        return chosen

    def _prebound(self, claim: VolumeClaim) -> PersistentVolume | None:
        for volume in self._claim_refs.get(claim.key, ()):
            ref = volume.spec.claim_ref
            if ref is None or (ref.uid and ref.uid != (claim.object.metadata.uid or claim.key)):
                continue
            size = size_of(volume)
            if size is None or size < (claim.size or 0) or class_of_volume(volume) != claim.storage_class:
                continue
            if volume.spec.volume_mode == claim.object.spec.volume_mode:
                return volume
        return None

    def _fitting(self, claim: VolumeClaim, table: ClassVolumes) -> Index:
        """Positions in the table of the volumes that are large enough and of the kind that the claim requests."""
        spec = claim.object.spec
        modes = frozenset(spec.access_modes)
        selector = None if spec.selector is None else _encode(spec.selector)
        key = (claim.storage_class, claim.size, modes, spec.volume_mode, selector)
        found = self._candidates.get(key)
        if found is None:
            start = int(np.searchsorted(table.sizes, claim.size or 0))
            fitting = [
                i
                for i, volume in enumerate(table.volumes[start:], start)
                if volume.spec.volume_mode == spec.volume_mode
                and modes.issubset(volume.spec.access_modes)
                and (spec.selector is None or _selects(claim, volume))
            ]
            found = self._candidates[key] = np.array(fitting, np.int64)
        return found


def size_of(volume: PersistentVolume) -> int | None:
    """The volume's size in bytes; None if it cannot be read."""
    try:
        return units(volume.spec.capacity.get("storage", 0))
    except QuantityError:
        return None


def _selects(claim: VolumeClaim, volume: PersistentVolume) -> bool:
    try:
        check_label_selector(claim.object.spec.selector, "")
    except ValueError:
        return False
    return matches(claim.object.spec.selector, volume.metadata.labels)


def _first_of_each(found: Index, pools: Index, count: int) -> Index:
    """Of each pool the first `count`; what is left keeps its order."""
    if len(found) <= count:
        return found
    pool = pools[found]
    order = np.argsort(pool, kind="stable")
    sorted_pool = pool[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_pool[1:] != sorted_pool[:-1])))
    lengths = np.diff(np.append(starts, len(order)))
    place = np.arange(len(order)) - np.repeat(starts, lengths)
    return found[np.sort(order[place < count])]


NO_PROVISIONER = "kubernetes.io/no-provisioner"


class Provisioner:
    def __init__(
        self, objects: Mapping[str, Mapping[str, Object]], claims: VolumeClaims, topology: VolumeTopology
    ) -> None:
        self._drivers = objects.get("CSIDriver", {})
        self._capacities = [
            c for c in objects.get("CSIStorageCapacity", {}).values() if isinstance(c, CSIStorageCapacity)
        ]
        self._claims = claims
        self._topology = topology
        self._known: dict[tuple[str, int | None], tuple[Bools, Bools]] = {}

    def provisionable(self, claim: VolumeClaim) -> tuple[Bools, Bools]:
        """(nodes for which the claim's class may provision a volume, nodes for which its driver has the capacity)."""
        key = (claim.storage_class, claim.size)
        known = self._known.get(key)
        if known is None:
            count = len(self._topology.nodes)
            found = self._claims.storage_class(claim.storage_class)
            if found is None or found.provisioner in ("", NO_PROVISIONER):
                known = (np.zeros(count, np.bool_), np.ones(count, np.bool_))
            else:
                known = (self._topology.topologies(found.allowed_topologies), self._with_capacity(found, claim))
            self._known[key] = known
        return known

    def _with_capacity(self, storage_class: StorageClass, claim: VolumeClaim) -> Bools:
        driver = self._drivers.get(storage_class.provisioner)
        if claim.size is None or not isinstance(driver, CSIDriver) or not driver.spec.storage_capacity:
            return np.ones(len(self._topology.nodes), np.bool_)
        enough = np.zeros(len(self._topology.nodes), np.bool_)
        for capacity in self._capacities:
            if capacity.storage_class_name == claim.storage_class and _largest(capacity) >= claim.size:
                enough[self._topology.selected(capacity.node_topology)] = True
        return enough


def _largest(capacity: CSIStorageCapacity) -> int:
    """The largest volume that can still be provisioned, −1 if it is unknown."""
    largest = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    try:
        return -1 if largest is None else units(largest)
    except QuantityError:
        return -1
