"""How long until a scheduler that was started again binds, what it costs at rest, and its deadlines under load.

Without KWOK and controllers, whose own work would be most of what is measured: nodes are created ready, pods are
created on their nodes and then reported as running. The scheduler elects itself by a Lease with the default times.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from pending import under_load
from scene import GROUPS, NAMESPACE, PODS, as_json, node, node_name, peak_mib, save_record
from wire import PATCH, Endpoint, Wire, endpoint_of, post_all

from builders.manifests import group
from live.api import Api, Plain, until
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, muster_pod
from muster.model.crd import OURS, PEERS
from muster.sim.bench.record import commit_name, machine_name

GANG = 50
CREATED_AT_ONCE = 48
LEASE = "kube-system/muster-scheduler"
FLOORS = {
    "graceful_s": 15.0, "same_pod_s": 15.0, "first_s": 15.0, "takeover_s": 17.0, "idle_ms": 50.0,
    "peak_rss_mib": 1536.0,
}  # fmt: skip
# Well within a probe's timeout (5 s) and the lease's renew deadline (10 s).
LOAD_FLOORS = {"probe_most_s": 1.0, "renewals_apart_most_s": 5.0, "loop_lag_most_s": 1.0}
# The API server taints a node until a controller, which is not there, has seen it.
_FLAGS = {"kube-apiserver": ["--disable-admission-plugins=TaintNodesByCondition"]}


@contextmanager
def scene(nodes: int, pods: int, gangs: bool) -> Iterator[ControlPlane]:
    """Nodes with pods that run, and nothing else going on."""
    with ControlPlane(parts=("etcd", "kube-apiserver"), flags=_FLAGS) as plane:
        api, endpoint = plane.api, endpoint_of(plane)
        for definition in (*OURS, *PEERS):
            api.apply(definition.plain())
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        time.sleep(2)  # the API server's own pause before it takes objects of a new definition
        asyncio.run(_fill(endpoint, nodes, pods, gangs))
        yield plane


async def _fill(endpoint: Endpoint, nodes: int, pods: int, gangs: bool) -> None:
    await post_all(endpoint, "/api/v1/nodes", (_bytes(_ready(node(i))) for i in range(nodes)), CREATED_AT_ONCE)
    if gangs:
        groups = (_bytes(group(f"g{i}", "default", namespace=NAMESPACE, minMember=GANG)) for i in range(pods // GANG))
        await post_all(endpoint, GROUPS, groups, CREATED_AT_ONCE)
    made = (
        muster_pod(NAMESPACE, f"r-{i}", f"g{i // GANG}" if gangs else "", nodeName=node_name(i % nodes))
        for i in range(pods)
    )
    await post_all(endpoint, PODS, map(_bytes, made), CREATED_AT_ONCE)
    runs = _bytes({"status": {"phase": "Running"}})
    left = iter(range(pods))

    async def some(wire: Wire) -> None:
        for i in left:
            await wire.send("PATCH", f"{PODS}/r-{i}/status", runs, PATCH)

    async with Wire(endpoint) as wire:
        await asyncio.gather(*(some(wire) for _ in range(CREATED_AT_ONCE)))


def _ready(made: Plain) -> Plain:
    made["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "bench"}]
    return made


def _bytes(obj: Plain) -> bytes:
    return json.dumps(obj).encode()


class Restarts:
    """One scheduler after another on the same cluster, each timed from its start to the first binding."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane, self._api, self._count = plane, plane.api, 0

    def scheduler(self, identity: str) -> Scheduler:
        elect = ("--leader-elect", "--lease-name", LEASE, "--identity", identity)
        return Scheduler(self._plane.kubeconfig, *elect, "-v", "3")

    def takeover(self, leader: Scheduler, standby: Scheduler) -> float:
        """From the death of the leader to the first binding of one that stands by."""
        standby.start()
        leader.kill()
        return self._until_bound(time.monotonic())

    def first_bind(self, scheduler: Scheduler) -> float:
        name = self._new_pod()
        begin = time.monotonic()
        scheduler.start(wait=False)
        return self._until_bound(begin, name)

    def _new_pod(self) -> str:
        self._count += 1
        name = f"new-{self._count}"
        self._api.create(muster_pod(NAMESPACE, name))
        return name

    def _until_bound(self, begin: float, name: str = "") -> float:
        name = name or self._new_pod()
        until("bound", lambda: bound(self._api, name), 120, 0.02)
        return round(time.monotonic() - begin, 2)


