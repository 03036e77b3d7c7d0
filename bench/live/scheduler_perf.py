"""Four cases of Kubernetes' scheduler_perf on a real control plane: kube-scheduler and muster in turn, in one run.

Nodes and initial pods are there first; then the measured pods are created while the scheduler runs. The time is from
the first creation to the last binding. Unlike scheduler_perf, everything shares this machine, KWOK answers every
binding as a kubelet would, and all pods are in one namespace.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import uvloop
from compare import Run, kube_scheduler_runs, muster_runs
from scene import NAMESPACE, PODS, as_json, clean, counted, cpu_seconds, node_name, rests, save_record, scene, unbound
from wire import Endpoint, endpoint_of, post_all

from builders.manifests import pod
from live.api import Plain, live_node, until
from live.controlplane import ControlPlane
from live.native_plane import FLAGS, native_group
from live.native_plane import VERSION as NATIVE
from muster.sim.bench.record import commit_name, machine_name

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NATIVE_GROUPS = f"/apis/{NATIVE}/namespaces/{NAMESPACE}/podgroups"
NODES, GANG = 5000, 3
_CREATED_AT_ONCE = 24
# scheduler_perf has no kubelets. Those of 5,000 nodes would renew 500 Leases per second, which is half of a core.
_RARE_LEASES = {
    "kwok": ["--node-lease-duration-seconds=3600"], "kube-controller-manager": ["--node-monitor-grace-period=2h"],
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    about: str
    initial: int
    measured: int
    spec: Callable[[int], dict[str, Any]]  # of a measured pod: fields that differ from a default pod's
    initial_equal: bool = False
    gang: int = 0


def _plain(number: int) -> dict[str, Any]:
    return {}


def _excluding(number: int) -> dict[str, Any]:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"color": "green"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"labels": {"color": "green"}, "affinity": affinity}


def _spread(number: int) -> dict[str, Any]:
    constraint = {
        "maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }  # fmt: skip
    return {"labels": {"color": "blue"}, "topologySpreadConstraints": [constraint]}


def _member(number: int) -> dict[str, Any]:
    resources = {"cpu": "100m", "memory": "100Mi"}
    return {"requests": resources, "schedulingGroup": {"podGroupName": f"g{number // GANG}"}}


CASES = {
    "1": Case("SchedulingBasic/5000Nodes_10000Pods", 1000, 10_000, _plain),
    "5": Case("SchedulingPodAntiAffinity/5000Nodes_2000Pods", 1000, 2000, _excluding, initial_equal=True),
    "9": Case("TopologySpreading/5000Nodes_5000Pods", 5000, 5000, _spread),
    "21": Case("GangScheduling/5000Nodes, 1000 gangs of 3, native PodGroups", 0, 3000, _member, gang=GANG),
}
CONTENDERS: dict[str, tuple[str, Run]] = {
    "kube-scheduler": ("default-scheduler", kube_scheduler_runs), "muster": ("muster", muster_runs),
}  # fmt: skip


def _node(number: int) -> Plain:
    return live_node(node_name(number), {ZONE: f"moon-{number % 3 + 1}"}, cpu=4)


def _pod(name: str, scheduler: str, fields: dict[str, Any]) -> bytes:
    default = {"cpu": "100m", "memory": "500Mi"}
    container = {"image": "app:1", "ports": [{"containerPort": 80}]}
    made = {"requests": default, "container": container, "schedulerName": scheduler, **fields}
    made.setdefault("limits", made["requests"])
    return json.dumps(pod(name, namespace=NAMESPACE, terminationGracePeriodSeconds=1, **made)).encode()


def create(endpoint: Endpoint, name: str, scheduler: str, count: int, initial: bool) -> None:
    """In a process of its own: makes the initial or the measured pods as fast as they are taken."""
    case = CASES[name]
    if case.gang and not initial:
        groups = (native_group(NAMESPACE, f"g{i}", case.gang) for i in range(count // case.gang))
        bodies = (json.dumps(one).encode() for one in groups)
        uvloop.run(post_all(endpoint, NATIVE_GROUPS, bodies, _CREATED_AT_ONCE))
    spec = _plain if initial and not case.initial_equal else case.spec
    made = (_pod(f"{'i' if initial else 'p'}-{i}", scheduler, spec(i)) for i in range(count))
    uvloop.run(post_all(endpoint, PODS, made, _CREATED_AT_ONCE))


def measure(plane: ControlPlane, name: str, who: str, nodes: int, initial: int, measured: int) -> Plain:
    scheduler, run = CONTENDERS[who]
    api = plane.api
    context = multiprocessing.get_context("spawn")

    def maker(count: int, first: bool) -> Any:
        return context.Process(target=create, args=(endpoint_of(plane), name, scheduler, count, first))

    with run(plane, nodes) as (pid, calls):
        if initial:
            making = maker(initial, True)
            making.start()
            until("the initial pods", lambda: not making.is_alive() and not unbound(api), 900, 0.5)
            assert making.exitcode == 0
        rests(plane)
        making = maker(measured, False)
        making.start()
        until("the first creation", lambda: counted(api, PODS) > initial, 120, 0.02)
        begin, cpu = time.monotonic(), cpu_seconds(pid)
        before = calls() if calls is not None else Counter()
        until("all created", lambda: not making.is_alive(), 900, 0.1)
        assert making.exitcode == 0
        created = time.monotonic() - begin
        until("all bound", lambda: not unbound(api), 900, 0.2)
        took = time.monotonic() - begin
        made = calls() - before if calls is not None else Counter()
        return {
            "pods_per_s": round(measured / took, 1), "seconds": round(took, 2), "created_s": round(created, 2),
            "cpu_ms_per_pod": round(1000 * (cpu_seconds(pid) - cpu) / measured, 3),
            **({"calls": dict(made.most_common())} if made else {}),
        }  # fmt: skip


def play(plane: ControlPlane, name: str, nodes: int, scale: float, rounds: int) -> Plain:
    """One case: its sizes, each contender's rounds, and muster's ratio to kube-scheduler in each round."""
    case = CASES[name]
    initial = round(case.initial * scale)
    measured = max(round(case.measured * scale), 1)
    if case.gang:
        measured -= measured % case.gang
    more = (NATIVE_GROUPS,) if case.gang else ()
    rows: dict[str, list[Plain]] = {who: [] for who in CONTENDERS}
    for number in range(rounds):
        # There and back: nobody has always the fresh or always the used control plane.
        for who in CONTENDERS if number % 2 == 0 else reversed(CONTENDERS):
            row = measure(plane, name, who, nodes, initial, measured)
            rows[who].append(row)
            click.echo(f"case {name:2} {who:14} {row}", err=True)
            clean(plane, *more)
    ratios = [
        round(ours["pods_per_s"] / theirs["pods_per_s"], 3)
        for ours, theirs in zip(rows["muster"], rows["kube-scheduler"], strict=True)
    ]
    sizes = {"nodes": nodes, "initial": initial, "measured": measured}
    return {"about": case.about, **sizes, "rounds": rows, "ratios": ratios, "met": min(ratios) >= 1.0}


@click.command("scheduler-perf")
@click.option("--case", "cases", multiple=True, type=click.Choice(list(CASES)), help="May be given several times.")
@click.option("--scale", default=1.0, show_default=True, help="Of the published numbers of nodes and pods.")
@click.option("--rounds", default=1, show_default=True)
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the record there, too.")
def scheduler_perf(cases: tuple[str, ...], scale: float, rounds: int, save: Path | None) -> None:
    """Cases of scheduler_perf, live, as JSON. The exit code is 1 if muster is slower than kube-scheduler in a round."""
    nodes = max(round(NODES * scale), 3)
    found = {}
    # Native groups need other flags of the control plane.
    for native, flags in ((False, {}), (True, FLAGS)):
        names = [name for name in cases or CASES if bool(CASES[name].gang) is native]
        if names:
            flags = {part: [*flags.get(part, ()), *_RARE_LEASES.get(part, ())] for part in {*flags, *_RARE_LEASES}}
            with scene(nodes, _node, flags) as plane:
                found.update({name: play(plane, name, nodes, scale, rounds) for name in names})
    record = {
        "command": "python bench/live scheduler-perf", "machine": machine_name(), "commit": commit_name(),
        "kubernetes": "1.36", "scale": scale, "cases": found,
    }  # fmt: skip
    click.echo(as_json(record))
    save_record(record, save)
    if not all(row["met"] for row in found.values()):
        raise SystemExit(1)
