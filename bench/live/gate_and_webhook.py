"""The edge gate and the webhook under load: how many requests a second, how long each takes, how much memory.

Of the control plane only etcd and the API server run, so that nobody else is at work. Applications have their pods on
nodes; a tenth of them is held by the gate. The client is a process of its own, without muster's code.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import click
from scene import NAMESPACE, PODS, as_json, cpu_seconds, node, node_name, peak_mib, save_record
from wire import Endpoint, endpoint_of, post_all

from live.api import Plain, until
from live.controlplane import ControlPlane
from live.part_process import Part, free_port
from muster.model.crd import OURS, PEERS
from muster.sim.bench.record import commit_name, machine_name

PODS_PER_APPLICATION = 100
CREATED_AT_ONCE = 48
NODES = 100
WATCHES = 100
DOMAIN = "groupmanagement.kubeedge.io"
LABELS = {f"{DOMAIN}/{word}-propagationpolicy": "pp" for word in ("required", "binding")}
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
_FLAGS = {"kube-apiserver": ["--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"]}


@contextmanager
def scene(pods: int) -> Iterator[ControlPlane]:
    with ControlPlane(parts=("etcd", "kube-apiserver"), flags=_FLAGS) as plane:
        api = plane.api
        for definition in (*OURS, *PEERS):
            api.apply(definition.plain())
        label = {f"{DOMAIN}/webhook": "enabled"}
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": label}})
        time.sleep(2)  # the API server's own pause before it takes objects of a new definition
        version = f"{DOMAIN}/v1alpha1"
        for i in range(10):
            spec = {"nodes": [node_name(n) for n in range(i, NODES, 10)]}
            api.create({"apiVersion": version, "kind": "NodeGroup", "metadata": {"name": f"g{i}"}, "spec": spec})
        entries = [{"nodeGroupNames": [f"g{i}"], "weight": 1} for i in range(10)]
        meta = {"name": "pp", "namespace": NAMESPACE}
        spec = {"staticWeightList": entries}
        api.create({"apiVersion": version, "kind": "PropagationPolicy", "metadata": meta, "spec": spec})
        asyncio.run(_fill(endpoint_of(plane), plane, pods))
        yield plane


async def _fill(endpoint: Endpoint, plane: ControlPlane, pods: int) -> None:
    await post_all(endpoint, "/api/v1/nodes", (_bytes(node(i)) for i in range(NODES)), CREATED_AT_ONCE)
    apps = range(pods // PODS_PER_APPLICATION)
    await post_all(endpoint, APPS, (_bytes(_top(f"app-{i}", held=i % 10 == 0)) for i in apps), CREATED_AT_ONCE)
    uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in plane.api.list(APPS)}
    await post_all(endpoint, SETS, (_bytes(_below(f"app-{i}", uids[f"app-{i}"])) for i in apps), CREATED_AT_ONCE)
    sets = {one["metadata"]["name"]: one["metadata"]["uid"] for one in plane.api.list(SETS)}
    made = (_pod(f"app-{i % len(apps)}", sets, f"p-{i}", node_name(i // len(apps) % NODES)) for i in range(pods))
    await post_all(endpoint, PODS, map(_bytes, made), CREATED_AT_ONCE)


def _top(name: str, *, held: bool) -> Plain:
    labels = {label: value for label, value in LABELS.items() if not held or "required" in label}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": _spec(name),
    }  # fmt: skip


def _below(name: str, uid: str) -> Plain:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid, "controller": True}
    meta = {"name": f"{name}-1", "namespace": NAMESPACE, "ownerReferences": [owner]}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": _spec(name)}


def _spec(name: str) -> Plain:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "app:1"}]}}
    return {"replicas": 100_000, "selector": {"matchLabels": {"app": name}}, "template": template}


def _pod(app: str, sets: dict[str, str], name: str, on: str = "") -> Plain:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-1", "uid": sets[f"{app}-1"]}
    owners = [{**owner, "controller": True}]
    meta = {"name": name, "namespace": NAMESPACE, "labels": {"app": app}, "ownerReferences": owners}
    variables = [{"name": f"VARIABLE_{i}", "value": "x" * 40} for i in range(20)]  # an everyday pod has 3 to 5 kB
    spec: Plain = {"containers": [{"name": "c", "image": "app:1", "env": variables}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**spec, **({"nodeName": on} if on else {})}}


def _bytes(obj: Plain) -> bytes:
    return json.dumps(obj).encode()


class Client:
    """HTTPS with a token; `timed` asks so often from so many connections."""

    def __init__(self, url: str, ca: bytes, token: str) -> None:
        self._url, self._tls, self._token = url, ssl.create_default_context(cadata=ca.decode()), token

    async def __aenter__(self) -> Client:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(self._url, connector=connector, headers=headers, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def get(self, path: str) -> int:
        """The answer's size; it is read as it comes."""
        size = 0
        async with self._session.get(path) as answer:
            assert answer.status == 200, await answer.text()
            async for piece in answer.content.iter_any():
                size += len(piece)
        return size

    async def post(self, path: str, body: bytes) -> int:
        async with self._session.post(path, data=body, headers={"Content-Type": "application/json"}) as answer:
            text = await answer.read()
            assert answer.status < 300, text
            return len(text)

    async def added(self, path: str, count: int) -> None:
        """Waits until so many pods were reported."""
        rest, seen = b"", 0
        async with self._session.get(path) as answer:
            async for piece in answer.content.iter_any():
                *lines, rest = (rest + piece).split(b"\n")
                seen += sum(line.startswith(b'{"type":"ADDED"') for line in lines)
                if seen >= count:
                    return


