"""Plays the operators of described workload kinds: creates the pods of a workload, or the object that creates them.

Pods are counted by gang and pod set, because the pods of a snapshot have other names than those that are created here.
An operator's further rules (restarts, autoscaling, order of start) are not played.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from muster.cluster.owners import OwnerKey, Owners, reference
from muster.groups.applications import owner_ref
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Pod
from muster.model.custom import ConfiguredApplication
from muster.model.kinds import decode_as, find
from muster.model.meta import key
from muster.model.pod_states import is_terminating
from muster.store import Severity
from muster.store.event_reasons import EventReason
from muster.workloads.description import KindDescription
from muster.workloads.workload import NewPod, PodSet, Workload, description_of, read_workload

WantedPod = tuple[PodSet, NewPod]


class DescribedWorkloads:
    """The operators of all described kinds."""

    def __init__(self, owners: Owners, kinds: Sequence[type[ConfiguredApplication]]) -> None:
        self._owners = owners
        self._store = owners.store
        self._names = {kind.__name__ for kind in kinds}
        self._wanted: dict[OwnerKey, tuple[ConfiguredApplication, list[WantedPod]]] = {}
        # Workloads of a snapshot whose pods, or the objects that create them, the operator has created.
        self._played: set[OwnerKey] = {*self._with_labelled_pods(kinds), *self._with_children()}

    def _with_labelled_pods(self, kinds: Sequence[type[ConfiguredApplication]]) -> Iterator[OwnerKey]:
        """Yields the workloads whose pods another object controls, as the Jobs of a JobSet do."""
        by_label = [(kind.__name__, label) for kind in kinds for label in _described(kind).pods.owner_labels]
        for pod in self._store.of(Pod).values():
            owner = owner_ref(pod)
            for kind, label in by_label:
                value = pod.metadata.labels.get(label)
                if value is not None and (owner is None or owner[0] not in self._names):
                    yield kind, f"{pod.metadata.namespace}/{value}"

    def _with_children(self) -> Iterator[OwnerKey]:
        """Yields the workloads that control an object whose controller creates the pods."""
        for kind in APPLICATION_KINDS:
            for child in self._store.of(kind).values():
                owner = owner_ref(child)
                if owner is not None and owner[0] in self._names:
                    yield owner

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
                self._store.event(owner, Severity.WARNING, EventReason.FAILED_CREATE, f"{fault.path}: {fault.message}")
        self._create_pods(owner, workload)

    def _create_pods(self, owner: ConfiguredApplication, workload: Workload) -> None:
        pods = workload.description.pods
        there = self._owners.pods.of(owner)

        def slot(labels: dict[str, str]) -> tuple[str, str]:
            role = next((labels[name] for name in pods.role_labels if name in labels), "")
            return labels.get(pods.gang_label, ""), role

        have = Counter(slot(pod.metadata.labels) for pod in there if not is_terminating(pod))
        wanted = self._wanted_pods(owner, workload)
        missing = Counter(slot(pod.labels) for _, pod in wanted)
        missing.subtract(have)
        taken = {pod.metadata.name for pod in there}
        for pod_set, pod in wanted:
            if missing[slot(pod.labels)] > 0 and pod.name not in taken:
                missing[slot(pod.labels)] -= 1
                self._owners.make(
                    owner, pod_set.template, name=pod.name, labels=pod.labels, annotations=pod.annotations
                )

    def _wanted_pods(self, owner: ConfiguredApplication, workload: Workload) -> list[WantedPod]:
        """Returns all pods of a workload; computed once for each version of it."""
        at = type(owner).__name__, key(owner)
        known = self._wanted.get(at)
        if known is None or known[0] is not owner:
            gangs = range(workload.gangs)
            every = ((pod_set, gang) for gang in gangs for pod_set in workload.pod_sets)
            pods = [(pod_set, pod) for pod_set, gang in every for pod in pod_set.pods(gang, workload.gangs)]
            known = self._wanted[at] = owner, pods
        return known[1]

    def _create_child(self, owner: ConfiguredApplication, workload: Workload) -> None:
        """Creates the object that the operator makes of this one, unless one is there."""
        child = workload.child
        if child is None:
            return
        kind = find(child["apiVersion"], child["kind"]) or next(iter(type(owner).makes), None)
        if kind is None:
            return  # the table has a finding about it
        mine = type(owner).__name__, key(owner)
        if any(owner_ref(other) == mine for other in self._store.of(kind).values()):
            return
        metadata = {**child["metadata"], "ownerReferences": [msgspec.to_builtins(reference(owner))]}
        self._store.create(decode_as(kind, {**child, "metadata": metadata}))


def _described(kind: type[ConfiguredApplication]) -> KindDescription:
    found = description_of(kind)
    assert found is not None
    return found
