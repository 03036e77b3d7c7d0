"""How fast pods get their nodes on a real control plane: muster, kube-scheduler and a client that does nothing else.

    .venv/bin/python bench/live [--nodes 1000] [--pods 5000] [--only muster]

Each runs on a control plane of its own (etcd, kube-apiserver, kube-controller-manager, KWOK nodes), one after the
other on the same machine. Pods are created by a process of its own while the scheduler runs; the time is from the first
creation to the last binding. With `--ahead` they are there before it starts, and the time is from its start. `raw`
binds and records an event per pod, `raw-bind` only binds: what the control plane and one Python client can do at most.
One JSON line per run.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from live.api import Api, Plain, until  # noqa: E402
from live.controlplane import ControlPlane  # noqa: E402
from live.muster_process import Scheduler, create_all, pod, pod_group  # noqa: E402
from muster.kube.client import Client, Limits  # noqa: E402
from muster.kube.config import load  # noqa: E402
from muster.kube.events import Recorder  # noqa: E402
from muster.kube.informers import Informers  # noqa: E402
from muster.kube.writes import Writes  # noqa: E402
from muster.model.core import Pod  # noqa: E402
from muster.model.crd import OURS, PEERS  # noqa: E402
from muster.store import Severity  # noqa: E402

NAMESPACE = "bench"
GANG = 50
PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok")


def node(i: int) -> Plain:
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": f"n{i:04d}", "labels": {"kubernetes.io/hostname": f"n{i:04d}"}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }  # fmt: skip


def create(url: str, ca: str, token: str, scheduler: str, pods: int, gangs: bool) -> None:
    """In a process of its own: make the pods as fast as they are taken."""
    api = Api(url, Path(ca), token)
    if gangs:
        create_all(api, [pod_group(NAMESPACE, f"g{i}", GANG) for i in range(pods // GANG)])
    made = (pod(NAMESPACE, f"p-{i}", f"g{i // GANG}" if gangs else "", schedulerName=scheduler) for i in range(pods))
    create_all(api, made)


class Usage:
    """CPU seconds and peak memory of a process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = self._cpu()

    def _cpu(self) -> float:
        fields = Path(f"/proc/{self._pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def told(self) -> dict[str, float]:
        status = Path(f"/proc/{self._pid}/status").read_text(encoding="utf-8")
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return {"cpu_s": round(self._cpu() - self._before, 2), "peak_rss_mib": round(int(peak.split()[1]) / 1024, 1)}


@contextmanager
def muster(plane: ControlPlane) -> Iterator[int]:
    with Scheduler(plane.kubeconfig) as running:
        yield running.pid


@contextmanager
def kube_scheduler(plane: ControlPlane) -> Iterator[int]:
    plane.run("kube-scheduler")
    plane.wait_ready("kube-scheduler")
    yield plane.pid("kube-scheduler")


@contextmanager
def raw(plane: ControlPlane, nodes: int, events: bool) -> Iterator[int]:
    process = multiprocessing.get_context("spawn").Process(
        target=_raw, args=(str(plane.kubeconfig), nodes, events), daemon=True
    )
    process.start()
    assert process.pid is not None
    yield process.pid
    process.terminate()
    process.join()


def _raw(kubeconfig: str, nodes: int, events: bool) -> None:
    asyncio.run(_bind_all(kubeconfig, nodes, events))


async def _bind_all(kubeconfig: str, nodes: int, events: bool) -> None:
    """Bind what comes, round and round the nodes."""
    async with Client(load(kubeconfig), limits=Limits(writes_at_once=64)) as client:
        writes, recorder = Writes(client), Recorder(client, "raw", "raw")
        sending = asyncio.create_task(recorder.run())
        async with Informers(client, [Pod], lambda text: None) as informers:
            await informers.synced()
            stream, count, running = informers.stream(), 0, set()
            while True:
                await stream.wait()
                for delta in stream.take():
                    new = delta.new
                    if not isinstance(new, Pod) or delta.old is not None or new.spec.node_name:
                        continue
                    count += 1
                    task = asyncio.create_task(_one(writes, recorder, new, f"n{count % nodes:04d}", events))
                    running.add(task)
                    task.add_done_callback(running.discard)
        sending.cancel()


async def _one(writes: Writes, recorder: Recorder, pod: Pod, to: str, events: bool) -> None:
    key = f"{pod.metadata.namespace}/{pod.metadata.name}"
    await writes.bind(key, to, uid=pod.metadata.uid)
    if events:
        recorder.record(pod, Severity.NORMAL, "Scheduled", f"Successfully assigned {key} to {to}")


def measure(name: str, nodes: int, pods: int, ahead: bool) -> Plain:
    with ControlPlane(parts=PLANE) as plane:
        api = plane.api
        for definition in (*OURS, *PEERS):
            api.apply(definition.plain())
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        create_all(api, map(node, range(nodes)))
        until("the account", lambda: not api.gone(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"), 60)
        until("the nodes", lambda: _ready(api) == nodes, 120, 1)
        scheduler = "default-scheduler" if name == "kube-scheduler" else "muster"
        runs = {
            "muster": lambda: muster(plane), "muster-gangs": lambda: muster(plane),
            "kube-scheduler": lambda: kube_scheduler(plane),
            "raw": lambda: raw(plane, nodes, True), "raw-bind": lambda: raw(plane, nodes, False),
        }  # fmt: skip
        maker = multiprocessing.get_context("spawn").Process(
            target=create, args=(plane.url, str(plane.ca), plane.token, scheduler, pods, name == "muster-gangs")
        )
        if ahead:
            maker.start()
            maker.join()
        server, begin = Usage(plane.pid("kube-apiserver")), time.monotonic()
        with runs[name]() as pid:
            usage = Usage(pid)
            if not ahead:
                time.sleep(3)
                server, begin = Usage(plane.pid("kube-apiserver")), time.monotonic()
                maker.start()
                until("all created", lambda: not maker.is_alive(), 600, 0.2)
            created = time.monotonic() - begin
            until("all bound", lambda: _unbound(api) == 0, 600, 0.2)
            took = time.monotonic() - begin
            told = {"seconds": round(took, 2), "created_s": round(created, 2), "pods_per_s": round(pods / took, 1)}
            how = {"work": name, "nodes": nodes, "pods": pods, "ahead": ahead}
            return {**how, **told, **usage.told(), "apiserver": server.told()}


def _ready(api: Api) -> int:
    nodes = api.list("/api/v1/nodes?resourceVersion=0")
    return sum(
        any(c["type"] == "Ready" and c["status"] == "True" for c in n["status"].get("conditions", ()))
        and not n["spec"].get("taints")
        for n in nodes
    )


def _unbound(api: Api) -> int:
    answer = api.get(f"/api/v1/namespaces/{NAMESPACE}/pods?fieldSelector=spec.nodeName=&limit=1")
    return len(answer["items"])


@click.command()
@click.option("--nodes", default=1000, show_default=True)
@click.option("--pods", default=5000, show_default=True)
@click.option("--only", multiple=True, help="One of muster, muster-gangs, kube-scheduler, raw, raw-bind.")
@click.option("--ahead", is_flag=True, help="The pods are there before the scheduler starts.")
def main(nodes: int, pods: int, only: tuple[str, ...], ahead: bool) -> None:
    for name in only or ("raw-bind", "raw", "muster", "muster-gangs", "kube-scheduler"):
        print(json.dumps(measure(name, nodes, pods, ahead)), flush=True)

