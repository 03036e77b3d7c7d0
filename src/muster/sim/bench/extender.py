"""How long kube-scheduler waits for the extender's answer in a large cluster.

The extender runs in a second process (this module as a script). This process sends the requests that kube-scheduler
sends, one pod after the other over one connection, and then reports the pod as bound. The time is from the first byte
of the request to the last of the answer; `Client` does almost nothing in between.
"""

from __future__ import annotations

import gc
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import msgspec

from muster.model.kinds import decode
from muster.model.meta import Object
from muster.sim.bench.measurement import Figures, WrongResult

NODES, GROUPS, REPLICAS, PODS = 5000, 500, 10_000, 1000
WHOLE_NODE_REQUESTS = 20
MAX_ANSWER_BYTES = 32 << 20
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_GROUP = "groupmanagement.kubeedge.io"
_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app-1", "uid": "u-rs", "controller": True}


@dataclass(frozen=True)
class ExtenderLatency:
    """`seconds` is the CPU time of the extender's process for all requests by name."""

    name: str
    about: str
    floors: Mapping[str, float]

    def run(self) -> Figures:
        serving = subprocess.Popen(
            [sys.executable, "-m", __name__], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
        )
        try:
            assert serving.stdout is not None
            client = Client(int(serving.stdout.readline()))
            times = _send_requests(client, serving.pid)
            client.close()
        finally:
            serving.kill()
            serving.wait()
        figures = {"seconds": sum(times["cpu"]), "answers_s": sum(times["filter"]) + sum(times["prioritize"])}
        for verb in ("filter", "prioritize"):
            ordered = sorted(times[verb])
            figures[f"{verb}_p50_ms"] = 1000 * ordered[len(ordered) // 2]
            figures[f"{verb}_p99_ms"] = 1000 * ordered[int(len(ordered) * 0.99)]
        return figures | {"whole_nodes_ms": 1000 * max(times["whole"])}

    def derived(self, best: Figures) -> dict[str, object]:
        return {"pods_per_s": round(PODS / best["answers_s"])}


EXTENDER = ExtenderLatency(
    "extender",
    "5,000 nodes, 500 groups: milliseconds kube-scheduler waits, one connection",
    {"filter_p99_ms": 2.5, "prioritize_p99_ms": 5.0, "whole_nodes_ms": 100.0},
)


def _send_requests(client: Client, pid: int) -> dict[str, list[float]]:
    names = [_node_name(i) for i in range(NODES)]
    times: dict[str, list[float]] = {"filter": [], "prioritize": [], "whole": [], "cpu": []}
    cpu_clock = (~pid << 3) | 2  # Linux: the CPU time of another process (clock_getcpuclockid)
    left = [REPLICAS // GROUPS - count for count in _bound_at_first()]
    gc.disable()
    for i in range(PODS):
        new = {"metadata": pod(f"new-{i}", "")["metadata"]}
        before = time.clock_gettime(cpu_clock)
        answer, seconds = client.ask("filter", {"Pod": new, "Nodes": None, "NodeNames": names})
        times["filter"].append(seconds)
        passed = answer["NodeNames"]
        if passed != [name for n, name in enumerate(names) if left[n % GROUPS]]:
            raise WrongResult("the nodes that pass are not those of the groups that need pods")
        scores, seconds = client.ask("prioritize", {"Pod": new, "Nodes": None, "NodeNames": passed})
        times["prioritize"].append(seconds)
        times["cpu"].append(time.clock_gettime(cpu_clock) - before)
        best = max(scores, key=lambda score: score["Score"])["Host"]
        left[_group_of(best)] -= 1
        client.ask("bind", {"pod": f"new-{i}", "node": best})
    items = list(_nodes())
    for i in range(WHOLE_NODE_REQUESTS):
        new = {"metadata": pod(f"whole-{i}", "")["metadata"]}
        body = {"Pod": new, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}
        answer, seconds = client.ask("filter", body)
        times["whole"].append(seconds)
        client.ask("bind", {"pod": f"whole-{i}", "node": answer["Nodes"]["items"][0]["metadata"]["name"]})
    gc.enable()
    return times


class Client:
    """One connection to the extender. As Go's client does, it sends the first 4 KiB and then the rest of a request."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(MAX_ANSWER_BYTES)

    def close(self) -> None:
        self._socket.close()

    def ask(self, verb: str, request: object) -> tuple[Any, float]:
        """Returns the answer and the seconds until it was here."""
        body = msgspec.json.encode(request)
        head = f"POST /{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
        head += f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
        message = memoryview(head.encode() + body)
        began = perf_counter()
        self._socket.sendall(message[:4096])
        self._socket.sendall(message[4096:])
        text = self._receive()
        seconds = perf_counter() - began
        if not self._buffer.startswith(b"HTTP/1.1 200 "):
            raise RuntimeError(f"{verb}: {bytes(self._buffer[:300])!r}")
        return msgspec.json.decode(text), seconds

    def _receive(self) -> memoryview:
        """Returns the body of the answer."""
        view = memoryview(self._buffer)
        here, begin, end = 0, -1, 0
        while begin < 4 or here < end:
            got = self._socket.recv_into(view[here:])
            if not got:
                raise ConnectionError("the extender has closed the connection")
            here += got
            if begin < 4:
                begin = self._buffer.find(b"\r\n\r\n", 0, here) + 4
                found = _LENGTH.search(self._buffer, 0, begin)
                end = begin + int(found[1]) if found else 0
        return view[begin:end]


# --- the cluster


def _node_name(number: int) -> str:
    return f"node-{number:05}"


def _group_of(node: str) -> int:
    return int(node.removeprefix("node-")) % GROUPS


def _bound_at_first() -> list[int]:
    """Returns how many pods are in each group: every second group has all its pods."""
    each = REPLICAS // GROUPS
    return [each if i % 2 else each - 6 for i in range(GROUPS)]


def _nodes() -> Iterator[dict[str, Any]]:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    for i in range(NODES):
        name = _node_name(i)
        labels = {"group": f"g{i % GROUPS}", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
        images = [{"names": [f"registry.io/image-{n}:1"], "sizeBytes": 1 << 20} for n in range(10)]
        status = {"allocatable": amounts, "capacity": amounts, "images": images}
        yield {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


def cluster() -> Iterator[Object]:
    """Yields a Deployment whose replicas are spread over all groups; half of the groups are full."""
    for plain in _nodes():
        yield decode({"apiVersion": "v1", "kind": "Node", **plain})
    version = f"{_GROUP}/v1alpha1"
    for i in range(GROUPS):
        labelled = {"matchLabels": {"group": f"g{i}"}}
        meta: dict[str, Any] = {"name": f"g{i}", "uid": f"u-g{i}"}
        yield decode({"apiVersion": version, "kind": "NodeGroup", "metadata": meta, "spec": labelled})
    entries = [{"nodeGroupNames": [f"g{i}"], "weight": 1} for i in range(GROUPS)]
    meta = {"name": "pp", "namespace": "default", "uid": "u-pp"}
    spec = {"staticWeightList": entries}
    yield decode({"apiVersion": version, "kind": "PropagationPolicy", "metadata": meta, "spec": spec})
    labels = {f"{_GROUP}/{word}-propagationpolicy": "pp" for word in ("required", "binding")}
    meta = {"name": "app", "namespace": "default", "uid": "u-app", "labels": labels}
    yield decode({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": {"replicas": REPLICAS}})
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "app", "uid": "u-app", "controller": True}
    meta = {"name": "app-1", "namespace": "default", "uid": "u-rs", "ownerReferences": [owner]}
    yield decode({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": {"replicas": REPLICAS}})
    for i, count in enumerate(_bound_at_first()):
        for j in range(count):
            yield decode(pod(f"p-{i}-{j}", _node_name((i + GROUPS * (j % 10)) % NODES)))


def pod(name: str, node: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": f"u-{name}", "ownerReferences": [_OWNER]}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": node}, "status": {"phase": "Running"}
    }  # fmt: skip


# --- the serving process


def serve() -> None:
    """Prints the port, and serves until killed."""
    # Not above: every benchmark imports this module, and its peak memory counts.
    from muster.cluster.memory import MemoryStore, VirtualClock
    from muster.groupctl.extender.group_scheduling import GroupScheduling
    from muster.groupctl.extender.server import ExtenderServer

    store = MemoryStore(VirtualClock(0.0), cluster())
    server = ExtenderServer(("127.0.0.1", 0), GroupScheduling(store))

    def bind(body: memoryview) -> object:
        bound = json.loads(bytes(body))
        store.create(decode(pod(bound["pod"], bound["node"])))
        return {}

    server.verbs["bind"] = bind
    gc.collect()
    gc.freeze()
    server.start()
    print(server.port, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    serve()
