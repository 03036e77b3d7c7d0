"""A run of pods that ask about each other lands where its pods would land one at a time, without any cache."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.config.types import Arguments, Config, PluginOption
from muster.cycle.registry import plugin_class
from muster.engine.core.session import Session
from muster.engine.core.state import State
from oracles.inter_pod import HOST, affinity, app, cluster, host, near, spread
from strategies.profiles import examples

_SPECS: list[dict[str, Any]] = [
    {},
    {"affinity": affinity(anti=[near("a", HOST)])},
    {"affinity": affinity(anti=[near("b", HOST)])},
    {"affinity": affinity(anti=[near("a")])},
    {"affinity": affinity(required=[near("a")])},
    {"affinity": affinity(required=[near("b")], avoided=[(3, near("a", HOST))])},
    {"affinity": affinity(anti=[near("a", HOST)], preferred=[(2, near("b"))])},
    {"affinity": affinity(preferred=[(2, near("b"))])},
    {"topologySpreadConstraints": [spread("a")]},
    {"topologySpreadConstraints": [spread("a", HOST, 2), spread("a", soft=True)]},
    {"topologySpreadConstraints": [spread("a", soft=True), spread("a", HOST, soft=True)]},
]


@st.composite
def _objects(draw: st.DrawFn) -> list[Any]:
    zones = draw(st.lists(st.sampled_from(["", "x", "y", "z"]), min_size=2, max_size=6))
    nodes = [host(f"n{i}", zone) for i, zone in enumerate(zones)]
    there = [
        app(
            f"r{i}",
            draw(st.sampled_from("ab")),
            on=f"n{draw(st.integers(0, len(nodes) - 1))}",
            **draw(st.sampled_from(_SPECS)),
        )
        for i in range(draw(st.integers(0, 5)))
    ]
    runs = []
    for r in range(draw(st.integers(1, 3))):
        of, spec = draw(st.sampled_from("ab")), draw(st.sampled_from(_SPECS))
        runs += [app(f"run{r}-{i}", of, **spec) for i in range(draw(st.integers(1, 6)))]
    return [*nodes, *there, *runs]


def _landed(state: State, together: bool, caching: bool) -> dict[str, int]:
    made = [plugin_class(name)(Arguments({}), PluginOption(name)) for name in ("predicates", "nodeorder")]
    session = Session(state, Config(), [made], now=0.0)
    session.placement.caching = caching
    statement = session.statement()
    runs: dict[str, list[Any]] = {}
    for key in sorted(state.tasks):
        if "/run" in key:
            runs.setdefault(key.rpartition("-")[0], []).append(state.tasks[key])
    for tasks in runs.values():
        if together:
            session.placement.place(statement, tasks)
        else:
            for task in tasks:
                session.placement.place(statement, [task])
    found = {key: task.node for key, task in sorted(state.tasks.items())}
    statement.discard()
    session.close()
    return found


@examples(80)
@given(_objects())
def test_together_or_one_by_one_and_cached_or_not(objects: list[Any]) -> None:
    state = cluster(*objects)
    plain = _landed(state, together=False, caching=False)
    assert _landed(state, together=False, caching=True) == plain
    assert _landed(state, together=True, caching=True) == plain
