"""Nodes with equal columns form a class; a node that changes gets a class for itself."""

from __future__ import annotations

import random
from unittest.mock import patch

import numpy as np

from builders.manifests import node, pod, state_of
from muster.config.loader import DEFAULT, load
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core.jobs import Shape
from muster.engine.core.nodes import MoveKind, Nodes
from muster.engine.core.state import State
from muster.engine.placement import node_classes
from muster.engine.placement.node_classes import NodeClasses
from muster.plugin_checks.shortcuts import without_shortcuts

OFFERS = ("4", "8", "16")
TAINTED = [{"key": "k", "value": "v", "effect": "NoSchedule"}]


def cluster(count: int) -> State:
    nodes = [node(f"n{i:04}", cpu=OFFERS[i % 3]) for i in range(count)]
    return state_of(*nodes, *[pod(f"p{i}", cpu=f"{i}m") for i in range(1, 9)])


def columns(nodes: Nodes) -> np.ndarray:
    return np.concatenate([nodes.rows, nodes.offered])


def test_there_are_as_many_kinds_as_nodes_that_differ() -> None:
    nodes = cluster(300).nodes
    found = NodeClasses(nodes).classes()
    assert found is not None
    one, kind_of = found
    assert (len(one), len(kind_of)) == (3, 300)
    assert (columns(nodes)[:, one][:, kind_of] == columns(nodes)).all()


def test_few_nodes_are_not_worth_it() -> None:
    assert NodeClasses(cluster(node_classes.MIN_NODES - 1).nodes).classes() is None


def test_where_most_nodes_stand_for_themselves_it_is_given_up_for_a_while() -> None:
    made = cluster(300)
    nodes, shapes = made.nodes, [task.shape for task in made.tasks.values()]
    kinds = NodeClasses(nodes)
    assert kinds.classes() is not None
    for i in range(80):
        nodes.apply(shapes[0], MoveKind.ALLOCATE, [i], 1)
    assert kinds.classes() is None
    for i in range(80):
        nodes.apply(shapes[0], MoveKind.ALLOCATE, [i], -1)
    assert kinds.classes() is not None


def test_every_node_is_as_the_one_of_its_kind_whatever_comes_and_goes() -> None:
    draw = random.Random(7)
    with patch.multiple(node_classes, MIN_NODES=1, MIN_NODES_PER_CLASS=1):
        for _ in range(60):
            made = cluster(draw.randint(1, 12))
            nodes, shapes = made.nodes, [task.shape for task in made.tasks.values()]
            kinds = NodeClasses(nodes)
            done: list[tuple[Shape, MoveKind, list[int]]] = []
            for _ in range(40):
                if done and draw.random() < 0.4:
                    shape, kind, at = done.pop()
                    nodes.apply(shape, kind, at, -1)
                else:
                    at = draw.choices(range(len(nodes)), k=draw.randint(1, 3))
                    shape, kind = draw.choice(shapes), draw.choice((MoveKind.ALLOCATE, MoveKind.PIPELINE))
                    nodes.apply(shape, kind, at, 1)
                    done.append((shape, kind, at))
                found = kinds.classes()
                if found is not None:
                    assert (columns(nodes)[:, found[0]][:, found[1]] == columns(nodes)).all()


def test_pods_of_all_sizes_land_where_they_would_if_every_node_were_asked_about() -> None:
    draw = random.Random(3)
    nodes = [node(f"n{i:04}", cpu=OFFERS[i % 3], taints=TAINTED if i % 5 == 0 else []) for i in range(300)]
    pods = [pod(f"p{i}", cpu=f"{draw.randint(100, 3000)}m", memory=f"{draw.randint(100, 3000)}Mi") for i in range(60)]
    scheduler = Scheduler(load(DEFAULT, "built in", known())[0])
    fast = scheduler.cycle(state_of(*nodes, *pods), 0.0).binds
    with without_shortcuts():
        assert scheduler.cycle(state_of(*nodes, *pods), 0.0).binds == fast
    assert len(fast) == 60
