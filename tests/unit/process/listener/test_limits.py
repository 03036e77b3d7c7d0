"""Which connection is closed when there are too many, or too many bytes."""

from __future__ import annotations

import pytest

from muster.process.listener.limits import Connection, Limits, Load, is_loopback


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def opened(load: Load, closed: list[str], name: str, **state: bool) -> Connection:
    one = Connection(lambda: closed.append(name), **state)
    assert load.open(one)
    return one


def test_at_the_limit_the_oldest_that_is_not_authenticated_is_closed(clock: Clock) -> None:
    load, closed = Load(Limits(connections=3), clock), list[str]()
    opened(load, closed, "scheduler", authenticated=True)
    slow = opened(load, closed, "slow")
    clock.now = 1.0
    opened(load, closed, "new")
    clock.now = 2.0
    later = Connection(lambda: None)
    assert not load.open(later) and closed == ["slow"]
    load.close(slow)
    assert load.open(later) and load.closed == 1


def test_one_that_is_being_answered_or_has_just_come_is_not_closed(clock: Clock) -> None:
    load, closed = Load(Limits(connections=2), clock), list[str]()
    load.received(opened(load, closed, "answered"))
    clock.now = 5.0
    opened(load, closed, "just come")
    clock.now = 5.2
    assert not load.open(Connection(lambda: None)) and closed == []
    clock.now = 5.6
    assert not load.open(Connection(lambda: None)) and closed == ["just come"]


def test_an_authenticated_one_that_is_idle_is_closed_only_if_there_is_no_other(clock: Clock) -> None:
    load, closed = Load(Limits(connections=2), clock), list[str]()
    first = opened(load, closed, "first", authenticated=True)
    clock.now = 1.0
    opened(load, closed, "second", authenticated=True)
    clock.now = 2.0
    for _ in range(3):
        assert not load.open(Connection(lambda: None)) and closed == ["first"], "its thread has not ended yet"
    load.close(first)
    opened(load, closed, "third")
    assert not load.open(Connection(lambda: None)) and closed == ["first", "second"], "the third has just come"


def test_one_that_is_closed_but_answers_first_does_not_count_as_free(clock: Clock) -> None:
    load, closed = Load(Limits(body_bytes=100), clock), list[str]()
    complete, stalled, new = (opened(load, closed, name) for name in ("complete", "stalled", "new"))
    assert load.take(complete, 60) and load.take(stalled, 30)
    clock.now = 1.0
    load.began(new)
    assert not load.take(new, 30) and closed == ["complete"]
    load.received(complete)  # its last byte had come before it was closed
    assert not load.take(new, 30) and closed == ["complete", "stalled"]


def test_bytes_are_counted_until_the_answer_and_the_oldest_gives_way(clock: Clock) -> None:
    load, closed = Load(Limits(body_bytes=100), clock), list[str]()
    stalled, new = opened(load, closed, "stalled"), opened(load, closed, "new")
    second = opened(load, closed, "second")
    assert load.take(stalled, 60) and load.take(second, 30)
    clock.now = 1.0
    load.began(new)
    for _ in range(3):
        assert not load.take(new, 30) and closed == ["stalled"], "one is enough, and its thread has not ended yet"
    load.close(stalled)
    load.close(second)
    assert load.take(new, 30) and load.body_bytes == 30
    load.answered(new)
    assert load.body_bytes == 0


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("example.org", False), ("", False)],
)  # fmt: skip
def test_loopback(host: str, local: bool) -> None:
    assert is_loopback(host) is local
