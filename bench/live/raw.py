"""Clients that decide nothing and send bindings to one node after the other: the limit for a scheduler.

`bind` sends a binding per pod. `same` sends what muster sends: a binding and an event per pod or, where the pods are in
gangs, once all pods of a gang are there: its phase, the binding with the journal, the other bindings, its status, and
two events. At most 64 bindings and 8 events are sent at a time. As muster's, the events wait while bindings are under
way.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from types import MappingProxyType

import msgspec
from scene import EVENTS, GROUPS, NAMESPACE, PODS, node_name
from wire import PATCH, Endpoint, Wire

from muster.kube.events import AT_ONCE as EVENTS_AT_ONCE
from muster.kube.events import BUSY_CHECK_S, BUSY_WAIT_S

GROUP = "scheduling.k8s.io/group-name"
JOURNAL = "raw.muster.test/commit"
_AT_ONCE = 64
_BURST_END_S = 0.5  # muster's cycles in a burst are half as far apart


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    annotations: dict[str, str] = {}


class _Pod(msgspec.Struct):
    metadata: _Meta


class _Seen(msgspec.Struct):
    type: str
    object: _Pod


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str


class _List(msgspec.Struct):
    metadata: _ListMeta


@contextmanager
def running(endpoint: Endpoint, nodes: int, events: bool, gang: int) -> Iterator[int]:
    """The client in a process of its own; its pid."""
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_main, args=(endpoint, nodes, events, gang, ready), daemon=True)
    process.start()
    assert process.pid is not None and ready.wait(60), "the client did not begin"
    try:
        yield process.pid
    finally:
        process.terminate()
        process.join()


def _main(endpoint: Endpoint, nodes: int, events: bool, gang: int, ready: Event) -> None:
    asyncio.run(_Client(nodes, events, gang).run(endpoint, ready))


class _Client:
    def __init__(self, nodes: int, events: bool, gang: int) -> None:
        self._nodes, self._events, self._gang = nodes, events, gang
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._event_queue: asyncio.Queue[tuple[str, str, str, str]] = asyncio.Queue()  # kind, name, uid, message
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = self._events_sent = 0
        self._bound_at = 0.0

    async def run(self, endpoint: Endpoint, ready: Event) -> None:
        async with Wire(endpoint) as self._wire:
            for _ in range(EVENTS_AT_ONCE):
                self._go(self._send_events())
            listed = msgspec.json.decode(await self._wire.get(PODS), type=_List)
            ready.set()
            decoder = msgspec.json.Decoder(_Seen)
            waiting: dict[str, list[_Meta]] = {}
            since = listed.metadata.resource_version
            while True:  # the API server ends a watch that is read too slowly
                async for line in self._wire.lines(f"{PODS}?watch=1&resourceVersion={since}"):
                    if not line.startswith(b'{"type":"ADDED"'):
                        continue
                    meta = decoder.decode(line).object.metadata
                    since = meta.resource_version
                    if not self._gang:
                        self._go(self._bind(meta))
                        continue
                    group = waiting.setdefault(meta.annotations[GROUP], [])
                    group.append(meta)
                    if len(group) == self._gang:
                        self._go(self._bind_all(meta.annotations[GROUP], group))

    def _go(self, work) -> None:  # type: ignore[no-untyped-def]
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bind(self, meta: _Meta) -> None:
        self._count += 1
        node = node_name(self._count % self._nodes)
        await self._bind_to(meta, node)
        if self._events:
            text = f"Successfully assigned {NAMESPACE}/{meta.name} to {node}"
            self._event_queue.put_nowait(("Pod", meta.name, meta.uid, text))

    async def _bind_to(self, meta: _Meta, node: str, annotations: Mapping[str, str] = MappingProxyType({})) -> None:
        body = (
            f'{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"{meta.name}","uid":"{meta.uid}",'
            f'"annotations":{json.dumps(dict(annotations))}}},'
            f'"target":{{"apiVersion":"v1","kind":"Node","name":"{node}"}}}}'
        )
        async with self._slots:
            await self._wire.send("POST", f"{PODS}/{meta.name}/binding", body.encode())
        self._bound_at = time.monotonic()

    async def _bind_all(self, group: str, pods: list[_Meta]) -> None:
        nodes = [node_name((self._count + i) % self._nodes) for i in range(len(pods))]
        self._count += len(pods)
        await self._patch(group, {"status": {"phase": "Inqueue"}})
        entries = {pod.name: [node, pod.uid[:8]] for pod, node in zip(pods, nodes, strict=True)}
        journal = msgspec.json.encode({"holder": "raw", "at": 0, "pods": entries}).decode()
        await self._bind_to(pods[0], nodes[0], {JOURNAL: journal})
        await asyncio.gather(*map(self._bind_to, pods[1:], nodes[1:]))
        self._event_queue.put_nowait(("PodGroup", group, "", f"Successfully assigned {len(pods)} pods"))
        await self._patch(group, {"status": {"phase": "Running", "conditions": [{
            "type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled",
            "transitionID": "raw", "lastTransitionTime": _now()}]}})  # fmt: skip
        self._event_queue.put_nowait(("PodGroup", group, "", "pod group is ready"))

    async def _patch(self, group: str, change: dict[str, object]) -> None:
        async with self._slots:
            await self._wire.send("PATCH", f"{GROUPS}/{group}/status", msgspec.json.encode(change), PATCH)

    async def _send_events(self) -> None:
        while True:
            kind, name, uid, message = await self._event_queue.get()
            until = time.monotonic() + BUSY_WAIT_S
            while time.monotonic() < min(self._bound_at + _BURST_END_S, until):
                await asyncio.sleep(BUSY_CHECK_S)
            self._events_sent += 1
            now = _now()
            await self._wire.send("POST", EVENTS, msgspec.json.encode({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{name}.{self._events_sent:x}"},
                "involvedObject": {"apiVersion": "v1", "kind": kind, "namespace": NAMESPACE, "name": name, "uid": uid},
                "type": "Normal", "reason": "Scheduled", "count": 1, "firstTimestamp": now, "lastTimestamp": now,
                "message": message, "source": {"component": "raw"}, "reportingComponent": "raw",
                "reportingInstance": "raw",
            }))  # fmt: skip


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
