"""Records Events about objects: equal Events are counted together, the rate per object is limited, and no caller
waits."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from muster.kube.client import MERGE_PATCH, Client
from muster.model.meta import Object, timestamp
from muster.store import Severity, errors
from muster.store.event_reasons import EventReason

# Kubernetes' own recorder: an object may have 25 events at once and then one every five minutes.
BURST_EVENTS, REFILL_PER_S = 25.0, 1 / 300
# An equal event within this time is the same one, counted once more.
MERGE_WINDOW_S = 600.0
MAX_REMEMBERED = 8192
MAX_MESSAGE_CHARS = 1024
AT_ONCE = 8
# While more important calls are under way, events wait this long for their end. Then more and more of them are sent at
# a time: AT_ONCE when they are twice as old, or when so many wait that the next one would be dropped.
BUSY_WAIT_S = 10.0
BUSY_CHECK_S = 0.1


class EventIdentity(NamedTuple):
    """The fields by which two events are equal."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    severity: Severity
    reason: str
    message: str


class _Waiting(msgspec.Struct):
    """How often something happened since the event was last sent, and when at first and at last."""

    count: int
    since: float
    at: float


class _Written(msgspec.Struct):
    name: str
    count: int
    at: float


class Recorder:
    """Takes events at any time and sends them in the background. Run `run()` as a task; `close` sends what is left.

    While `busy` returns true, the caller makes calls that matter more: events wait for their end, but not for long.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        instance: str,
        *,
        waiting: int = 20_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.sent = 0
        self.dropped = 0
        self.busy: Callable[[], bool] = _never
        self._client = client
        self._component = component
        self._instance = instance
        self._senders = 0
        self._waiting = waiting
        self._clock = clock
        self._queue: OrderedDict[EventIdentity, _Waiting] = OrderedDict()
        self._written: OrderedDict[EventIdentity, _Written] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        self._some = asyncio.Event()
        self._serial = 0

    def record(self, obj: Object, severity: Severity, reason: EventReason, message: str) -> None:
        """Records an event about an object, on the event loop's thread. Never waits, never fails."""
        meta = obj.metadata
        if len(message) > MAX_MESSAGE_CHARS:
            message = message[: MAX_MESSAGE_CHARS - 1] + "…"
        note = EventIdentity(obj.api_version, obj.kind, meta.namespace, meta.name, meta.uid, severity, reason, message)
        now = self._clock()
        waiting = self._queue.get(note)
        if waiting is not None:
            waiting.count, waiting.at = waiting.count + 1, now
            return
        if not self._allowed(note, now):
            self.dropped += 1
            return
        if len(self._queue) >= self._waiting:
            self._queue.popitem(last=False)
            self.dropped += 1
        self._queue[note] = _Waiting(1, now, now)
        self._some.set()

    async def run(self) -> None:
        """Sends the recorded events until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                with suppress(TimeoutError):
                    # `busy` ends without a sign.
                    async with asyncio.timeout(BUSY_CHECK_S if self._queue else None):
                        await self._some.wait()
                self._some.clear()
                for _ in range(min(self._most_senders() - self._senders, len(self._queue))):
                    self._senders += 1
                    group.create_task(self._send_next())

    async def close(self, seconds: float = 5.0) -> None:
        """Sends the remaining events within the given time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(self._send_rest() for _ in range(AT_ONCE)))
        self.dropped += len(self._queue)
        self._queue.clear()

    async def _send_rest(self) -> None:
        while self._queue:
            await self._send(*self._queue.popitem(last=False))

    def _most_senders(self) -> int:
        if not self._queue or not self.busy():
            return AT_ONCE
        oldest = next(iter(self._queue.values()))
        age, share = self._clock() - oldest.since, len(self._queue) / self._waiting
        return math.ceil(AT_ONCE * min(max(age / BUSY_WAIT_S - 1, 2 * share - 1, 0), 1))

    async def _send_next(self) -> None:
        """Sends one event after the other, while there are any and this sender is not one too many."""
        try:
            while self._queue and self._senders <= self._most_senders():
                await self._send(*self._queue.popitem(last=False))
                if self._queue and self._senders < self._most_senders():
                    self._some.set()  # more may be sent at a time than before
        finally:
            self._senders -= 1

    async def _send(self, note: EventIdentity, waiting: _Waiting) -> None:
        written = self._written.get(note)
        try:
            if (
                written is not None
                and waiting.at < written.at + MERGE_WINDOW_S
                and await self._again(note, written, waiting)
            ):
                return
            name = self._name(note, self._clock())
            event = self._event(note, name, waiting)
            with suppress(errors.AlreadyExists):  # the first answer was lost
                await self._client.request("POST", _path(note), body=event, repeatable=True, tries=3)
            self._remember(note, _Written(name, waiting.count, waiting.at))
            self.sent += 1
        except errors.ApiError:
            # A namespace that goes takes no events, a leader that is none may not write: nothing depends on them.
            self.dropped += 1

    async def _again(self, note: EventIdentity, written: _Written, waiting: _Waiting) -> bool:
        """Increases the count of an event that the cluster has; False if it was deleted."""
        count = written.count + waiting.count
        merge = {"count": count, "lastTimestamp": _seconds(waiting.at)}
        path = f"{_path(note)}/{written.name}"
        try:
            await self._client.request("PATCH", path, body=merge, content_type=MERGE_PATCH, repeatable=True, tries=3)
        except errors.NotFound:
            return False
        self._remember(note, _Written(written.name, count, waiting.at))
        self.sent += 1
        return True

    def _event(self, note: EventIdentity, name: str, waiting: _Waiting) -> dict[str, Any]:
        about = {
            "apiVersion": note.api_version,
            "kind": note.kind,
            "namespace": note.namespace,
            "name": note.name,
            "uid": note.uid,
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": note.namespace or "default"},
            "involvedObject": {field: value for field, value in about.items() if value},
            "type": note.severity.value,
            "reason": note.reason,
            "message": note.message,
            "count": waiting.count,
            "firstTimestamp": _seconds(waiting.since),
            "lastTimestamp": _seconds(waiting.at),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }

    def _name(self, note: EventIdentity, now: float) -> str:
        self._serial += 1
        # Kubernetes' recorder: the object's name, a dot, a number that no other event of it has.
        return f"{note.name[:200]}.{int(now * 1_000_000):x}{self._serial & 0xFFFFF:05x}"

    def _remember(self, note: EventIdentity, written: _Written) -> None:
        self._written[note] = written
        self._written.move_to_end(note)
        while len(self._written) > MAX_REMEMBERED:
            self._written.popitem(last=False)

    def _allowed(self, note: EventIdentity, now: float) -> bool:
        key = (note.kind, note.uid or f"{note.namespace}/{note.name}")
        left, since = self._buckets.pop(key, (BURST_EVENTS, now))
        left = min(BURST_EVENTS, left + max(now - since, 0.0) * REFILL_PER_S)
        allowed = left >= 1.0
        self._buckets[key] = (left - 1.0 if allowed else left, now)
        while len(self._buckets) > MAX_REMEMBERED:
            self._buckets.popitem(last=False)
        return allowed


def _seconds(at: float) -> str:
    return timestamp(float(int(at)))


def _never() -> bool:
    return False


def _path(note: EventIdentity) -> str:
    return f"/api/v1/namespaces/{note.namespace or 'default'}/events"
