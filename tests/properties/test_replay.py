"""Random traces on random clusters: every job arrives, waits, runs and ends once, and the samples add up."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from builders.manifests import queue, tables
from builders.replay_runs import configured, gpu_nodes, job_trace
from muster.sim.replay.node_events import NodeEvent
from muster.sim.replay.run import ReplayOptions, replay

GPUS = 2  # the row of GPUs in the samples
PLUGINS = ("priority", "gang", "conformance", "predicates", "proportion")
GPUS_OF_A_NODE = 4
ACTIONS = ("allocate", "enqueue, allocate, backfill", "allocate, preempt, reclaim", "reclaim, allocate")

lengths = st.integers(1, 400).map(lambda n: n / 2)


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, list[float]]:
    """Columns of up to 12 jobs that fit on an empty cluster of two nodes."""
    count = draw(st.integers(1, 12))

    def column(values: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(values, min_size=count, max_size=count))

    pods = column(st.integers(1, 4))
    each = column(st.sampled_from([1, 1, 2]))
    return {
        "submit": sorted(column(lengths)), "duration": column(lengths), "pods": pods,
        "minimum": [min(n, m) for n, m in zip(pods, column(st.integers(1, 4)), strict=True)],
        "gpus": [n * g for n, g in zip(pods, each, strict=True)],
        "priority": column(st.integers(0, 2)), "queue": column(st.integers(0, 1)),
    }  # fmt: skip


@st.composite
def outages(draw: st.DrawFn) -> list[NodeEvent]:
    """A node that leaves and comes back; the other one stays."""
    if draw(st.booleans()):
        return []
    at = draw(lengths)
    return [NodeEvent(at, "n001", joins=False), NodeEvent(at + draw(lengths), "n001", joins=True)]


@given(
    columns=jobs(),
    events=outages(),
    actions=st.sampled_from(ACTIONS),
    checkpoint=st.sampled_from([None, 10.0]),
    cycle=st.sampled_from([None, None, 3.0]),
)
def test_every_job_runs_once_for_its_duration_and_the_samples_add_up(
    columns: dict[str, list[float]],
    events: list[NodeEvent],
    actions: str,
    checkpoint: float | None,
    cycle: float | None,
) -> None:
    trace = job_trace(queues=("a", "b"), **columns)
    objects = gpu_nodes(2, GPUS_OF_A_NODE) | tables([queue("a"), queue("b", weight=2)])
    options = ReplayOptions(node_events=events, checkpoint=checkpoint, cycle=cycle, sample=25)
    result = replay(trace, objects, configured(actions, *PLUGINS), options)
    event(f"evictions: {result.evictions.any()}, node losses: {result.node_losses.any()}")

    assert not result.warnings
    done = ~np.isnan(result.end)
    # Every job fits on the cluster. Volcano: jobs of several queues may each be too large for their queue's share, and
    # what such a job in the queue requests keeps others from being admitted.
    assert sorted(result.reasons) == np.flatnonzero(~done).tolist()
    above = [reason for reason in result.reasons.values() if "> share" in reason]
    others = [reason for reason in result.reasons.values() if "> share" not in reason]
    assert above or not others, result.reasons
    assert all("does not admit the group" in reason and "inqueue" in reason for reason in others), result.reasons
    assert (result.start >= trace.submit)[done].all()
    assert (result.end >= result.start + trace.duration - 1e-6)[done].all()
    assert np.allclose((result.run - result.lost)[done], trace.duration[done], atol=1e-6)
    stopped = (result.evictions + result.node_losses) > 0
    assert not result.lost[~stopped].any()
    if checkpoint is not None:
        stops = result.evictions + result.node_losses
        assert (result.lost <= stops * checkpoint + 1e-6).all()
    if not stopped.any():
        # Nothing terminates, so the GPUs of a job without further pods are allocated exactly while it runs.
        assert np.allclose((result.end - result.start)[done], result.run[done], atol=1e-6)

    samples = result.samples
    ends = np.append(samples.times[1:], result.last)
    spans = (ends - samples.times)[:, None, None]
    allocated, used = ((values * spans).sum(axis=(0, 1))[GPUS] for values in (samples.allocated, samples.used))
    assert used <= allocated + 1e-6
    assert (samples.allocated.sum(axis=1) <= samples.capacity + 1e-6).all()
    rigid = trace.minimum == trace.pods
    if rigid.all():
        assert math.isclose(used, float((trace.gpus * result.run).sum()), rel_tol=1e-9, abs_tol=1e-6)
        if not stopped.any():
            assert math.isclose(allocated, used, rel_tol=1e-9, abs_tol=1e-6)
    running = (samples.running * spans[:, :, 0]).sum()
    waiting = (samples.waiting * spans[:, :, 0]).sum()
    assert math.isclose(running, float(result.run.sum()), rel_tol=1e-9, abs_tol=1e-6)
    in_system = np.where(done, result.end, result.last) - trace.submit
    assert math.isclose(running + waiting, float(in_system.sum()), rel_tol=1e-9, abs_tol=1e-6)
