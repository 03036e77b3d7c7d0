"""How fast pods get their nodes: muster, kube-scheduler and clients that decide nothing, in turn on one control plane.

Pods are created by a process of their own while the scheduler runs; the time is from the first creation (of a group,
where there are gangs) to the last binding. CPU seconds are those of that time, peak memory of the process's life.

Each scheduler calls as its installation does: muster with the token of its ServiceAccount and the rights of
`muster manifests`, kube-scheduler with the client certificate of its user.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import click
import uvloop
from raw import running as raw
from scene import (
    EVENTS,
    GROUPS,
    NAMESPACE,
    PODS,
    as_json,
    clean,
    counted,
    cpu_seconds,
    peak_mib,
    rests,
    save_record,
    scene,
    unbound,
)
from wire import Endpoint, endpoint_of, post_all

from builders.manifests import group
from live.accounts import account_in
from live.api import Plain, until
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, muster_pod
from muster.sim.bench.record import commit_name, machine_name

GANG = 50
_CREATED_AT_ONCE = 24
# KWOK's default: the statuses that it writes for bound pods share the two cores with what is compared, and with the 64
# of the live tests the API server alone limits every contender.
_PODS_AT_ONCE = 4


class Running(NamedTuple):
    """A contender's process, and the calls that it has made, by kind (None: nobody counts them)."""

    pid: int
    calls: Callable[[], Counter[str]] | None = None


Run = Callable[[ControlPlane, int], AbstractContextManager[Running]]


class Contender(NamedTuple):
    about: str
    gangs: bool
    run: Run


class Floor(NamedTuple):
    """`who` binds at least `times` as fast as `than`, in the best of the rounds."""

    who: str
    times: float
    than: str


class Ceiling(NamedTuple):
    """`field` of `who` is at most `most`, in the best of the rounds."""

    who: str
    field: str
    most: float


@contextmanager
def muster_runs(plane: ControlPlane, nodes: int) -> Iterator[Running]:
    with Scheduler(account_in(plane, NAMESPACE, "scheduler"), "-v", "0") as scheduler:
        yield Running(scheduler.pid, scheduler.api_calls)


@contextmanager
def kube_scheduler_runs(plane: ControlPlane, nodes: int) -> Iterator[Running]:
    plane.run("kube-scheduler")
    plane.wait_ready("kube-scheduler")
    yield Running(plane.pid("kube-scheduler"))
    plane.kill("kube-scheduler")


def _raw(events: bool, gang: int) -> Run:
    @contextmanager
    def run(plane: ControlPlane, nodes: int) -> Iterator[Running]:
        # Who calls is part of what a call costs: it has muster's account.
        account_in(plane, NAMESPACE, "scheduler")
        token = plane.api.token_of(NAMESPACE, "muster-scheduler")
        with raw(endpoint_of(plane)._replace(token=token), nodes, events, gang) as pid:
            yield Running(pid)

    return run


CONTENDERS = {
    "raw-bind": Contender("a client that only binds", False, _raw(False, 0)),
    "raw": Contender("a client that sends a binding and an event per pod", False, _raw(True, 0)),
    "muster": Contender("muster scheduler", False, muster_runs),
    "kube-scheduler": Contender("kube-scheduler, 1,000 queries a second allowed", False, kube_scheduler_runs),
    "raw-gangs": Contender(f"the same client, gangs of {GANG} with journal, status and events", True, _raw(True, GANG)),
    "muster-gangs": Contender(f"muster scheduler, gangs of {GANG}", True, muster_runs),
}
FLOORS = (
    Floor("muster", 1.4, "kube-scheduler"), Floor("muster-gangs", 1.4, "kube-scheduler"),
    Floor("muster", 0.95, "raw"), Floor("muster-gangs", 0.95, "raw-gangs"),
)  # fmt: skip
CEILINGS = tuple(
    Ceiling(who, field, most)
    for who in ("muster", "muster-gangs")
    for field, most in (("cpu_ms_per_pod", 0.7), ("calls_per_pod", 3.5))
)


