"""Picks computed ahead are handed out only while nothing but themselves was placed."""

from __future__ import annotations

import numpy as np

from builders.manifests import node, queue, state_of
from builders.queued_jobs import job, of, session
from muster.engine.core.hooks import NodeSet


def test_a_placement_on_a_set_of_nodes_voids_what_was_computed_for_all() -> None:
    state = state_of(*(node(f"n{i}", cpu=1) for i in range(8)), queue("q"), job("a", waiting=4))
    live = session(state, "gang")
    statement, waiting = live.statement(), list(of(state, "a").tasks.values())
    for task, within in zip(waiting, (None, None, NodeSet(np.array([2])), None), strict=True):
        assert live.placement.place(statement, [task], within) == 1
    assert [task.node for task in waiting] == [0, 1, 2, 3]


def test_what_was_computed_for_a_set_of_nodes_is_not_handed_out_for_another() -> None:
    state = state_of(*(node(f"n{i}", cpu=40) for i in range(4)), queue("q"), job("a", waiting=60))
    live = session(state, "gang")
    statement, waiting = live.statement(), list(of(state, "a").tasks.values())
    one, other = NodeSet(np.array([0, 1])), NodeSet(np.array([2, 3]))
    for i, task in enumerate(waiting):
        within = other if i % 20 == 19 else one
        assert live.placement.place(statement, [task], within) == 1
        assert task.node in within.index
    assert live.placement.answers(waiting[0]).look_ahead.size > 0
