"""What the cluster looks like after crashes, lost calls and a control plane that goes away: as if nothing had been."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from builders.manifests import group, priority_class
from live.api import Api, until
from live.bad_way import BadWay
from live.conftest import HOME, MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import (
    Scheduler,
    all_placed,
    assert_sound,
    create_all,
    gang,
    muster_pod,
    node_full_of_low,
    placed,
)
from live.test_scheduler import EVICTS

pytestmark = pytest.mark.usefixtures("crds")
TESTS = Path(__file__).parent.parent


@contextmanager
def nothing_is_bound_twice(api: Api, namespace: str) -> Iterator[None]:
    """Looks all the time: a pod that had a node never has another one."""
    seen: dict[str, str] = {}
    moved: list[str] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            try:
                pods = api.list(f"/api/v1/namespaces/{namespace}/pods")
            except Exception:  # the API server is being restarted
                time.sleep(0.2)
                continue
            for one in pods:
                node = one["spec"].get("nodeName")
                if node and seen.setdefault(one["metadata"]["uid"], node) != node:
                    moved.append(one["metadata"]["name"])
            stop.wait(0.5)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join(30)
    assert moved == []


def many(namespace: str, gangs: int, size: int, alone: int) -> tuple[list[dict[str, object]], list[str]]:
    """Groups and pods, and the pods' names."""
    objects = [group(f"g{i}", "default", namespace=namespace, minMember=size) for i in range(gangs)]
    pods = [muster_pod(namespace, f"g{i}-{j}", f"g{i}", "100m") for i in range(gangs) for j in range(size)]
    pods += [muster_pod(namespace, f"alone-{i}", cpu="100m") for i in range(alone)]
    return [*objects, *pods], [p["metadata"]["name"] for p in pods]


