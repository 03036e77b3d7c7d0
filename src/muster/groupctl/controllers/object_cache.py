"""A controller's cache of the kinds that it reads, kept current by a watch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar, cast

from muster.groups.applications import owner_ref
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.store import Change, Store

T = TypeVar("T", bound=Object)
Ref = tuple[str, str]  # kind, key


class ObjectChange(NamedTuple):
    """An object before and after a change; None: it did not exist, or was deleted."""

    kind: str
    key: str
    old: Object | None
    new: Object | None


class ObjectCache:
    """Objects by kind and key, and by the owner that controls them."""

    def __init__(self, store: Store, kinds: Sequence[type[Object]]) -> None:
        self._tables: dict[str, dict[str, Object]] = {kind.__name__: {} for kind in kinds}
        self._owned: dict[Ref, dict[Ref, None]] = {}
        self._first: list[ObjectChange] = []
        # Before the lists, so that no deletion in between is missed; an object that comes twice is no change.
        self._watch = store.watch("", kinds)
        for kind in kinds:
            for obj in store.list(kind).items:
                self._first.append(self._put(kind.__name__, key_of(obj), obj))

    def take_changes(self) -> list[ObjectChange]:
        """The changes since the last call; at the first call, all objects as created."""
        changes, self._first = self._first, []
        for event in self._watch.take():
            gone = event.change == Change.DELETED
            change = self._put(event.kind, event.key, None if gone else event.object)
            if change.old is not change.new:
                changes.append(change)
        return changes

    def of(self, kind: type[T]) -> Mapping[str, T]:
        return cast("Mapping[str, T]", self._tables[kind.__name__])

    def keys(self, kind: str) -> list[str]:
        return sorted(self._tables[kind])

    def lookup(self, kind: str, key: str) -> Object | None:
        return self._tables.get(kind, {}).get(key)

    def owned(self, owner: Ref, kind: type[T]) -> list[T]:
        """The objects of that kind that the owner controls, sorted by name."""
        table, name = self.of(kind), kind.__name__
        return [table[key] for of, key in sorted(self._owned.get(owner, ())) if of == name]

    def owned_workloads(self, owner: Ref) -> list[Ref]:
        """The objects other than pods that the owner controls, sorted by name."""
        return sorted(ref for ref in self._owned.get(owner, ()) if ref[0] != "Pod")

    def _put(self, kind: str, key: str, new: Object | None) -> ObjectChange:
        table = self._tables[kind]
        old = table.pop(key, None)
        if new is not None:
            table[key] = new
        before, after = (None if obj is None else owner_ref(obj) for obj in (old, new))
        if before != after or old is None:
            if before is not None:
                self._owned.get(before, {}).pop((kind, key), None)
            if after is not None:
                self._owned.setdefault(after, {})[kind, key] = None
        elif new is None and before is not None:
            self._owned.get(before, {}).pop((kind, key), None)
        return ObjectChange(kind, key, old, new)