def bound(api: Api, name: str) -> bool:
    return bool(api.get(f"{PODS}/{name}")["spec"].get("nodeName"))


def idle_cycles(plane: ControlPlane, scheduler: Scheduler, times: int = 20) -> float:
    """Returns the median of cycles that find nothing to do; a changed label of a node starts each."""
    settled = len(_cycles(scheduler))
    for i in range(times):
        plane.api.merge("/api/v1/nodes/n0000", {"metadata": {"labels": {"bench": str(i)}}})
        time.sleep(0.3)
    idle = [entry["milliseconds"] for entry in _cycles(scheduler)[settled:] if not entry["decided"]]
    assert len(idle) >= times // 2, f"{len(idle)} idle cycles"
    return float(statistics.median(idle))


def _cycles(scheduler: Scheduler) -> list[Plain]:
    return [entry for entry in scheduler.log() if entry.get("msg") == "cycle"]


def measure(plane: ControlPlane, elsewhere: bool) -> Plain:
    found: Plain = {}
    again = Restarts(plane)
    one = again.scheduler("bench-0_uid-0")
    found["first_s"] = again.first_bind(one)
    time.sleep(3)
    begin = time.monotonic()
    assert one.stop() == 0
    found["stopping_s"] = round(time.monotonic() - begin, 2)
    two = again.scheduler("bench-1_uid-1")
    found["graceful_s"] = again.first_bind(two)
    time.sleep(3)
    two.kill()
    found["same_pod_s"] = again.first_bind(two)
    time.sleep(3)
    last = two
    if elsewhere:
        two.kill()
        last = again.scheduler("bench-2_uid-2")
        found["elsewhere_s"] = again.first_bind(last)
        time.sleep(3)
        standby = again.scheduler("bench-3_uid-3")
        found["takeover_s"] = again.takeover(last, standby)
        last = standby
        time.sleep(3)
    found["idle_ms"] = idle_cycles(plane, last)
    found["peak_rss_mib"] = peak_mib(last.pid)
    last.stop()
    return found


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=50_000, show_default=True, help="Running pods.")
@click.option("--plain", is_flag=True, help="Every pod a group of its own in memory; otherwise gangs of 50.")
@click.option("--pending", default=0, show_default=True, help="Then so many pods that wait: are deadlines kept?")
@click.option("--elsewhere/--no-elsewhere", default=True, show_default=True, help="A crash on another node, too.")
@click.option("-o", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the record there, too.")
def restart(
    nodes: int, pods: int, plain: bool, pending: int, elsewhere: bool, form: str, save: Path | None
) -> None:
    """From a scheduler's start to its first binding, and its rest. The exit code is 1 when a floor is missed."""
    with scene(nodes, pods, not plain) as plane:
        click.echo("the cluster stands", err=True)
        found = measure(plane, elsewhere)
        if pending:
            found["load"] = under_load(plane, Restarts(plane).scheduler("bench-4_uid-4"), pending)
    record = {
        "machine": machine_name(), "commit": commit_name(), "nodes": nodes, "running": pods,
        "groups": "one per pod, in memory" if plain else f"gangs of {GANG}", **found,
    }  # fmt: skip
    if form == "json":
        click.echo(as_json(record))
    missed = _judged(found, FLOORS, form)
    if pending:
        missed = _judged(found["load"], LOAD_FLOORS, form, f"with {pending} pods waiting: ") or missed
    save_record(record, save)
    if missed:
        raise SystemExit(1)


def _judged(found: Plain, floors: dict[str, float], form: str, before: str = "") -> bool:
    """Say what was found and which floors are met; True if one is not."""
    missed = False
    for name, value in found.items():
        if name == "load":
            continue
        limit = floors.get(name)
        word = "" if limit is None else "met" if value < limit else "missed"
        missed = missed or word == "missed"
        click.echo(f"{word:6} {before}{name} {value}{'' if limit is None else f' < {limit:g}'}", err=form == "json")
    return missed
