"""Plays the operators of described workload kinds: creates the pods of a workload, or the object that creates them.

Pods are counted by gang and pod set, because the pods of a snapshot have other names than those that are created here.
An operator's further rules (restarts, autoscaling, order of start) are not played.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from muster.cluster.owners import Owners, reference
from muster.model.core import Pod
from muster.model.custom import ConfiguredApplication
from muster.model.kinds import decode_as
from muster.model.meta import controller, key, kind_name
from muster.model.pod_states import is_terminating
from muster.store import Severity
from muster.workloads.description import KindDescription
from muster.workloads.workload import Workload, description_of, read_workload


class DescribedWorkloads:
    """The operators of all described kinds."""

    def __init__(self, owners: Owners, kinds: Sequence[type[ConfiguredApplication]]) -> None:
        self._owners = owners
        self._store = owners.store
        # Workloads of a snapshot whose pods other objects of the snapshot control, as the Jobs of a JobSet do.
        self._played: set[tuple[str, str]] = set()
        by_label = [(kind.__name__, label) for kind in kinds for label in _described(kind).pods.owner_labels]
        names = {kind_name(kind) for kind in kinds}
        for pod in self._store.of(Pod).values():
            owner = controller(pod.metadata)
            for kind, label in by_label:
                value = pod.metadata.labels.get(label)
                if value is not None and (owner is None or owner.kind not in names):
                    self._played.add((kind, f"{pod.metadata.namespace}/{value}"))

    def reconcile(self, owner: ConfiguredApplication) -> None:
        """Creates what is missing of a workload."""
        description = _described(type(owner))
        workload = read_workload(owner, description)
        if workload.suspended or (type(owner).__name__, key(owner)) in self._played:
            return
        if description.creates is not None:
            self._create_child(owner, workload)
            return
        for fault in workload.faults:
            if fault.path.startswith("podSets"):
                self._store.event(owner, Severity.WARNING, "FailedCreate", f"{fault.path}: {fault.message}")
        self._create_pods(owner, workload)

    def _create_pods(self, owner: ConfiguredApplication, workload: Workload) -> None:
        labels = workload.description.pods
        there = self._owners.pods.of(owner)

        def slot(values: dict[str, str]) -> tuple[str, str]:
            return values.get(labels.gang_label, ""), values.get(labels.role_label, "")

        have = Counter(slot(pod.metadata.labels) for pod in there if not is_terminating(pod))
        wanted = [
            (pod_set, pod)
            for gang in range(workload.gangs)
            for pod_set in workload.pod_sets
            for pod in pod_set.pods(gang, workload.gangs)
        ]
        missing = Counter(slot(pod.labels) for _, pod in wanted)
        missing.subtract(have)
        taken = {pod.metadata.name for pod in there}
        for pod_set, pod in wanted:
            if missing[slot(pod.labels)] > 0 and pod.name not in taken:
                missing[slot(pod.labels)] -= 1
                self._owners.make(
                    owner, pod_set.template, name=pod.name, labels=pod.labels, annotations=pod.annotations
                )

    def _create_child(self, owner: ConfiguredApplication, workload: Workload) -> None:
        """Creates the object that the operator makes of this one, unless one is there."""
        child = workload.child
        if child is None or not type(owner).makes:
            return
        kind = type(owner).makes[0]
        mine = (reference(owner).kind, owner.metadata.name)
        for other in self._store.of(kind).values():
            above = controller(other.metadata)
            if above is not None and (above.kind, above.name) == mine:
                return
        child["metadata"]["ownerReferences"] = [msgspec.to_builtins(reference(owner))]
        self._store.create(decode_as(kind, child))


def _described(kind: type[ConfiguredApplication]) -> KindDescription:
    found = description_of(kind)
    assert found is not None
    return found


