"""The collector: what is there stays, what is young is collected, the rest now and then."""

from __future__ import annotations

import gc

from muster.process.garbage_collection import SELDOM, Collecting


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_there_is_not_looked_at_again_and_all_is_as_before_afterwards() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with Collecting().for_long():
        assert gc.get_freeze_count() > frozen and gc.get_threshold() != before
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0


def test_a_full_collection_is_made_now_and_then() -> None:
    full: list[str] = []

    def note(phase: str, about: dict[str, int]) -> None:
        if phase == "start" and about["generation"] == 2:
            full.append(phase)

    clock = Clock()
    collecting = Collecting(clock)
    gc.callbacks.append(note)
    try:
        with collecting.for_long():
            full.clear()
            collecting.now_and_then()
            assert full == []
            clock.now = SELDOM
            collecting.now_and_then()
            collecting.now_and_then()
            assert full == ["start"]
    finally:
        gc.callbacks.remove(note)
