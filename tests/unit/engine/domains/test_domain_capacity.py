"""Free capacity of domains: counted once, then repaired from the log; the same as counted anew."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders.manifests import queue, state_of
from builders.racks import gang, gpu_node, member, members, scheduler
from muster.engine.core.session import Session
from muster.engine.domains.domain_capacity import FREE, NOW, DomainCapacity
from muster.engine.domains.domain_tree import DomainTree, tree_of


def opened(count: int = 6, **more: str) -> Session:
    nodes = [gpu_node(f"n{i}", gpus=i, **more) for i in range(count)]
    return scheduler().session(state_of(queue(), *nodes, gang("job", 4), *members("job", 4)), 0.0)


def pairs(count: int = 6) -> DomainTree:
    codes = np.array([[i // 2 if i < count - 1 else -1 for i in range(count)]])
    return tree_of("tree", ["pair"], codes, [["a", "b", "c"]])


def test_copies_are_counted_per_domain_without_nodes_outside() -> None:
    session = opened()
    sums = DomainCapacity(session).copies(session.state.tasks["d/job-0"]).sums(pairs().everything)
    assert sums[1][FREE].tolist() == [1, 5, 4] and sums[0][FREE].tolist() == [10]


def test_what_is_being_released_counts_later_not_now() -> None:
    terminating = member("old", 0, gpus=1, on="n1")
    terminating.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    nodes = [gpu_node(f"n{i}", gpus=i) for i in range(6)]
    state = state_of(
        queue(), *nodes, gang("old", 0, phase="Running"), terminating, gang("job", 1), *members("job", 1)
    )
    session = scheduler().session(state, 0.0)
    sums = DomainCapacity(session).copies(state.tasks["d/job-0"]).sums(pairs().everything)
    assert (sums[1][FREE, 0], sums[1][NOW, 0]) == (1, 0)


def test_nodes_that_never_take_the_pod_have_no_capacity() -> None:
    session = opened()
    task = session.state.tasks["d/job-0"]
    session.placement.answers(task).static[:4] = False
    assert DomainCapacity(session).copies(task).sums(pairs().everything)[1][FREE].tolist() == [0, 0, 4]


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=12), st.lists(st.integers(0, 5), unique=True))
def test_repaired_counts_are_the_same_as_fresh_ones(moves: list[tuple[int, bool]], some: list[int]) -> None:
    session, tree = opened(), pairs()
    task = session.state.tasks["d/job-0"]
    capacity = DomainCapacity(session)
    cuts = [tree.everything, tree.cut(np.array(sorted(some), np.int64))]
    statement = session.statement()
    others = iter(session.jobs["d/job"].tasks.values())
    for at, back in moves:
        if back:
            statement.rollback(max(len(statement.moves) - 1, 0))
            others = iter([t for t in session.jobs["d/job"].tasks.values() if t.node < 0])
        elif (free := next(others, None)) is not None:
            statement.allocate([free], [at])
        for cut in cuts:
            anew = DomainCapacity(session)
            for column, fresh in ((capacity.copies(task), anew.copies(task)), (capacity.free(), anew.free())):
                for kept, anew in zip(column.sums(cut), fresh.sums(cut), strict=True):
                    assert (kept == anew).all()
