"""The figures and the page of any replay: plain JSON without nan, monotone CDFs, and parts that add up to the whole."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.pages import self_contained
from builders.replays import NAN, replayed, sampled, trace
from muster.sim.replay.metrics import metrics
from muster.sim.replay.page import page
from muster.sim.replay.records import Replay
from muster.sim.replay.tables import summary_tables
from strategies.profiles import examples

TIMES = st.floats(0, 1e7, allow_nan=False)
AMOUNTS = st.sampled_from([0.0, 0.5, 1.0, 3.0])


@st.composite
def replays(draw: st.DrawFn) -> Replay:
    """Any outcome of up to twelve jobs in up to three queues, and samples that need not fit to it."""
    jobs = draw(st.integers(0, 12))
    queues = ("a", "b", "c")[: draw(st.integers(1, 3))]

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=jobs, max_size=jobs))

    made = trace(
        sorted(column(TIMES)),
        column(TIMES | st.just(float("inf"))),
        queue=np.array(column(st.integers(0, len(queues) - 1)), dtype=np.int64),
        queues=queues,
        gpus=np.array(column(st.sampled_from([0, 1, 3, 8, 16])), dtype=np.int64),
        gpu_milli=np.array(column(st.sampled_from([1, 460, 1000])), dtype=np.int64),
        priority=np.array(column(st.integers(-1, 2)), dtype=np.int64),
    )
    start = made.submit + np.array(column(TIMES | st.just(NAN)), dtype=np.float64)
    end = np.where(np.isfinite(made.duration) & (np.array(column(AMOUNTS)) > 0), start + made.duration, NAN)
    run = np.where(np.isfinite(made.duration), made.duration, 0.0) * np.isfinite(start)
    k = draw(st.integers(0, 5))
    cells = k * len(queues)
    parts = {
        name: np.array(draw(st.lists(values, min_size=cells, max_size=cells))).reshape(k, len(queues))
        for name, values in (
            ("allocated", AMOUNTS), ("used", AMOUNTS), ("waiting", AMOUNTS), ("running", AMOUNTS),
            ("deserved", AMOUNTS | st.just(NAN)),
        )
    }  # fmt: skip
    parts["fragment"] = np.array(draw(st.lists(AMOUNTS | st.just(NAN), min_size=k, max_size=k)))
    parts["capacity"] = np.array(draw(st.lists(AMOUNTS, min_size=k, max_size=k))).reshape(k, 1)
    samples = sampled(100.0, k, queues, **{name: part for name, part in parts.items() if part.size})
    contention = np.array(column(st.floats(1, 50)), dtype=np.float64)
    return replayed(made, start.tolist(), end.tolist(), samples, run=run, contention=contention, last=100.0 * k)


@given(replays())
@examples(100)
def test_figures_are_plain_json_and_add_up(run: Replay) -> None:
    found: Any = metrics(run)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    for kind in ("waiting", "completion", "slowdown", "finish_time_ratio"):
        for groups in ("queues", "sizes", "priorities"):
            parts = found[kind][groups].values()
            assert sum(part["count"] for part in parts) == found[kind]["all"]["count"]
            for part in (found[kind]["all"], *parts):
                known = [part[key] for key in ("p50", "p90", "p99", "max") if part[key] is not None]
                assert known == sorted(known) and len(known) in (0, 4)
                assert part.get("cdf", []) == sorted(part.get("cdf", []))
    for one in found["resources"].values():
        for key in ("allocated", "used"):
            if one[key] is not None:
                assert sum(queue[key] for queue in one["queues"].values()) == pytest.approx(one[key], abs=1e-5)
    jobs = found["jobs"]
    assert sum(entry["jobs"] for entry in jobs["reasons"]) == jobs["not_completed"]
    for index in found["fairness"]["jain"].values():
        assert index is None or 0 < index <= 1 + 1e-6


@given(st.lists(replays(), max_size=3))
@examples(30)
def test_any_replays_give_tables_and_a_page(runs: list[Replay]) -> None:
    for i, run in enumerate(runs):
        run.name = f"configuration-{i % 2}"
    for made in summary_tables(runs):
        assert all(len(row) == len(made.head) for row in made.rows)
    text = page(runs, "any")
    self_contained(text)
    assert "nan" not in text.replace("role=", "").lower().split("</style>")[1]
