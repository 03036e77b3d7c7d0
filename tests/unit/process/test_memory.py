"""The garbage collector (frozen objects, young objects, full collections), and freed memory that is kept."""

from __future__ import annotations

import gc

from muster.process.memory import FULL_COLLECTION_PERIOD_S, GarbageCollection, keep_freed_memory


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_there_is_not_looked_at_again_and_all_is_as_before_afterwards() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with GarbageCollection().frozen():
        assert gc.get_freeze_count() > frozen and gc.get_threshold() != before
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0


def test_a_full_collection_is_made_now_and_then() -> None:
    full: list[str] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start" and about["generation"] == 2:
            full.append(phase)

    clock = Clock()
    collecting = GarbageCollection(clock)
    gc.callbacks.append(note)
    try:
        with collecting.frozen():
            full.clear()
            collecting.collect_if_due()
            assert full == []
            clock.now = FULL_COLLECTION_PERIOD_S
            collecting.collect_if_due()
            collecting.collect_if_due()
            assert full == ["start"]
    finally:
        gc.callbacks.remove(note)


def test_it_may_be_said_twice_and_arrays_are_made_as_before() -> None:
    import numpy as np

    keep_freed_memory()
    keep_freed_memory()
    assert np.ones(1 << 20).sum() == 1 << 20
