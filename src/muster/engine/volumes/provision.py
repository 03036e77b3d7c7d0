"""Volumes that do not exist yet: for which nodes a class may make one, and for which its driver has the room."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from muster.engine.core.hooks import Bools
from muster.engine.volumes.volume_claims import Claim, Claims
from muster.engine.volumes.volume_topology import VolumeTopology
from muster.model.meta import Object
from muster.model.quantity import QuantityError, units
from muster.model.storage import CSIDriver, CSIStorageCapacity, StorageClass

NO_PROVISIONER = "kubernetes.io/no-provisioner"


class Provision:
    def __init__(self, objects: Mapping[str, Mapping[str, Object]], claims: Claims, topology: VolumeTopology) -> None:
        self._drivers = objects.get("CSIDriver", {})
        self._capacities = [
            c for c in objects.get("CSIStorageCapacity", {}).values() if isinstance(c, CSIStorageCapacity)
        ]
        self._claims = claims
        self._topology = topology
        self._known: dict[tuple[str, int | None], tuple[Bools, Bools]] = {}

    def makeable(self, claim: Claim) -> tuple[Bools, Bools]:
        """(nodes for which the claim's class may make a volume, nodes for which its driver has the room)."""
        key = (claim.storage_class, claim.size)
        known = self._known.get(key)
        if known is None:
            count = len(self._topology.nodes)
            found = self._claims.storage_class(claim.storage_class)
            if found is None or found.provisioner in ("", NO_PROVISIONER):
                known = (np.zeros(count, np.bool_), np.ones(count, np.bool_))
            else:
                known = (self._topology.topologies(found.allowed_topologies), self._roomy(found, claim))
            self._known[key] = known
        return known

    def _roomy(self, storage_class: StorageClass, claim: Claim) -> Bools:
        driver = self._drivers.get(storage_class.provisioner)
        if claim.size is None or not isinstance(driver, CSIDriver) or not driver.spec.storage_capacity:
            return np.ones(len(self._topology.nodes), np.bool_)
        roomy = np.zeros(len(self._topology.nodes), np.bool_)
        for capacity in self._capacities:
            if capacity.storage_class_name == claim.storage_class and _largest(capacity) >= claim.size:
                roomy[self._topology.selected(capacity.node_topology)] = True
        return roomy


def _largest(capacity: CSIStorageCapacity) -> int:
    """The largest volume that can still be made, −1 if it is not told."""
    told = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    try:
        return -1 if told is None else units(told)
    except QuantityError:
        return -1
