"""Python's collector rests while a cluster is read, and is afterwards what it was before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from muster.model.collector import collector_paused


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    was_on = gc.isenabled()
    yield
    (gc.enable if was_on else gc.disable)()


def test_the_collector_rests_inside_the_block() -> None:
    gc.enable()
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_a_fault_inside_turns_it_on_again() -> None:
    gc.enable()
    with pytest.raises(ValueError, match="a fault"), collector_paused():
        raise ValueError("a fault")
    assert gc.isenabled()
