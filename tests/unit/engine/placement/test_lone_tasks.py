"""Tasks that are evaluated together with an earlier one are not answered by node classes of another grouping."""

from __future__ import annotations

from unittest.mock import patch

from builders.manifests import node, pod, queue, state_of
from muster.config.loader import DEFAULT, load
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core.nodes import MoveKind
from muster.engine.placement import node_classes


def test_when_nodes_are_grouped_again_what_was_evaluated_before_is_void() -> None:
    scheduler = Scheduler(load(DEFAULT, "built in", known())[0])
    with patch.multiple(node_classes, MIN_NODES=1, MIN_NODES_PER_CLASS=2):
        for cpu in range(1, 40):
            nodes = [node(f"n{i}", cpu=2 if i < 2 else 3) for i in range(4)]
            pods = [pod(f"p{i}", cpu=f"{90 + i}m", memory=f"{i + 1}Gi") for i in range(2)]
            state = state_of(queue(), *nodes, *pods, pod("x", cpu=f"{20 * cpu}m"))
            session = scheduler.session(state, 0.0)
            first, second, moved = state.tasks.values()
            placement = session.placement
            upcoming = [second]
            asked_first = placement.answers(first).columns
            placement._lone_tasks.best(asked_first, MoveKind.ALLOCATE, lambda n, some=upcoming: some)
            columns = placement.answers(second).columns
            for changed in ([0], [1], [0, 1]):  # the first change makes too many classes, the last leaves two
                state.nodes.apply(moved.shape, MoveKind.ALLOCATE, changed, 1)
                placement.node_classes.classes()
            assert placement.node_classes.grouping == 2
            found = placement._lone_tasks.best(columns, MoveKind.ALLOCATE, None)
            assert found == columns.evaluate(state.nodes.everything(), MoveKind.ALLOCATE).argmax(), cpu
