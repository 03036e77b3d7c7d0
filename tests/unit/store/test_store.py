"""The store in memory keeps the protocol that controllers are written against."""

from __future__ import annotations

from muster.cluster.memory import MemoryStore, VirtualClock
from muster.store import Store
from muster.store.errors import AlreadyExists, Conflict, Gone, NotFound


def test_the_store_in_memory_is_a_store() -> None:
    store: Store = MemoryStore(VirtualClock(7.0))
    assert store.clock.now() == 7.0


def test_refusals_say_which_object_and_why() -> None:
    assert str(NotFound.of("Pod", "a/b")) == "Pod a/b does not exist"
    assert str(AlreadyExists.of("Pod", "a/b")) == "Pod a/b exists already"
    assert str(Conflict.of("Pod", "a/b", "is being deleted")) == "Pod a/b: is being deleted"
    assert "list again" in str(Gone.since("12"))
