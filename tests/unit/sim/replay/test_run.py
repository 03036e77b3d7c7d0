"""One replay: the clock, evictions, nodes that come and go, and the reference for its times."""

from __future__ import annotations

import math

import numpy as np
import pytest

from builders.manifests import pod, queue, tables
from builders.replay_runs import GPU, configured, gpu_nodes, job_trace
from muster.sim.replay.node_events import NodeEvent
from muster.sim.replay.records import Replay
from muster.sim.replay.run import ReplayOptions, ReplayRun, replay
from muster.sim.traces.table import Trace
from oracles.fifo_queue import fifo_starts

PLAIN = ("priority", "gang", "predicates")


def fifo(trace: Trace, nodes: int, gpus: int = 8, options: ReplayOptions | None = None) -> Replay:
    objects = gpu_nodes(nodes, gpus) | tables([queue("default", dequeueStrategy="fifo")])
    return replay(trace, objects, configured("allocate", *PLAIN), options)


def preempting(trace: Trace, options: ReplayOptions | None = None) -> Replay:
    return replay(trace, gpu_nodes(1), configured("allocate, preempt", *PLAIN, "conformance"), options)


def test_a_job_starts_at_its_submission_and_ends_after_its_duration() -> None:
    result = fifo(job_trace(submit=[10.5], duration=[60.25], gpus=[16], usage=[0.5]), 2)
    assert (result.start.tolist(), result.end.tolist(), result.run.tolist()) == ([10.5], [70.75], [60.25])
    assert (result.first, result.last) == (10.5, 70.75)
    assert not result.reasons and not result.warnings and not result.evictions.any()


def test_jobs_wait_for_their_turn() -> None:
    result = fifo(job_trace(submit=[0, 1, 2], duration=[100, 10, 10], gpus=[8, 8, 1]), 1)
    assert result.start.tolist() == [0, 100, 110]
    one = (1 + 2 + 98 * 17 / 8) / 100  # demand 8, 16, then 17 of 8 GPUs
    assert result.contention[0] == pytest.approx(one)


def test_a_job_that_never_fits_has_the_reason_of_the_scheduler() -> None:
    result = fifo(job_trace(submit=[0, 1], gpus=[8, 9], pods=[1, 1]), 1)
    assert math.isnan(result.start[1])
    assert "nvidia.com/gpu" in result.reasons[1]


def test_a_strict_queue_starts_jobs_as_the_reference_does() -> None:
    rng = np.random.default_rng(16)
    jobs = 120
    submit = np.sort(rng.integers(0, 6_000, jobs)).astype(float)
    duration, gpus = rng.integers(1, 900, jobs).astype(float), rng.integers(1, 9, jobs)
    trace = job_trace(submit=submit.tolist(), duration=duration.tolist(), gpus=gpus.tolist(), pods=gpus.tolist())
    result = fifo(trace, 4, 4)
    expected = fifo_starts(trace.submit.tolist(), trace.duration.tolist(), trace.gpus.tolist(), 16)
    assert result.start.tolist() == expected
    assert sum(start > come for start, come in zip(expected, submit, strict=True)) > jobs / 4  # many of them wait


SERVERS, LOAD, MEAN_S = 4, 0.5, 3600.0  # of the queues M/M/c


def m_m_c(jobs: int) -> tuple[list[float], list[float]]:
    """Submissions of a Poisson process and exponential durations, whose sample means are those of the distributions."""
    rng = np.random.default_rng(1)
    gaps, durations = rng.exponential(1, jobs), rng.exponential(1, jobs)
    submit = np.cumsum(gaps / gaps.mean() * MEAN_S / SERVERS / LOAD)
    return submit.tolist(), (durations / durations.mean() * MEAN_S).tolist()


def erlang_c() -> float:
    """The mean waiting time of M/M/c."""
    offered = SERVERS * LOAD
    waits = offered**SERVERS / math.factorial(SERVERS) / (1 - LOAD)
    waits /= sum(offered**k / math.factorial(k) for k in range(SERVERS)) + waits
    return waits * MEAN_S / (SERVERS * (1 - LOAD))


@pytest.mark.long
def test_the_reference_agrees_with_the_formula_of_m_m_c() -> None:
    submit, duration = m_m_c(1_000_000)
    starts = np.array(fifo_starts(submit, duration, [1] * len(submit), SERVERS))
    assert float((starts - submit).mean()) == pytest.approx(erlang_c(), rel=0.02)


@pytest.mark.long
def test_m_m_c() -> None:
    """The waiting time of so few jobs varies by chance; that of the reference for the same jobs does not."""
    submit, duration = m_m_c(2000)
    trace = job_trace(submit=submit, duration=duration, gpus=[1] * 2000, pods=[1] * 2000)
    result = fifo(trace, 1, SERVERS)
    completion = float((result.end - trace.submit).mean())
    assert completion == pytest.approx(erlang_c() + MEAN_S, rel=0.02)
    reference = np.array(fifo_starts(submit, duration, [1] * 2000, SERVERS))
    assert float((result.start - trace.submit).mean()) == pytest.approx(float((reference - submit).mean()), rel=0.02)
    assert float(np.abs(result.start - reference).max()) < 60  # a cycle comes at most a second later, and delays add up
    assert float(result.samples.allocated[:-1, 0, 2].mean()) == pytest.approx(SERVERS * LOAD, rel=0.02)


