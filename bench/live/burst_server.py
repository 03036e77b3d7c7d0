"""A stand-in for the API server in a burst of pods: it lists, watches and answers a scheduler's calls.

It sends what a control plane with KWOK sends about a pod: created, bound, running (burst_objects.json). It decides and
checks nothing, so that the CPU time of the scheduler can be measured and profiled alone.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from scene import NAMESPACE, node

from muster.model.merge_patch import merged

RUNS_AFTER_S = 0.05
_HEAD = (
    "HTTP/1.1 {status} OK\r\nAudit-Id: 5c3b8c5e-6c1a-4a3f-9d6a-0d7b1c3f9d11\r\nCache-Control: no-cache, private\r\n"
    "Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: 7b0f1a52-27a5-4d2b-a7e9-3f0a1e9b7f11\r\n"
    "X-Kubernetes-Pf-Prioritylevel-Uid: 1f0f1a52-27a5-4d2b-a7e9-3f0a1e9b7f22\r\nDate: Wed, 18 Nov 2026 09:00:00 GMT\r\n"
)
_BOUND = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'


class Burst(NamedTuple):
    """What the server has and creates; can be given to another process."""

    folder: str
    nodes: int
    pods: int
    per_second: int
    gang: int


def serve(burst: Burst, pipe: Pipe) -> None:
    """In a process of its own. Sends its port, creates the pods when it is told to, and says when all is done."""
    uvloop.run(_serve(burst, pipe))


async def _serve(burst: Burst, pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    cluster = _Cluster(burst)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(Path(burst.folder) / "server.crt", Path(burst.folder) / "server.key")
    server = await loop.create_server(lambda: _Http(cluster), "127.0.0.1", 0, ssl=tls)
    pipe.send(server.sockets[0].getsockname()[1])
    await loop.run_in_executor(None, pipe.recv)
    await cluster.create()
    await cluster.finished.wait()
    pipe.send("finished")
    await loop.run_in_executor(None, pipe.recv)


class _Cluster:
    def __init__(self, burst: Burst) -> None:
        self.burst = burst
        self.finished = asyncio.Event()  # all pods are bound, all events are there
        self._objects = json.loads((Path(__file__).parent / "burst_objects.json").read_text(encoding="utf-8"))
        self._version = 1000
        self._pods: dict[str, dict[str, Any]] = {}
        self._groups: dict[str, dict[str, Any]] = {}
        self._bound = self._events = 0
        self._watches: dict[str, list[asyncio.Transport]] = {"pods": [], "podgroups": []}

    async def create(self) -> None:
        burst = self.burst
        for number in range(burst.pods // burst.gang if burst.gang else 0):
            self._create_group(f"g{number}")
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for number in range(burst.pods):
            early = begin + number / burst.per_second - loop.time()
            if early > 0:
                await asyncio.sleep(early)
            self._create_pod(f"p-{number}", f"g{number // burst.gang}" if burst.gang else "")

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        parts = path.strip("/").split("/")
        if method == "GET":
            found = {"metadata": {"resourceVersion": str(self._version)}, "items": self._list(parts)}
            return 200, json.dumps(found).encode()
        sent = json.loads(body)
        if parts[-1] == "binding":
            self._bind(parts[-2], sent)
            return 201, _BOUND
        if parts[-1] == "events":
            self._events += 1
            self._check_finished()
            return 201, json.dumps(merged(self._objects["event"], sent)).encode()
        if "podgroups" in parts:
            return 200, json.dumps(self._patch_group(parts[parts.index("podgroups") + 1], sent)).encode()
        if parts[-1] == "selfsubjectaccessreviews":
            return 201, json.dumps({**sent, "status": {"allowed": True}}).encode()
        return 200, body

    def watch(self, path: str, transport: asyncio.Transport) -> None:
        plural = path.rpartition("/")[2]
        if plural == "pods" or path.endswith("volcano.sh/v1beta1/podgroups"):
            self._watches[plural].append(transport)

    def _list(self, parts: list[str]) -> list[Any]:
        if parts == ["api", "v1", "nodes"]:
            made = [node(i) for i in range(self.burst.nodes)]
        elif parts == ["api", "v1", "namespaces"]:
            made = [{"metadata": {"name": NAMESPACE}}]
        else:
            made = []
        for one in made:
            one["metadata"] |= {"uid": one["metadata"]["name"], "resourceVersion": "1"}
        return made

    def _bind(self, name: str, binding: dict[str, Any]) -> None:
        pod = self._pods[name]
        assert pod["metadata"]["uid"] == binding["metadata"]["uid"] and "nodeName" not in pod["spec"]
        self._bound += 1
        self._change_pod(name, {**self._objects["bound"], "spec": {"nodeName": binding["target"]["name"]}})
        asyncio.get_running_loop().call_later(RUNS_AFTER_S, self._change_pod, name, self._objects["running"])

    def _change_pod(self, name: str, change: dict[str, Any]) -> None:
        self._pods[name] = merged(self._pods[name], change)
        self._send("pods", "MODIFIED", self._pods[name])
        self._check_finished()

    def _patch_group(self, name: str, change: dict[str, Any]) -> dict[str, Any]:
        new = self._groups[name] = merged(self._groups[name], change)
        self._send("podgroups", "MODIFIED", new)
        return new

    def _check_finished(self) -> None:
        burst = self.burst
        events = 2 * burst.pods // burst.gang if burst.gang else burst.pods
        if self._bound >= burst.pods and self._events >= events:
            self.finished.set()

    def _create_group(self, name: str) -> None:
        meta = {"name": name, "namespace": NAMESPACE, "uid": f"5d0c1d86-{name}", "generation": 1}
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta}
        self._groups[name] = {**group, "spec": {"minMember": self.burst.gang, "queue": "default"}}
        self._send("podgroups", "ADDED", self._groups[name])

    def _create_pod(self, name: str, group: str) -> None:
        meta: dict[str, Any] = {"name": name, "uid": f"9b2f8a1e-1b7d-4c57-{name}", "labels": {"app": name}}
        if group:
            meta["annotations"] = {"scheduling.k8s.io/group-name": group}
        self._pods[name] = merged(self._objects["created"], {"metadata": meta})
        self._send("pods", "ADDED", self._pods[name])

    def _send(self, plural: str, change: str, obj: dict[str, Any]) -> None:
        self._version += 1
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(self._version)}
        line = json.dumps({"type": change, "object": obj}, separators=(",", ":")).encode() + b"\n"
        for transport in self._watches[plural]:
            transport.write(b"%x\r\n%s\r\n" % (len(line), line))


class _Http(asyncio.Protocol):
    def __init__(self, cluster: _Cluster) -> None:
        self._cluster = cluster
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._unread += data
        head, end, rest = self._unread.partition(b"\r\n\r\n")
        if not end:
            return
        lines = head.decode().split("\r\n")
        length = next((int(line[15:]) for line in lines if line.lower().startswith("content-length:")), 0)
        if len(rest) < length:
            return
        self._unread = rest[length:]
        method, target, _ = lines[0].split(" ")
        path, _, query = target.partition("?")
        if "watch=1" in query:
            self._transport.write((_HEAD.format(status=200) + "Transfer-Encoding: chunked\r\n\r\n").encode())
            self._cluster.watch(path, self._transport)
            return
        status, body = self._cluster.answer(method, path, rest[:length])
        self._transport.write((_HEAD.format(status=status) + f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