def create(endpoint: Endpoint, scheduler: str, pods: int, gangs: bool) -> None:
    """In a process of its own: make the pods as fast as they are taken."""
    if gangs:
        made_groups = (group(f"g{i}", "default", namespace=NAMESPACE, minMember=GANG) for i in range(pods // GANG))
        groups = (json.dumps(one).encode() for one in made_groups)
        uvloop.run(post_all(endpoint, GROUPS, groups, _CREATED_AT_ONCE))
    made = (
        json.dumps(muster_pod(NAMESPACE, f"p-{i}", f"g{i // GANG}" if gangs else "", schedulerName=scheduler)).encode()
        for i in range(pods)
    )
    uvloop.run(post_all(endpoint, PODS, made, _CREATED_AT_ONCE))


def measure(plane: ControlPlane, name: str, nodes: int, pods: int) -> Plain:
    api, contender = plane.api, CONTENDERS[name]
    scheduler = "default-scheduler" if name == "kube-scheduler" else "muster"
    context = multiprocessing.get_context("spawn")
    maker = context.Process(target=create, args=(endpoint_of(plane), scheduler, pods, contender.gangs))
    with contender.run(plane, nodes) as (pid, calls):
        rests(plane)
        calls_before = calls() if calls is not None else Counter()
        server = plane.pid("kube-apiserver")
        maker.start()
        # What it takes to start the process that creates is not counted.
        until("the first creation", lambda: counted(api, PODS) or counted(api, GROUPS), 60, 0.01)
        begin, cpu, server_cpu = time.monotonic(), cpu_seconds(pid), cpu_seconds(server)
        until("all created", lambda: not maker.is_alive(), 600, 0.1)
        assert maker.exitcode == 0
        created = time.monotonic() - begin
        until("all bound", lambda: not unbound(api), 600, 0.1)
        took = time.monotonic() - begin
        row = {
            "work": name, "nodes": nodes, "pods": pods, "pods_per_s": round(pods / took, 1), "seconds": round(took, 2),
            "created_s": round(created, 2), "cpu_s": round(cpu_seconds(pid) - cpu, 2),
            "apiserver_cpu_s": round(cpu_seconds(server) - server_cpu, 2),
        }  # fmt: skip
        if name != "raw-bind":
            # Events are sent behind the bindings: how long until all of them are written.
            # A gang has two events, for all its pods and for itself.
            events = 2 * (pods // GANG) if contender.gangs else pods
            until("all events", lambda: counted(api, EVENTS) >= events, 120, 0.1)
            row["events_s"] = round(time.monotonic() - begin, 2)
        # With the events, which are part of what a bound pod costs.
        row["cpu_ms_per_pod"] = round(1000 * (cpu_seconds(pid) - cpu) / pods, 3)
        if calls is not None:
            made = calls() - calls_before
            row["calls_per_pod"], row["calls"] = round(made.total() / pods, 2), dict(made.most_common())
        return {**row, "peak_rss_mib": peak_mib(pid)}


def judged(rounds: list[dict[str, Plain]]) -> list[Plain]:
    """The floors and ceilings, each by the round that is best for it."""
    found = []
    for floor in FLOORS:
        ratios = [
            round(row[floor.who]["pods_per_s"] / row[floor.than]["pods_per_s"], 3)
            for row in rounds if floor.who in row and floor.than in row
        ]  # fmt: skip
        if ratios:
            met = max(ratios) >= floor.times
            found.append({"floor": f"{floor.who} >= {floor.times:g} x {floor.than}", "ratios": ratios, "met": met})
    for ceiling in CEILINGS:
        values = [row[ceiling.who][ceiling.field] for row in rounds if ceiling.who in row]
        if values:
            name = f"{ceiling.field} of {ceiling.who} <= {ceiling.most:g}"
            found.append({"floor": name, "ratios": values, "met": min(values) <= ceiling.most})
    return found


@click.command()
@click.option("--nodes", default=1000, show_default=True)
@click.option("--pods", default=5000, show_default=True)
@click.option("--rounds", default=1, show_default=True, help="How often each has its turn; the best counts.")
@click.option("--only", multiple=True, type=click.Choice(list(CONTENDERS)), help="May be given several times.")
@click.option("-o", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the record there, too.")
def compare(nodes: int, pods: int, rounds: int, only: tuple[str, ...], form: str, save: Path | None) -> None:
    """Muster, kube-scheduler and raw clients in turn. The exit code is 1 when a floor is missed."""
    names = list(only or CONTENDERS)
    found: list[dict[str, Plain]] = []
    with scene(nodes, pods_at_once=_PODS_AT_ONCE) as plane:
        for number in range(rounds):
            found.append({})
            # There and back: nobody has always the fresh or always the used control plane.
            for name in names if number % 2 == 0 else reversed(names):
                row = found[-1][name] = measure(plane, name, nodes, pods)
                click.echo(_line(row), err=form == "json")
                clean(plane)
    floors = judged(found)
    best = [max((one[name] for one in found), key=lambda row: row["pods_per_s"]) for name in names]
    for row in best:
        row["about"] = CONTENDERS[row["work"]].about
    record = {"machine": machine_name(), "commit": commit_name(), "rounds": rounds, "best": best, "floors": floors}
    if form == "json":
        click.echo(as_json(record))
    for floor in floors:
        ratios = ", ".join(f"{ratio:g}" for ratio in floor["ratios"])
        click.echo(f"{'met' if floor['met'] else 'missed':6} {floor['floor']}: {ratios}", err=form == "json")
    save_record(record, save)
    if not all(floor["met"] for floor in floors):
        raise SystemExit(1)


def _line(row: Plain) -> str:
    events = f"  events after {row['events_s']} s" if "events_s" in row else ""
    calls = f"  {row['calls_per_pod']} calls a pod" if "calls_per_pod" in row else ""
    return (
        f"{row['work']:15} {row['pods_per_s']:>7} pods/s  {row['seconds']:>6} s (created {row['created_s']} s)  "
        f"CPU {row['cpu_s']:>6} s, {row['cpu_ms_per_pod']} ms a pod  API server {row['apiserver_cpu_s']:>6} s  "
        f"{row['peak_rss_mib']:>6} MiB{events}{calls}"
    )
