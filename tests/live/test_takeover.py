"""Another leader takes over: how soon, and what becomes of the calls of a leader that was only stopped."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders.manifests import priority_class
from live.api import Api, until
from live.conftest import HOME, MakeNodes
from live.muster_process import (
    Scheduler,
    all_placed,
    assert_sound,
    create_all,
    gang,
    muster_pod,
    node_full_of_low,
    placed,
    stays_unplaced,
)
from live.test_scheduler import EVICTS
from live.test_scheduler_faults import many, nothing_is_bound_twice, sound

pytestmark = pytest.mark.usefixtures("crds")
TESTS = Path(__file__).parent.parent
LEASE = f"{HOME}/muster-scheduler"
LEASE_DURATION, ALLOWED = 15.0, 2.0  # seconds: the default, and what a takeover may take beyond it


def test_a_standby_binds_two_seconds_after_the_lease_of_a_killed_leader_ran_out(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(10)
    first, second = (Scheduler(scheduler_kubeconfig, elect=True, lease=LEASE, quick=False) for _ in range(2))
    with first, second:
        leader = until("a leader", lambda: next((s for s in (first, second) if s.leads()), None), 60)
        objects, names = many(namespace, 4, 25, 100)
        create_all(api, objects)
        all_placed(api, namespace, names, 60)
        waiting = [f"large-{i}" for i in range(40)]
        create_all(api, [muster_pod(namespace, name, cpu="64") for name in waiting])
        leader.kill()
        killed = time.monotonic()
        api.create(muster_pod(namespace, "after", cpu="100m"))
        until("its binding", lambda: "after" in placed(api, namespace), 60, every=0.05)
        took = time.monotonic() - killed
        other = second if leader is first else first
        fence = next(e for e in other.log() if e["msg"] == "bindings of the former leader are refused")
        print(f"bound {took:.2f} s after the kill, {fence['pods']} pods fenced in {fence['milliseconds']} ms")
        assert took <= LEASE_DURATION + ALLOWED
        assert took >= LEASE_DURATION - 3, "the lease of a leader that may be alive was taken"
        stays_unplaced(api, namespace, waiting)
        assert_sound(api, namespace)


@contextmanager
def stopped(kubeconfig: Path, call: int, config: str = "") -> Iterator[Scheduler]:
    """A leader that has stopped right before it sends this call."""
    muster = Scheduler(kubeconfig, config=config, elect=True, lease=LEASE)
    muster.run_instead([sys.executable, "-m", "live.stopped_at", str(call)], cwd=TESTS)
    try:
        until("it to stop", lambda: muster.paused, 60)
        yield muster
    finally:
        muster.go_on()
        muster.stop()


def message(muster: Scheduler, *words: str) -> bool:
    text = muster.log_file.read_text(encoding="utf-8")
    return any(word in text for word in words)


def test_the_binding_of_a_stopped_leader_is_refused_when_its_capacity_is_taken(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(1, resources={"cpu": "4"})
    api.apply(priority_class("high", 1000))
    api.create(muster_pod(namespace, "first", cpu="4"))
    with stopped(scheduler_kubeconfig, 0) as old:
        api.create(muster_pod(namespace, "rival", cpu="4", priorityClassName="high"))
        with Scheduler(scheduler_kubeconfig, elect=True, lease=LEASE):
            all_placed(api, namespace, ["rival"], 60)
            old.go_on()
            until("its call to be answered", lambda: message(old, "refused 0", "accepted 0"))
            assert message(old, "refused 0")
            until("it to notice", lambda: message(old, "no longer leading"))
            assert placed(api, namespace).keys() == {"rival"}
            assert_sound(api, namespace)


# Five binds; one of two evictions tried, both noted and done; and the binding of who gets the capacity.
CALLS = 11


@pytest.mark.parametrize("number", range(CALLS))
def test_stopped_at_any_call_and_continued_after_another_has_taken_the_capacity(
    number: int, api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    api.apply(priority_class("high", 1000))
    api.apply(priority_class("higher", 2000, preemptionPolicy="Never"))
    node_full_of_low(api, namespace, make_nodes, Scheduler(scheduler_kubeconfig, config=EVICTS))
    make_nodes(3, resources={"cpu": "2"})
    gang(api, namespace, "gang", 5)
    api.create(muster_pod(namespace, "high", cpu="4", priorityClassName="high"))
    with nothing_is_bound_twice(api, namespace), stopped(scheduler_kubeconfig, number, EVICTS) as old:
        rivals = [f"rival-{i}" for i in range(3)]
        create_all(api, [muster_pod(namespace, name, priorityClassName="higher") for name in rivals])
        with Scheduler(scheduler_kubeconfig, config=EVICTS, elect=True, lease=LEASE) as new:
            until("it to lead", new.leads, 60)
            until("a first decision", lambda: any(e.get("msg") == "cycle" for e in new.log()), 60)
            old.go_on()
            until("its call to be answered", lambda: message(old, f"refused {number}:", f"accepted {number}\n"))
            until("it to notice", lambda: message(old, "no longer leading"))
            until("nothing left over", lambda: sound(api, namespace), 60)
            assert "rival-0" in placed(api, namespace) or "gang-0" in placed(api, namespace)
            assert_sound(api, namespace)


def test_leaders_are_stopped_and_continued_in_the_middle_of_a_burst(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(4, resources={"cpu": "10"})
    everybody = [Scheduler(scheduler_kubeconfig, elect=True, lease=LEASE) for _ in range(2)]
    with nothing_is_bound_twice(api, namespace), everybody[0], everybody[1]:
        for turn in range(4):
            leader = until("a leader", lambda: next((s for s in everybody if s.leads()), None), 60)
            other = next(s for s in everybody if s is not leader)
            # More than there is capacity for: whatever the stopped leader still sends would be too much.
            burst = [f"burst-{turn}-{i}" for i in range(120)]
            create_all(api, [muster_pod(namespace, name, cpu="500m") for name in burst])
            until("a first binding", lambda burst=burst: placed(api, namespace).keys() & set(burst), 60, every=0.01)
            leader.pause()
            until("the other to lead", other.leads, 60)
            until("no capacity left", lambda: len(placed(api, namespace)) == 80, 60)
            leader.go_on()
            until("it to notice", lambda leader=leader: not leader.leads(), 30)
            assert_sound(api, namespace)
            api.delete(f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
            until("the pods to be gone", lambda: not api.list(f"/api/v1/namespaces/{namespace}/pods"), 60)
