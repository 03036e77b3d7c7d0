"""The cluster as the extender sees it: who owns a pod, which group holds a node, how many pods a unit has where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import FetchOwner, owner_lookup
from muster.groups.applications import APPLICATIONS, Application, Unit, application_of, unit_of
from muster.groups.grouping import Grouping
from muster.groups.policies import BoundPolicy, PlacementRefusal
from muster.model.core import Node, Pod
from muster.model.custom import CustomApplication
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.meta import Object, key
from muster.model.pod_states import is_active
from muster.store import Change, Store

KINDS: tuple[type[Object], ...] = (Node, Pod, NodeGroup, PropagationPolicy, *APPLICATIONS)


class View:
    """Follows a store; `refresh` takes in what changed since the last time."""

    def __init__(
        self,
        store: Store,
        ended: Callable[[str, Pod], None],
        custom: Sequence[type[CustomApplication]] = (),
        ask: FetchOwner | None = None,
    ) -> None:
        """`ended` is told of pods (with their key) that have a node now, or are gone. `custom`: the configured kinds.

        `ask` is asked for owners that the store does not have (yet).
        """
        kinds = (*KINDS, *custom)
        self._ended = ended
        self._ask = ask or _nobody
        self._custom = frozenset(kind.__name__ for kind in custom)
        self._tables: dict[str, dict[str, Object]] = {kind.__name__: {} for kind in kinds}
        self._on: dict[Unit, dict[str, str]] = {}  # unit's direct owner → pod → node, of pods that count
        self._places: dict[str, tuple[Unit, str]] = {}  # uid of a pod that counts → owner, node
        # What was asked of a unit, by groups: pods per group, kept current from then on.
        self._counts: dict[Unit, dict[tuple[str, ...], dict[str, int]]] = {}
        self._grouping_cache = GroupingCache(self._tables)
        # Before the lists, so that nothing that goes in between is missed.
        self._watch = store.watch("", kinds)
        for kind in kinds:
            for obj in store.list(kind).items:
                self._put(kind.__name__, key(obj), obj)
        self.refresh()

    def refresh(self) -> None:
        """Take in what happened."""
        for event in self._watch.take():
            old = self._tables[event.kind].get(event.key)
            if event.change == Change.DELETED:
                self._remove(event.kind, event.key)
            elif event.object is not old:
                self._put(event.kind, event.key, event.object)
            if self._grouping_cache.observe(event.kind, old, self._tables[event.kind].get(event.key)):
                self._counts.clear()

    def close(self) -> None:
        self._watch.close()

    @property
    def grouping(self) -> Grouping:
        """Nodes, groups and policies as they are."""
        return self._grouping_cache.grouping

    # --- questions

    def application(self, pod: Pod) -> Application:
        """The pod's application; OwnerLoop if there is no end to its owners."""
        return application_of(pod, owner_lookup(pod, self._tables, self._ask), self._custom)

    def pod(self, name: str) -> Pod | None:
        found = self._tables["Pod"].get(name)
        return found if isinstance(found, Pod) else None

    def waiting(self) -> Iterator[tuple[str, Pod]]:
        """Key and pod of those that have no node and could get one."""
        for name, pod in self._tables["Pod"].items():
            if isinstance(pod, Pod) and is_pending(pod) and not pod.spec.scheduling_gates:
                yield name, pod

    def ruling(self, application: Application) -> BoundPolicy | PlacementRefusal | None:
        return self.grouping.policies.rule_for(application)

    def counts(self, unit: Unit, groups: tuple[str, ...], but: str = "") -> dict[str, int]:
        """How many pods of the unit (but for the one of that key) each group has."""
        group_of = self.grouping.group_of(groups)
        on = self._on.get(unit, {})
        of_unit = self._counts.setdefault(unit, {})
        known = of_unit.get(groups)
        if known is None:
            known = of_unit[groups] = {}
            for node in on.values():
                _add(known, group_of.get(node), 1)
        counts = dict(known)
        if but in on:
            _add(counts, group_of.get(on[but]), -1)
        return counts

    def place(self, uid: str) -> tuple[Unit, str] | None:
        """The unit and node of a pod that counts."""
        return self._places.get(uid)

    # --- following

    def _put(self, kind: str, name: str, obj: Object) -> None:
        if isinstance(obj, Pod):
            self._remove_pod(name)
            self._count(name, obj)
        self._tables[kind][name] = obj

    def _remove(self, kind: str, name: str) -> None:
        gone = self.pod(name) if kind == "Pod" else None
        if gone is not None:
            self._remove_pod(name)
            self._ended(name, gone)
        self._tables[kind].pop(name, None)

    def _count(self, name: str, pod: Pod) -> None:
        """Bound, not finished, not terminating: such pods count."""
        meta = pod.metadata
        if not pod.spec.node_name and meta.deletion_timestamp is None:
            return
        self._ended(name, pod)
        if is_active(pod):
            unit = unit_of(name, pod)
            self._on.setdefault(unit, {})[name] = pod.spec.node_name
            self._places[meta.uid] = (unit, pod.spec.node_name)
            self._recount(unit, pod.spec.node_name, 1)

    def _remove_pod(self, name: str) -> None:
        old = self._tables["Pod"].pop(name, None)
        if not isinstance(old, Pod):
            return
        unit = unit_of(name, old)
        node = self._on.get(unit, {}).pop(name, None)
        if node is not None:
            self._places.pop(old.metadata.uid, None)
            self._recount(unit, node, -1)
            if not self._on[unit]:
                del self._on[unit]
                self._counts.pop(unit, None)

    def _recount(self, unit: Unit, node: str, by: int) -> None:
        for groups, counts in self._counts.get(unit, {}).items():
            _add(counts, self.grouping.group_of(groups).get(node), by)


def is_pending(pod: Pod) -> bool:
    """May the pod still get a node?"""
    return not pod.spec.node_name and is_active(pod)


def _add(counts: dict[str, int], group: str | None, by: int) -> None:
    if group is not None:
        counts[group] = counts.get(group, 0) + by


def _nobody(kind: str, name: str, uid: str) -> None:
    """A cluster in files has what it has."""
