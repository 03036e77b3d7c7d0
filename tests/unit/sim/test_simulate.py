"""Cycles on an embedded cluster until nothing changes."""

from __future__ import annotations

import random

from builders.files import PREEMPTING, full_cluster, manifests, replica_set, scheduler, text
from builders.manifests import group, node, pod
from muster.cluster.manifests import read
from muster.sim.result import Result
from muster.sim.simulate import MAX_CYCLES, simulate

NAMES = ("muster", "volcano")


def run(*documents: dict[str, object], cycles: int | None = None, configuration: str = PREEMPTING) -> Result:
    found = manifests(*documents)
    return simulate(scheduler(configuration), found.objects, found.latest, NAMES, cycles)


def test_a_pod_is_bound_where_there_is_capacity() -> None:
    result = run(node("n1", cpu=4), node("n2", cpu=1), pod("p", cpu="2"))
    assert result.binds == {"default/p": "n1"}
    assert result.pending == {}
    assert result.summary.settled


def test_a_pod_that_fits_nowhere_is_pending_with_a_reason() -> None:
    result = run(node("n1", cpu=4), pod("p", cpu="5"))
    assert result.binds == {}
    assert "Insufficient cpu" in result.pending["default/p"]


def test_preemption_ends_with_the_preemptor_bound_and_the_victim_made_anew() -> None:
    result = run(*full_cluster())
    assert result.binds == {"default/boss": "n1"}
    assert [eviction.pod for eviction in result.evictions] == ["default/low-2"]
    assert [pod.startswith("default/low-") for pod in result.pending] == [True]
    assert all(result.pending.values())
    assert result.pipelined == {}
    assert result.summary.settled


def test_the_history_has_a_record_of_every_cycle() -> None:
    result = run(*full_cluster())
    assert [record.number for record in result.history] == list(range(1, result.cycles + 1))
    assert {pod: node for record in result.history for pod, node in record.binds.items()} == result.binds
    assert [eviction for record in result.history for eviction in record.evictions] == result.evictions
    assert result.history[-1].pending == len(result.pending)
    assert [record.time for record in result.history] == sorted(record.time for record in result.history)


def test_after_one_cycle_the_preemptor_still_waits_for_the_capacity() -> None:
    result = run(*full_cluster(), cycles=1)
    assert result.cycles == 1
    assert result.binds == {}
    assert result.pipelined == {"default/boss": "n1"}
    assert result.pending.keys() == {"default/boss"}
    assert not result.summary.settled


def test_workloads_make_their_pods_before_the_first_cycle() -> None:
    result = run(node("n1", cpu=4), replica_set("web", 3, pod("x")), cycles=1)
    assert len(result.binds) == 3


def test_pods_of_other_schedulers_and_bound_pods_are_not_pending() -> None:
    other = pod("theirs", schedulerName="default-scheduler")
    result = run(node("n1", cpu=4), other, pod("there", on="n1"), pod("ours", schedulerName="volcano"))
    assert result.binds == {"default/ours": "n1"}
    assert result.pending == {}


def test_a_running_pod_whose_group_is_gone_is_not_pending() -> None:
    result = run(node("n1", cpu=4), pod("p", on="n1", group="gone"))
    assert result.pending == {}


def test_a_pod_whose_group_does_not_exist_waits_with_that_reason() -> None:
    result = run(node("n1", cpu=4), pod("p", group="gone"))
    assert result.pending == {"default/p": "pod group default/gone does not exist"}


def test_a_gang_that_does_not_fit_leaves_no_pod_behind() -> None:
    members = [pod(f"g-{i}", group="g", cpu="3") for i in range(3)]
    result = run(node("n1", cpu=4), node("n2", cpu=4), group("g", minMember=3), *members)
    assert result.binds == {}
    assert result.pending.keys() == {f"default/g-{i}" for i in range(3)}


def test_pods_that_end_free_capacity_for_those_that_wait() -> None:
    short = {"muster.io/run-seconds": "60"}
    result = run(node("n1", cpu=1), *(pod(f"p{i}", annotations=short) for i in range(3)))
    assert result.binds == {f"default/p{i}": "n1" for i in range(3)}
    assert result.summary.settled


def test_a_run_that_goes_round_in_circles_is_stopped_and_reported() -> None:
    again = replica_set("again", 1, pod("x", annotations={"muster.io/run-seconds": "5"}))
    result = run(node("n1", cpu=4), again)
    assert not result.summary.settled
    assert result.cycles < MAX_CYCLES
    assert "never settles" in result.summary.warnings[0]


def test_a_job_that_makes_progress_is_no_circle() -> None:
    template = pod("x", annotations={"muster.io/run-seconds": "5"}, restartPolicy="Never")
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "steps"},
        "spec": {"completions": 12, "parallelism": 1, "template": template},
    }
    result = run(node("n1", cpu=4), job)
    assert result.summary.settled
    assert len(result.binds) == 12


def test_the_answer_does_not_depend_on_the_order_of_the_documents() -> None:
    documents = [*full_cluster(), node("n2", cpu=4), *(pod(f"p{i}", cpu="2") for i in range(4))]
    first = run(*documents).to_dict()
    random.Random(7).shuffle(documents)
    assert run(*documents).to_dict() == first


def test_the_summary_counts_and_shares() -> None:
    result = run(node("n1", cpu=4), node("n2", cpu=4), pod("p", cpu="3"), pod("q", cpu="5"))
    reported = result.to_dict()["summary"]
    assert isinstance(reported, dict)
    assert (reported["pods"], reported["bound"], reported["pending"], reported["evicted"], reported["nodes"]) == (
        2,
        1,
        1,
        0,
        2,
    )
    assert reported["queues"]["default"]["allocated"]["cpu"] == "3"
    # 5 of the 8 cores are idle, 1 and 4 of them: none can hold the pod of 5.
    assert reported["fragmentation"] == {"cpu": 1.0}


def test_the_clock_starts_at_the_given_time() -> None:
    found = read([("c.yaml", text(node("n1", cpu=4), pod("p")).encode())])
    result = simulate(scheduler(), found.objects, 1000.0, NAMES)
    assert result.cluster.clock.now() >= 1000.0