def test_the_leader_is_killed_while_a_thousand_pods_are_bound(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(20)
    objects, names = many(namespace, 20, 25, 500)
    lease = f"{HOME}/muster-scheduler"
    first = Scheduler(scheduler_kubeconfig, elect=True, lease=lease)
    second = Scheduler(scheduler_kubeconfig, elect=True, lease=lease)

    def bound(name: str) -> bool:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        return not api.gone(path) and bool(api.get(path)["spec"].get("nodeName"))

    with nothing_is_bound_twice(api, namespace), first, second:
        leader = until("a leader", lambda: next((s for s in (first, second) if s.leads()), None))
        # The pods come while it leads: a leader that found them all there would be through before it is killed.
        making = threading.Thread(target=create_all, args=(api, objects), daemon=True)
        making.start()
        until("one bound", lambda: any(bound(name) for name in (names[0], names[100], names[-1])), 60, every=0.01)
        leader.kill()
        assert len(placed(api, namespace)) < len(names), "it was through before it could be killed"
        making.join(60)
        all_placed(api, namespace, names, 90)
        other = second if leader is first else first
        assert other.leads()
        until("no open journal", lambda: sound(api, namespace))
        assert_sound(api, namespace)


def test_a_leader_that_receives_sigterm_hands_over_at_once(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(5)
    lease = f"{HOME}/muster-scheduler"
    first = Scheduler(scheduler_kubeconfig, elect=True, lease=lease)
    second = Scheduler(scheduler_kubeconfig, elect=True, lease=lease)
    with first:
        until("a leader", lambda: first.leads())
        with second:
            assert second.probe("/readyz")[0] == 200 and not second.leads()
            objects, names = many(namespace, 4, 25, 100)
            create_all(api, objects)
            until("some bound", lambda: len(placed(api, namespace)) > 20, every=0.01)
            assert first.stop() == 0
            # The lease was given back: nobody waits for it to run out.
            until("the other leads", lambda: second.leads(), 3)
            all_placed(api, namespace, names, 60)
            until("no open journal", lambda: sound(api, namespace))


def test_a_scheduler_that_crashed_goes_on_under_its_name_at_once_and_no_other_does(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(2)
    long = ("--lease-duration", "60", "--lease-renew-deadline", "50", "--lease-retry-period", "1")
    lease = f"{HOME}/muster-scheduler"
    first, again = (
        Scheduler(scheduler_kubeconfig, *long, "--identity", "pod-0_uid-0", elect=True, lease=lease) for _ in range(2)
    )
    other = Scheduler(scheduler_kubeconfig, *long, "--identity", "pod-1_uid-1", elect=True, lease=lease)
    with first:
        api.create(muster_pod(namespace, "before"))
        all_placed(api, namespace, ["before"], 30)
        with other:
            first.kill()
            api.create(muster_pod(namespace, "after"))
            with again:
                all_placed(api, namespace, ["after"], 30)  # half the time that the Lease lasts
                assert again.leads() and not other.leads()


def sound(api: Api, namespace: str) -> bool:
    try:
        assert_sound(api, namespace)
    except AssertionError:
        return False
    return True


# Five binds; one of two evictions tried, both noted and done; and the binding of who gets the capacity.
CALLS = 11


@pytest.mark.parametrize("number", range(CALLS))
def test_killed_at_any_call_of_five_binds_and_two_evictions(
    number: int, api: Api, namespace: str, make_nodes: MakeNodes, control_plane: ControlPlane,
    scheduler_kubeconfig: Path,
) -> None:  # fmt: skip
    api.apply(priority_class("high", 1000))  # early: the API server takes a moment to know it
    node_full_of_low(api, namespace, make_nodes, Scheduler(scheduler_kubeconfig, config=EVICTS))
    make_nodes(3, resources={"cpu": "2"})
    names = gang(api, namespace, "gang", 5)
    api.create(muster_pod(namespace, "high", cpu="4", priorityClassName="high"))
    killed = Scheduler(scheduler_kubeconfig, config=EVICTS)
    killed.run_instead([sys.executable, "-m", "live.killed_at", str(number)], cwd=TESTS)
    until("its end", lambda: not killed.running, 30)
    message = killed.log_file.read_text(encoding="utf-8")
    assert killed.killed, message
    if number == CALLS - 1:
        # No call of the commit is behind the last one that we look at.
        before = message.rpartition(f"call {number}:")[0]
        assert [before.count(f"/pods/gang-{i}/binding") for i in range(5)] == [1] * 5
        assert sorted(before.count(f"/pods/low-{i}/eviction") for i in range(2)) == [1, 2]
    with Scheduler(scheduler_kubeconfig, config=EVICTS):
        all_placed(api, namespace, [*names, "high"], 60)
        until("nothing left over", lambda: sound(api, namespace))
        assert_sound(api, namespace)


def test_the_api_server_is_restarted_while_pods_are_bound(
    api: Api, namespace: str, make_nodes: MakeNodes, control_plane: ControlPlane, scheduler_kubeconfig: Path
) -> None:
    make_nodes(10)
    objects, names = many(namespace, 8, 25, 200)
    create_all(api, objects)
    with nothing_is_bound_twice(api, namespace), Scheduler(scheduler_kubeconfig) as muster:
        until("some bound", lambda: len(placed(api, namespace)) > 50, every=0.01)
        control_plane.kill("kube-apiserver")
        control_plane.run("kube-apiserver")
        control_plane.wait_ready("kube-apiserver")
        all_placed(api, namespace, names, 90)
        until("no open journal", lambda: sound(api, namespace), 60)
        assert muster.metric("muster_faults_total") == 0


def test_etcd_is_paused_for_a_while(
    api: Api, namespace: str, make_nodes: MakeNodes, control_plane: ControlPlane, scheduler_kubeconfig: Path
) -> None:
    make_nodes(10)
    objects, names = many(namespace, 4, 25, 100)
    create_all(api, objects)
    with (
        nothing_is_bound_twice(api, namespace),
        Scheduler(scheduler_kubeconfig, elect=True, lease=f"{HOME}/muster-scheduler") as muster,
    ):
        until("some bound", lambda: len(placed(api, namespace)) > 20, every=0.01)
        control_plane.pause("etcd")
        time.sleep(10)
        control_plane.resume("etcd")
        all_placed(api, namespace, names, 90)
        until("no open journal", lambda: sound(api, namespace), 60)
        assert muster.running
        assert muster.metric("muster_faults_total") == 0


def test_a_third_of_all_calls_fail_and_watches_are_cut_at_random(
    api: Api, namespace: str, make_nodes: MakeNodes, control_plane: ControlPlane, rights: None
) -> None:
    make_nodes(10)
    token = api.token_of(HOME, "muster-scheduler")
    dice = random.Random(3)
    with (
        nothing_is_bound_twice(api, namespace),
        BadWay(control_plane, token, 0.3) as way,
        Scheduler(way.kubeconfig) as muster,
    ):
        objects, names = many(namespace, 8, 10, 120)
        making = threading.Thread(target=create_all, args=(api, objects, 4), daemon=True)
        making.start()
        for _ in range(12):
            time.sleep(dice.uniform(0.1, 0.7))
            way.cut(0.5)
        making.join(60)
        all_placed(api, namespace, names, 120)
        until("no open journal", lambda: sound(api, namespace), 60)
        assert way.failed > 50 and way.cuts > 20
        assert muster.metric("muster_faults_total") == 0
