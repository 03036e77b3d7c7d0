"""Task order: what plugins say, then the number at the end of a name of three parts, then age and uid."""

from __future__ import annotations

from itertools import permutations

from builders.manifests import group, pod, queue, state_of, typed
from builders.queued_jobs import session
from muster.model.meta import Object


def aged(name: str, day: int) -> Object:
    one = typed(pod(name, "g"))
    one.metadata.creation_timestamp = f"2026-01-0{day}T00:00:00Z"
    return one


def ordered(*pods: Object) -> list[str]:
    state = state_of(queue("q"), group("g", "q", phase="Inqueue"), *pods)
    return [t.name for t in session(state, "gang").in_order(state.jobs["default/g"].tasks.values())]


def test_numbers_go_before_age() -> None:
    assert ordered(aged("x-y-10", 1), aged("x-y-2", 5)) == ["x-y-2", "x-y-10"]


def test_a_name_of_two_parts_has_no_number() -> None:
    assert ordered(aged("x-10", 1), aged("x-2", 5)) == ["x-10", "x-2"]


def test_names_that_go_round_in_circles_have_one_order_whatever_came_first() -> None:
    """1 before 2 by number, 2 before the plain one by age, the plain one before 1 by age."""
    pods = [aged("x-y-1", 5), aged("plain", 3), aged("x-y-2", 1)]
    assert len({tuple(ordered(*some)) for some in permutations(pods)}) == 1
