"""The checker of the live churn test, on events written by hand: each fault is found, and only where there is one."""

from __future__ import annotations

import pytest

from live.eviction_check import BOUND, CREATED, GONE, TERMINATING, Findings, PodEvent, Run, claims_in, faults, findings


def job(pod: str) -> str:
    """`g-0` is a pod of the gang g; `p` is a plain pod."""
    return pod.partition("-")[0]


def run(*steps: str, end: float = 100.0, **more: object) -> Run:
    """A step is `12.5 bound g-0`, or for an eviction `12.5 terminating g-0 CLAIMER`."""
    events = []
    for step in steps:
        at, what, pod, *by = step.split()
        rule = "preempt" if by else ""
        events.append(PodEvent(float(at), what, pod, job(pod), by[0] if by else "", rule))
    minimum = {"g": 2, "h": 2}
    cycles = {event.pod: int(event.at) for event in events if event.by}
    return Run(**{"events": events, "minimum": minimum, "cycles": cycles, "end": end, **more})  # type: ignore[arg-type]


def created(*pods: str) -> list[str]:
    return [f"0 {CREATED} {pod}" for pod in pods]


def test_a_gang_is_partial_while_fewer_pods_than_its_minimum_hold_a_node() -> None:
    found = findings(run(f"1 {BOUND} g-0", f"1.5 {BOUND} g-1", f"10 {TERMINATING} g-0 p", f"13 {TERMINATING} g-1 p"))
    assert [(one.gang, one.since, one.seconds, one.bound) for one in found.partial] == [("g", 10.0, 3.0, 1)]
    assert found.longest_partial_s == 3.0


def test_a_gang_that_binds_or_goes_within_two_seconds_is_in_order() -> None:
    found = findings(run(f"1 {BOUND} g-0", f"3 {BOUND} g-1", f"9 {TERMINATING} g-0 p", f"9.1 {TERMINATING} g-1 p"))
    assert found.partial == []
    assert found.longest_partial_s == 2.0


def test_a_terminating_pod_does_not_count_and_its_end_changes_nothing() -> None:
    steps = [f"1 {BOUND} g-0", f"1 {BOUND} g-1", f"4 {TERMINATING} g-0 p", f"5 {GONE} g-0", f"8 {BOUND} g-2"]
    assert [one.seconds for one in findings(run(*steps)).partial] == [4.0]


def test_a_gang_that_stays_partial_counts_until_the_end() -> None:
    assert [one.seconds for one in findings(run(f"40 {BOUND} g-0")).partial] == [60.0]


def test_surplus_pods_may_go() -> None:
    steps = [f"1 {BOUND} g-0", f"1 {BOUND} g-1", f"1 {BOUND} g-2", f"4 {TERMINATING} g-0 p"]
    assert findings(run(*steps)).partial == []


def test_a_gang_whose_run_time_is_over_is_no_longer_judged() -> None:
    steps = [f"1 {BOUND} g-0", f"1 {BOUND} g-1", f"20 {GONE} g-0", f"30 {GONE} g-1"]
    assert findings(run(*steps, finished={"g": 20.0})).partial == []
    assert findings(run(*steps)).partial != []


def test_two_jobs_that_evict_each_other_are_a_pair() -> None:
    steps = [*created("g-0", "g-1", "h-0"), f"5 {TERMINATING} g-0 h-0", f"9 {TERMINATING} h-0 g-1"]
    assert findings(run(*steps)).mutual == [(("g", "h"), 4.0)]


def test_one_direction_and_the_pods_of_one_job_are_no_pair() -> None:
    steps = [*created("g-0", "g-1", "h-0"), f"5 {TERMINATING} g-0 h-0", f"9 {TERMINATING} g-1 h-0",
             f"9 {TERMINATING} h-1 h-0"]  # fmt: skip
    assert findings(run(*steps)).mutual == []


def test_a_pod_for_which_two_cycles_evict_has_claimed_twice() -> None:
    steps = [*created("p"), f"5 {TERMINATING} g-0 p", f"5.4 {TERMINATING} g-1 p", f"6 {TERMINATING} h-0 p"]
    assert findings(run(*steps)).second_claims == {"p": [5, 6]}
    assert findings(run(*steps[:-1])).second_claims == {}


def test_an_eviction_is_useful_if_the_claimer_is_bound_within_30_seconds() -> None:
    early = [*created("p"), f"5 {TERMINATING} g-0 p", f"35 {BOUND} p"]
    late = [*created("p"), f"5 {TERMINATING} g-0 p", f"35.1 {BOUND} p"]
    assert findings(run(*early)).useful_share == 1.0
    assert findings(run(*late)).useful_share == 0.0


