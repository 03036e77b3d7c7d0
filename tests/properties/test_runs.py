"""A run of equal pods is placed as if its pods came one at a time, whatever the scores normalise over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from builders.manifests import node, queue, state_of
from builders.queued_jobs import job, of
from fakes.plugins import Score, ShareOfBest, session_of

POINTS = st.integers(0, 10)


@st.composite
def nodes(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Per node: its cores, its points that are normalised, and its points that are not (ten times these)."""
    return draw(st.lists(st.tuples(st.integers(1, 2), POINTS, POINTS), min_size=3, max_size=5))


def landed(given_nodes: list[tuple[int, int, int]], count: int, together: bool) -> list[int]:
    state = state_of(
        *(node(f"n{i}", cpu=cores) for i, (cores, _, _) in enumerate(given_nodes)), queue("q"), job("a", waiting=count)
    )
    normalised, plain = ([float(one[i]) for one in given_nodes] for i in (1, 2))
    session = session_of(state, [ShareOfBest(normalised), Score([10 * points for points in plain])])
    run = list(of(state, "a").tasks.values())
    statement = session.statement()
    for some in [run] if together else [[task] for task in run]:
        session.placement.place(statement, some)
    return [task.node for task in run]


@given(nodes(), st.integers(2, 6))
def test_a_run_lands_where_its_pods_would_one_at_a_time(given_nodes: list[tuple[int, int, int]], count: int) -> None:
    assert landed(given_nodes, count, together=True) == landed(given_nodes, count, together=False)
