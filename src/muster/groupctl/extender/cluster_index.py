"""The cluster as the extender sees it: who owns a pod, which group holds a node, how many pods a unit has where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import FetchOwner, owner_lookup
from muster.groupctl.unit_counts import UnitCounts
from muster.groups.applications import Application, Unit, application_of
from muster.groups.grouping import Grouping
from muster.groups.policies import BoundPolicy, PlacementRefusal
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Node, Pod
from muster.model.custom import CustomApplication
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.meta import Object, key
from muster.model.pod_states import is_active
from muster.store import Change, Store

KINDS: tuple[type[Object], ...] = (Node, Pod, NodeGroup, PropagationPolicy, *APPLICATION_KINDS)


class ClusterIndex:
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
        self._unit_counts = UnitCounts()
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
            self._grouping_cache.observe(event.kind, old, self._tables[event.kind].get(event.key))

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
        return self._unit_counts.per_group(unit, groups, self.grouping, but)

    def place(self, uid: str) -> tuple[Unit, str] | None:
        """The unit and node of a pod that counts."""
        return self._unit_counts.node_of(uid)

    # --- following

    def _put(self, kind: str, name: str, obj: Object) -> None:
        if isinstance(obj, Pod):
            self._unit_counts.put(name, obj)
            if obj.spec.node_name or obj.metadata.deletion_timestamp is not None:
                self._ended(name, obj)
        self._tables[kind][name] = obj

    def _remove(self, kind: str, name: str) -> None:
        gone = self._tables[kind].pop(name, None)
        if isinstance(gone, Pod):
            self._unit_counts.remove(name)
            self._ended(name, gone)


def is_pending(pod: Pod) -> bool:
    """May the pod still get a node?"""
    return not pod.spec.node_name and is_active(pod)


def _nobody(kind: str, name: str, uid: str) -> None:
    """A cluster in files has what it has."""