async def timed(ask: Callable[[int], Awaitable[int]], times: int, at_once: int) -> Plain:
    """Requests a second, and how long one takes."""
    spent: list[float] = []
    left = iter(range(times))

    async def some() -> None:
        for i in left:
            began = time.perf_counter()
            await ask(i)
            spent.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(at_once)))
    seconds = time.perf_counter() - began
    p99 = sorted(spent)[int(len(spent) * 0.99)]
    found = {"per_s": times / seconds, "p50_ms": 1000 * statistics.median(spent), "p99_ms": 1000 * p99}
    return {name: round(value, 2) for name, value in found.items()}


async def whole(client: Client, path: str) -> Plain:
    """One list, read to its end."""
    began = time.perf_counter()
    size = await client.get(path)
    return {"s": round(time.perf_counter() - began, 2), "mib": round(size / 2**20, 1)}


async def gate_figures(plane: ControlPlane, port: int, ca: bytes, pid: int, pods: int) -> Plain:
    found: Plain = {"rss_before_mib": peak_mib(pid)}
    direct = Client(plane.url, plane.ca.read_bytes(), plane.token)
    gated = Client(f"https://127.0.0.1:{port}", ca, plane.token)
    async with direct, gated:
        for name, client in (("direct", direct), ("gate", gated)):
            await client.get("/api/v1/nodes")
            found[f"list_{name}"] = await whole(client, "/api/v1/pods")
            for at_once in (1, 16):
                asked = await timed(lambda _, client=client: client.get(f"{PODS}/p-1"), 2000, at_once)
                found[f"get_{name}_{at_once}"] = asked
        found["rss_after_lists_mib"] = peak_mib(pid)
        found["forward_gate_16"] = await timed(lambda _: gated.get("/api/v1/nodes/n0001"), 2000, 16)
        found["cpu_before_watches_s"] = cpu_seconds(pid)
        version = plane.api.get("/api/v1/pods?limit=1")["metadata"]["resourceVersion"]
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={version}&fieldSelector=spec.nodeName%3D"
        waiting = [
            asyncio.create_task(gated.added(f"/api/v1/pods?{query}{node_name(i)}", PODS_PER_APPLICATION // NODES))
            for i in range(WATCHES)
        ]
        await asyncio.sleep(10)
        began = time.perf_counter()
        await asyncio.to_thread(plane.api.merge, f"{APPS}/app-0", {"metadata": {"labels": LABELS}})
        await asyncio.gather(*waiting)
        found["release_s"] = round(time.perf_counter() - began, 2)
        found["cpu_for_watches_s"] = round(cpu_seconds(pid) - found.pop("cpu_before_watches_s"), 2)
    found["rss_peak_mib"] = peak_mib(pid)
    return found


async def webhook_figures(plane: ControlPlane, port: int, ca: bytes, pid: int, apps: int) -> Plain:
    sets = {one["metadata"]["name"]: one["metadata"]["uid"] for one in plane.api.list(SETS)}
    hook = Client(f"https://127.0.0.1:{port}", ca, "")
    found: Plain = {}

    def review(i: int) -> bytes:
        made = _pod(f"app-{1 + i % 9 + 10 * (i % (apps // 10))}", sets, f"new-{i}")
        request = {"uid": f"r-{i}", "operation": "CREATE", "namespace": NAMESPACE, "object": made, "dryRun": True}
        request["kind"] = {"group": "", "version": "v1", "kind": "Pod"}
        return _bytes({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})

    async with hook, Client(plane.url, plane.ca.read_bytes(), plane.token) as api:
        for at_once in (1, 16):
            found[f"mutate_{at_once}"] = await timed(lambda i: hook.post("/mutate", review(i)), 3000, at_once)
        bodies = [_bytes(_pod(f"app-{1 + i % 9}", sets, f"made-{i}")) for i in range(2000)]
        found["create_with_webhook_16"] = await timed(lambda i: api.post(PODS, bodies[i]), 2000, 16)
        plane.api.merge(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": {f"{DOMAIN}/webhook": None}}})
        await asyncio.sleep(2)
        bodies = [_bytes(_pod(f"app-{1 + i % 9}", sets, f"plain-{i}")) for i in range(2000)]
        found["create_without_16"] = await timed(lambda i: api.post(PODS, bodies[i]), 2000, 16)
    found["rss_peak_mib"] = peak_mib(pid)
    return found


def measure(plane: ControlPlane, pods: int) -> Plain:
    with tempfile.TemporaryDirectory() as folder:
        ca = Path(folder) / "ca.crt"
        gate = Part("edge-gate", plane.kubeconfig, "--proxy-port", "0", "--write-ca-file", str(ca))
        with gate:
            arguments = (int(gate.started["port"]), ca.read_bytes(), gate.pid, pods)
            found: Plain = {"gate": asyncio.run(gate_figures(plane, *arguments))}
    port = free_port()
    where = ("--url", f"https://127.0.0.1:{port}", "--webhook-host", "127.0.0.1", "--webhook-port", str(port))
    with Part("webhook", plane.kubeconfig, *where, "--no-leader-elect", "--no-ungate") as webhook:
        path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/muster-webhook"
        trusted = until("it to be registered", lambda: plane.api.get(path)["webhooks"][0]["clientConfig"]["caBundle"])
        authority = base64.b64decode(trusted)
        applications = pods // PODS_PER_APPLICATION
        found["webhook"] = asyncio.run(webhook_figures(plane, port, authority, webhook.pid, applications))
    return found


@click.command()
@click.option("--pods", default=20_000, show_default=True, help="Pods on nodes.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the record there, too.")
def gate_and_webhook(pods: int, save: Path | None) -> None:
    """The edge gate and the webhook under load, as JSON."""
    with scene(pods) as plane:
        click.echo("the cluster stands", err=True)
        record = {"machine": machine_name(), "commit": commit_name(), "pods": pods, **measure(plane, pods)}
    click.echo(as_json(record))
    save_record(record, save)
