"""`python bench/studies/extender_http.py`: the extender behind muster's listener and behind aiohttp, for decision 0019.

Both servers decide with the same `GroupScheduling` on the objects of `muster bench extender`. First, parallel
clients send /filter requests, and the latency is measured. Then clients that never finish their requests connect, and
a well-behaved client sends one request.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import msgspec
from aiohttp import web

from muster.cluster.memory import MemoryStore, VirtualClock
from muster.groupctl.extender.group_scheduling import GroupScheduling
from muster.groupctl.extender.server import MAX_BODY_BYTES, ExtenderServer
from muster.model.extender import ExtenderArgs, FilterResult, read_args
from muster.sim.bench import extender as load

SERVERS = ("listener", "aiohttp", "aiohttp-thread")
ROUNDS, REQUESTS = 3, 480
SLOW_CLIENTS = 1200
BODY_CLIENTS, BODY_BYTES = 24, 24 << 20


# --- the servers


class _Released(GroupScheduling):
    """Ends each reservation at once, so that no answer waits for a binding: the HTTP server is what is measured."""

    def filter(self, args: ExtenderArgs) -> FilterResult:
        result = super().filter(args)
        with self._changed:
            self.reservations.end(args.pod.metadata.uid)
        return result


def serve(name: str) -> None:
    """Prints the port, and serves until killed."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))  # the usual limit of a container
    logging.disable()  # asyncio reports each connection that it cannot accept
    sys.setswitchinterval(0.0005)  # as groupctl.extender.service does
    scheduling = _Released(MemoryStore(VirtualClock(0.0), load.cluster()))
    gc.collect()
    gc.freeze()
    if name == "listener":
        server = ExtenderServer(("127.0.0.1", 0), scheduling)
        server.start()
        print(server.port, flush=True)
        threading.Event().wait()
    asyncio.run(_aiohttp(scheduling, threaded=name == "aiohttp-thread"))


async def _aiohttp(scheduling: GroupScheduling, *, threaded: bool) -> None:
    def decide(body: bytes) -> bytes:
        return msgspec.json.encode(scheduling.filter(read_args(memoryview(body))))

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        text = await asyncio.to_thread(decide, body) if threaded else decide(body)
        return web.Response(body=text, content_type="application/json")

    application = web.Application(client_max_size=MAX_BODY_BYTES)
    application.router.add_post("/filter", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


@contextlib.contextmanager
def _started(name: str) -> Any:
    process = subprocess.Popen([sys.executable, __file__, name], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
    finally:
        process.kill()
        process.wait()


# --- latency


def latency(port: int, clients: int, names: int) -> list[float]:
    """Returns the seconds of each /filter request."""
    node_names = [f"node-{i:05}" for i in range(names)]
    found: list[float] = []

    def client(number: int) -> None:
        connection = load.Client(port)
        for i in range(REQUESTS // clients):
            pod = {"metadata": load.pod(f"new-{number}-{i % 4}", "")["metadata"]}
            _, seconds = connection.ask("filter", {"Pod": pod, "Nodes": None, "NodeNames": node_names})
            found.append(seconds)
        connection.close()

    threads = [threading.Thread(target=client, args=(n,)) for n in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(found)


# --- clients that never finish


def under_attack(port: int, pid: int, kind: str) -> dict[str, object]:
    """Connects clients that never finish their request; returns how a well-behaved client fares, and the memory."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    attackers = [socket.socket() for _ in range(SLOW_CLIENTS if kind == "heads" else BODY_CLIENTS)]
    for attacker in attackers:
        attacker.settimeout(0.5)
        with contextlib.suppress(OSError):
            attacker.connect(("127.0.0.1", port))
            attacker.sendall(b"POST /filter HTTP/1.1\r\nHost: x\r\n")
            if kind == "bodies":
                attacker.sendall(f"Content-Length: {BODY_BYTES + 1}\r\n\r\n".encode())
                attacker.sendall(b" " * BODY_BYTES)
    sleep(2.0)
    status = Path(f"/proc/{pid}/status").read_text()
    rss = next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmRSS"))
    began = perf_counter()
    try:
        load.Client(port).ask("filter", {"Pod": {"metadata": load.pod("good", "")["metadata"]}, "NodeNames": []})
        answered: object = round(1000 * (perf_counter() - began), 1)
    except OSError as fault:
        answered = f"no answer ({type(fault).__name__} after {perf_counter() - began:.0f} s)"
    for attacker in attackers:
        attacker.close()
    return {"answered_ms": answered, "rss_mib": rss}


def main() -> None:
    times: dict[tuple[str, int, int], list[list[float]]] = {}
    for _ in range(ROUNDS):
        for name in SERVERS:  # in turn, so that other work on the machine meets all of them
            with _started(name) as (port, _):
                for clients, names in ((1, 1000), (16, 1000), (1, 5000), (16, 5000)):
                    times.setdefault((name, clients, names), []).append(latency(port, clients, names))
    for (name, clients, names), runs in times.items():
        p50 = min(run[len(run) // 2] for run in runs)
        p99 = sorted(run[int(len(run) * 0.99)] for run in runs)
        row: dict[str, object] = {"server": name, "clients": clients, "names": names, "p50_ms": round(1000 * p50, 2)}
        row |= {"p99_best_ms": round(1000 * p99[0], 2), "p99_median_ms": round(1000 * p99[len(p99) // 2], 2)}
        print(json.dumps(row), flush=True)
    for name in SERVERS:
        for kind in ("heads", "bodies"):
            with _started(name) as (port, pid):
                print(json.dumps({"server": name, "attack": kind, **under_attack(port, pid, kind)}), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1]) if len(sys.argv) > 1 else main()