def test_an_eviction_for_a_gang_is_useful_if_the_gang_reaches_its_minimum() -> None:
    steps = [*created("g-0", "g-1", "g-2"), f"5 {TERMINATING} h-0 g-2", f"7 {BOUND} g-0"]
    assert findings(run(*steps)).useful_share == 0.0
    assert findings(run(*steps, f"8 {BOUND} g-1")).useful_share == 1.0


def test_above_its_minimum_the_pod_itself_must_be_bound() -> None:
    steps = [*created("g-0", "g-1", "g-2", "g-3"), f"1 {BOUND} g-0", f"1 {BOUND} g-1", f"5 {TERMINATING} h-0 g-2",
             f"7 {BOUND} g-3"]  # fmt: skip
    assert findings(run(*steps)).useful_share == 0.0


def test_an_eviction_shortly_before_the_end_is_not_judged() -> None:
    found = findings(run(*created("p"), f"80 {TERMINATING} g-0 p"))
    assert (found.useful_share, found.unjudged_evictions) == (1.0, 1)


def test_an_eviction_for_nobody_is_useless() -> None:
    found = findings(run(f"80 {TERMINATING} g-0 nobody:"))
    assert (found.useful_share, found.evictions_for_nobody, found.unlogged_evictions) == (0.0, 1, 0)


def test_only_the_end_of_a_job_explains_a_deletion_without_a_claimer() -> None:
    steps = [f"1 {BOUND} p", f"5 {TERMINATING} p"]
    found = findings(run(*steps, finished={"p": 5.0}))
    assert (found.bindings, found.evictions, found.unexplained_deletions) == (1, 0, 0)
    assert findings(run(*steps)).unexplained_deletions == 1


def test_the_longest_wait_of_a_plain_pod_includes_those_that_still_wait() -> None:
    steps = [f"1 {CREATED} p", f"3 {BOUND} p", f"4 {CREATED} q", f"85 {CREATED} r", f"1 {CREATED} g-0"]
    found = findings(run(*steps, urgent={"p", "q", "r"}))
    assert (found.plain_pods, found.plain_pods_late, found.longest_plain_wait_s) == (3, 2, 96.0)


def test_cpu_is_divided_by_the_bound_pods() -> None:
    assert findings(run(f"1 {BOUND} p", f"1 {BOUND} q", cpu_s=0.01)).cpu_ms_per_binding == 5.0


def test_the_log_says_which_cycle_evicted_a_pod() -> None:
    log = [{"msg": "cycle", "number": 3}, {"msg": "evict", "pod": "d/g-0", "by": "d/p"}, {"msg": "bind"},
           {"msg": "cycle", "number": 4}, {"msg": "evict", "pod": "d/g-1", "by": "d/p"}]  # fmt: skip
    assert claims_in(log) == {"g-0": 3, "g-1": 4}


def test_an_eviction_that_the_log_does_not_name_is_reported() -> None:
    found = findings(run(*created("p"), f"5 {TERMINATING} g-0 p", f"6 {BOUND} p", cycles={}))
    assert found.unlogged_evictions == 1
    assert "the scheduler's log does not name the cycle of 1 evictions" in faults(found)[0]


def test_a_run_within_all_limits_has_no_fault() -> None:
    within = Findings(useful_share=0.99, longest_plain_wait_s=10.0, cpu_ms_per_binding=4.0, longest_partial_s=2.0,
                      calls_per_binding=3.5)  # fmt: skip
    assert faults(within) == []


@pytest.mark.parametrize(
    ("beyond", "text"),
    [
        (findings(run(f"40 {BOUND} g-0")), "1 times a gang was partial for more than 2 s, at most 60 s"),
        (Findings(mutual=[(("g", "h"), 4.0)]), "1 pairs of jobs evicted each other"),  # type: ignore[list-item]
        (Findings(second_claims={"p": [5, 6]}), "1 pods were claimed for a second time"),
        (Findings(useful_share=0.9899), "98.99% of the evictions were followed"),
        (Findings(plain_pods=3, plain_pods_late=1, longest_plain_wait_s=10.1), "1 of 3 plain pods"),
        (Findings(cpu_ms_per_binding=4.01), "4.01 ms of CPU per bound pod"),
        (Findings(calls_per_binding=3.51), "3.51 API calls per bound pod, 3.5 are allowed"),
        (Findings(unexplained_deletions=1), "1 pods were deleted, and no annotation says for whom"),
    ],
)
def test_each_limit_is_checked(beyond: Findings, text: str) -> None:
    assert [fault.startswith(text) for fault in faults(beyond)] == [True]
