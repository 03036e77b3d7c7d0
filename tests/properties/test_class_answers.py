"""Pods with rules about each other land on the same nodes whether nodes are scored one by one or by class."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.config.types import Arguments, Config, PluginOption
from muster.cycle.registry import plugin_class
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.engine.core.statement import Statement
from muster.model.batch import ReplicaSet
from muster.model.kinds import decode_as
from oracles.inter_pod import HOST, ZONE, affinity, app, cluster, host, near, spread
from strategies.profiles import examples

_OWNER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": True}]
_ZONE_X = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
    {"weight": 3, "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["x"]}]}}
]}}  # fmt: skip
_SPECS: list[dict[str, Any]] = [
    {},
    {"owners": _OWNER},
    {"owners": _OWNER, "affinity": _ZONE_X},
    {"owners": _OWNER, "affinity": affinity(anti=[near("b", HOST)])},
    {"affinity": affinity(anti=[near("a", HOST)])},
    {"affinity": affinity(anti=[near("b")], preferred=[(2, near("b", HOST))])},
    {"affinity": affinity(required=[near("a")], avoided=[(3, near("a", HOST))])},
    {"affinity": affinity(required=[near("b")])},
    {"affinity": affinity(required=[near("a", HOST)])},
    {"topologySpreadConstraints": [spread("a", soft=True), spread("a", HOST, skew=3, soft=True)],
     "affinity": affinity(anti=[near("a", HOST)])},
    {"affinity": affinity(preferred=[(2, near("b")), (7, near("a", HOST))])},
    {"affinity": affinity(avoided=[(5, near("a"))])},
    {"topologySpreadConstraints": [spread("a")]},
    {"topologySpreadConstraints": [spread("b", HOST, 2), spread("a", soft=True)]},
    {"topologySpreadConstraints": [spread("a", soft=True), spread("b", HOST, soft=True)]},
    {"topologySpreadConstraints": [spread("a", HOST, 2, soft=True)]},
    {"topologySpreadConstraints": [spread("a", skew=2), spread("b", soft=True)],
     "affinity": affinity(anti=[near("a", HOST)])},
]  # fmt: skip
_LABELS = st.sampled_from([None, None, None, {}, {ZONE: "y"}, {HOST: "same", ZONE: "x"}])


@st.composite
def _objects(draw: st.DrawFn) -> list[Any]:
    count = draw(st.integers(2, 8))
    zones = draw(st.lists(st.sampled_from(["", "x", "y", "z"]), min_size=count, max_size=count))
    nodes = [host(f"n{i}", zone, labels=draw(_LABELS)) for i, zone in enumerate(zones)]
    for node in nodes:
        node.status.allocatable["pods"] = draw(st.sampled_from(["1", "3", "110"]))
    specs = draw(st.lists(st.sampled_from(_SPECS), min_size=1, max_size=4))
    pods = []
    for i in range(draw(st.integers(1, 20))):
        on = f"n{draw(st.integers(0, count - 1))}" if draw(st.integers(0, 4)) == 0 else ""
        spec = dict(draw(st.sampled_from(specs)))
        terminating = bool(on) and draw(st.integers(0, 3)) == 0
        pods.append(app(f"p{i}", draw(st.sampled_from("ab")), on=on, terminating=terminating, **spec))
    selector = {"matchLabels": {"app": draw(st.sampled_from("ab"))}}
    owner = decode_as(ReplicaSet, {"metadata": {"name": "rs", "namespace": "default"}, "spec": {"selector": selector}})
    return [*nodes, *pods, owner]


def _landed(state: State, steps: list[int], caching: bool) -> list[tuple[str, int]]:
    """Places pod after pod, takes some back in between; returns where each landed."""
    made = [plugin_class(name)(Arguments({}), PluginOption(name)) for name in ("predicates", "nodeorder")]
    session = Session(state, Config(), [made], now=0.0)
    session.placement.caching = caching
    found: list[tuple[str, int]] = []
    statements: list[Statement] = []
    waiting = [task for key, task in sorted(state.tasks.items()) if task.node < 0]
    for i, task in enumerate(waiting):
        statements.append(session.statement())
        session.placement.place(statements[-1], [task])
        found.append((task.key, task.node))
        if steps[i % len(steps)] == 0:
            statements.pop(steps[i // 2 % len(steps)] % len(statements)).discard()
    for statement in reversed(statements):
        statement.discard()
    session.close()
    return found


@examples(200)
@given(_objects(), st.lists(st.integers(0, 5), min_size=1, max_size=10))
def test_scores_by_class_are_the_scores(objects: list[Any], steps: list[int]) -> None:
    state = cluster(*objects)
    assert _landed(state, steps, caching=True) == _landed(state, steps, caching=False)
