"""Indexes the cluster for the extender: the owner of a pod, the group of a node, the pods of a unit per group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from muster.groupctl.grouping_cache import GroupingCache, UnitCounts
from muster.groupctl.owners import FetchOwner, owner_lookup
from muster.groups.applications import Application, Unit, application_of
from muster.groups.grouping import Grouping
from muster.groups.propagation import BoundPolicy, PlacementRefusal
from muster.model.batch import APPLICATION_KINDS
from muster.model.core import Node, Pod
from muster.model.custom import CustomApplication
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.meta import Object, key
from muster.model.pod_states import is_active
from muster.store import Change, Store

KINDS: tuple[type[Object], ...] = (Node, Pod, NodeGroup, PropagationPolicy, *APPLICATION_KINDS)


class ClusterIndex:
    """Follows a store; `refresh` applies the watch events since the last call."""

    def __init__(
        self,
        store: Store,
        ended: Callable[[str, Pod], None],
        custom: Sequence[type[CustomApplication]] = (),
        fetch_owner: FetchOwner | None = None,
    ) -> None:
        """Calls `ended` with key and pod when a pod is bound or deleted. `custom` are the configured kinds;
        `fetch_owner` fetches owners that the store does not have yet.
        """
        kinds = (*KINDS, *custom)
        self._ended = ended
        self._fetch_owner = fetch_owner or _fetch_nothing
        self._custom = frozenset(kind.__name__ for kind in custom)
        self._tables: dict[str, dict[str, Object]] = {kind.__name__: {} for kind in kinds}
        self._unit_counts = UnitCounts()
        self._grouping_cache = GroupingCache(self._tables)
        # Opened before the lists, so that no event between them is missed.
        self._watch = store.watch("", kinds)
        for kind in kinds:
            for obj in store.list(kind).items:
                self._put(kind.__name__, key(obj), obj)
        self.refresh()

    def refresh(self) -> None:
        """Applies the watch events since the last call."""
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
        """The current nodes, groups and policies."""
        return self._grouping_cache.grouping

    # --- queries

    def application(self, pod: Pod) -> Application:
        """Returns the pod's application; raises OwnerLoop if its owners form a cycle."""
        return application_of(pod, owner_lookup(pod, self._tables, self._fetch_owner), self._custom)

    def pod(self, name: str) -> Pod | None:
        found = self._tables["Pod"].get(name)
        return found if isinstance(found, Pod) else None

    def waiting(self) -> Iterator[tuple[str, Pod]]:
        """Yields key and pod of the pending pods without scheduling gates."""
        for name, pod in self._tables["Pod"].items():
            if isinstance(pod, Pod) and is_pending(pod) and not pod.spec.scheduling_gates:
                yield name, pod

    def ruling(self, application: Application) -> BoundPolicy | PlacementRefusal | None:
        return self.grouping.policies.rule_for(application)

    def counts(self, unit: Unit, groups: tuple[str, ...], but: str = "") -> dict[str, int]:
        """Returns the number of pods of the unit per group, without the pod `but`."""
        return self._unit_counts.per_group(unit, groups, self.grouping, but)

    def place(self, uid: str) -> tuple[Unit, str] | None:
        """Returns the unit and node of a counted pod."""
        return self._unit_counts.node_of(uid)

    # --- watch events

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
    """Returns whether the pod can still be bound."""
    return not pod.spec.node_name and is_active(pod)


def _fetch_nothing(kind: str, name: str, uid: str) -> None:
    """Fetches nothing: a cluster in files is complete."""