def test_an_evicted_job_starts_again() -> None:
    trace = job_trace(submit=[0, 100], duration=[300, 50], gpus=[8, 8], priority=[0, 10])
    result = preempting(trace)
    # The eviction at 100 takes the grace period of 30 s.
    assert result.start.tolist() == [0, 130]
    assert result.end.tolist() == [180 + 300, 180]
    assert (result.evictions.tolist(), result.lost.tolist(), result.run.tolist()) == ([1, 0], [100, 0], [400, 50])
    assert result.pods_evicted == 1


def test_an_evicted_job_continues_from_its_checkpoint() -> None:
    trace = job_trace(submit=[0, 100], duration=[300, 50], gpus=[8, 8], priority=[0, 10])
    result = preempting(trace, ReplayOptions(checkpoint=30))
    assert (result.lost.tolist(), result.run.tolist(), result.end.tolist()) == ([10, 0], [310, 50], [180 + 210, 180])


def test_a_job_on_a_node_that_leaves_is_restarted_whole() -> None:
    events = (NodeEvent(50, "n001", joins=False), NodeEvent(200, "n001", joins=True))
    trace = job_trace(submit=[0], duration=[100], gpus=[16], pods=[2])
    result = fifo(trace, 2, options=ReplayOptions(node_events=events))
    assert (result.start.tolist(), result.end.tolist()) == ([0], [300])
    assert (result.node_losses.tolist(), result.evictions.tolist(), result.lost.tolist()) == ([1], [0], [50])


def test_a_node_that_joins_first_is_not_there_at_the_start() -> None:
    events = (NodeEvent(40, "n000", joins=True),)
    result = fifo(job_trace(submit=[0], gpus=[8]), 1, options=ReplayOptions(node_events=events, sample=20))
    assert result.start.tolist() == [40]
    assert result.samples.capacity[:, 2].tolist() == [0, 0, 8, 8, 8]


def test_periodic_cycles_run_at_multiples_of_the_period() -> None:
    trace = job_trace(submit=[3, 9.5], duration=[20, 20], gpus=[4, 4])
    assert fifo(trace, 1, options=ReplayOptions(cycle=5)).start.tolist() == [5, 10]


def test_at_most_one_cycle_runs_in_a_second() -> None:
    trace = job_trace(submit=[0, 0.25, 0.5], duration=[20, 20, 20], gpus=[1, 1, 1])
    assert fifo(trace, 1).start.tolist() == [0, 1, 1]


def test_the_replay_ends_at_the_given_time() -> None:
    result = fifo(job_trace(submit=[0, 10], duration=[100, 100], gpus=[8, 8]), 1, options=ReplayOptions(until=60))
    assert (result.last, result.run.tolist()) == (60, [60, 0])
    assert math.isnan(result.end[0]) and result.reasons[0] == "is running"


def test_a_job_that_never_ends_keeps_its_gpus() -> None:
    result = fifo(job_trace(submit=[0, 5], duration=[math.inf, 10], gpus=[6, 2]), 1)
    assert math.isnan(result.end[0]) and result.end[1] == 15


def test_a_trace_on_a_cluster_with_pods_of_its_own() -> None:
    own = pod("own", on="n000", requests={GPU: 6})
    objects = gpu_nodes(1) | tables([own])
    result = replay(job_trace(submit=[0, 0], gpus=[2, 8]), objects, configured("allocate", *PLAIN))
    assert not math.isnan(result.end[0]) and math.isnan(result.end[1])
    assert result.samples.allocated[0].sum(axis=0)[2] == 8


def test_equal_input_gives_an_equal_result() -> None:
    rng = np.random.default_rng(3)
    trace = job_trace(
        submit=np.sort(rng.uniform(0, 900, 20)).tolist(),
        duration=rng.lognormal(5, 1, 20).tolist(),
        gpus=rng.integers(1, 17, 20).tolist(),
        priority=rng.integers(0, 3, 20).tolist(),
    )
    one, two = (
        replay(trace, gpu_nodes(2), configured("allocate, preempt, reclaim", *PLAIN, "proportion")) for _ in range(2)
    )
    for name in ("start", "end", "run", "lost", "evictions", "contention"):
        assert np.array_equal(getattr(one, name), getattr(two, name), equal_nan=True), name
    assert np.array_equal(one.samples.allocated, two.samples.allocated)
    assert one.reasons == two.reasons and one.cycles == two.cycles


def test_finished_jobs_leave_nothing_behind() -> None:
    trace = job_trace(submit=list(range(0, 2000, 10)), duration=[15] * 200, gpus=[8] * 200)
    config = configured("enqueue, allocate", *PLAIN, "drf", "proportion")
    run = ReplayRun(trace, gpu_nodes(2), config, ReplayOptions(), lambda *_: None)
    run.until_end(None)
    store, state = run._cluster.store, run._state
    run._cluster.follow(state)
    assert not store.everything()["Pod"] and not store.everything()["PodGroup"]
    assert not state.tasks and not state.jobs and not store._uid_counts and not store.events
