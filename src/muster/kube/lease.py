"""Leader election with a Lease, measured on a monotonic clock.

A leader may write only until its renew deadline, counted from when it *sent* its last successful renewal. Another
replica may take the lease only after a whole lease duration without a change, counted from when it saw the last change.
So two replicas never start to write at the same time, whatever the clocks of their machines show.

A call that the former leader has sent may still arrive later: its process was stopped, or the network was slow. With
`settle` the new leader writes nothing for a second lease duration. Without it the new leader must have such calls
refused in another way before it writes (`taken_over`; see docs/decisions/0016).

There is no such wait if there can be no other leader. A released lease is free at once. A lease that does not exist
yet, or one with our own identity from an earlier process (a container that was restarted in its pod), is taken at once,
and the first write waits until an unexpected leader would have seen our lease at its next renewal.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from muster.kube.client import Client
from muster.model.meta import Object, Partial
from muster.store import errors


class LeaseSpec(Partial, kw_only=True):
    """Holder, duration, times and number of transitions of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, kw_only=True):
    """A Lease of coordination.k8s.io/v1."""

    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class Election:
    """Takes part in the election until cancelled; `may_write` is the gate of the client that does the leader's work."""

    def __init__(
        self,
        client: Client,
        key: str,
        identity: str = "",
        *,
        duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry: float = 2.0,
        settle: bool = True,
        clock: Callable[[], float] | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """`labels` and `annotations` are set with every write of the Lease: a change appears with the next renewal."""
        if not duration > renew_deadline > retry > 0:
            raise ValueError("a lease lasts longer than its renew deadline, and that longer than a retry")
        self.key = key
        # Unique to this process; a caller that gives an identity must make sure that no other process uses it.
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self.term = 0
        """The leaseTransitions: larger for every new leader."""
        self.elected = asyncio.Event()
        """Set while this replica leads (it may not be allowed to write yet)."""
        self.lost = asyncio.Event()
        """Set when this replica has lost the lease."""
        self._client = client
        self._duration = duration
        self._renew_deadline = renew_deadline
        self._retry = retry
        self._settle = settle
        self._clock = clock or _boot_clock
        self._labels = labels or {}
        self._annotations = annotations if annotations is not None else {}
        namespace, _, self._name = key.partition("/")
        self._namespace = namespace
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.unfinished = False
        """Whether calls of this replica may still be in flight: then the lease is not released, it expires."""
        self.taken_over = False
        """Whether the lease expired without a release: calls of the former leader may still arrive."""
        self._free_at = float("inf")  # when another replica's lease expires
        self._own_lease: Lease | None = None  # as last written
        self._has_led = False  # in this process
        self._no_other_seen = True  # no lease of another replica was ever seen
        self._seen: tuple[str, str] = ("", "")  # holder and version of another replica's lease…
        self._seen_at = 0.0  # … and when they were first seen
        self._renewed_at = float("-inf")  # when the last successful renewal was sent
        self._writes_from = float("inf")

    # --- state

    def leading(self) -> bool:
        """Returns whether this replica holds the lease and its renew deadline has not passed."""
        return self._own_lease is not None and self._clock() < self._renewed_at + self._renew_deadline

    def may_write(self) -> bool:
        """Returns whether this replica leads and the former leader has certainly stopped."""
        return self.leading() and self._clock() >= self._writes_from

    async def writable(self) -> None:
        """Waits until this replica leads and may write."""
        while not self.may_write():
            await self.elected.wait()
            await asyncio.sleep(min(max(self._writes_from - self._clock(), 0.01), self._retry))

    # --- the loop

    async def run(self) -> None:
        """Acquires and renews the lease; when it is lost, tries to acquire it again."""
        while True:
            started = self._clock()
            await self.step()
            await asyncio.sleep(max(self._next_step(started) - self._clock(), 0.05))

    def _next_step(self, started: float) -> float:
        if self._own_lease is not None:
            return started + self._retry * random.uniform(1.0, 1.2)
        # A renewal counts from when it is seen, so a standby reads often, and also when the lease expires.
        return min(started + self._retry / 4, self._free_at)

    async def step(self) -> None:
        """Tries once to acquire or to renew the lease."""
        try:
            await self._renew() if self._own_lease is not None else await self._acquire()
        except (errors.Conflict, errors.AlreadyExists, errors.NotFound):
            # Another client wrote or deleted it: the lease is lost.
            self._on_lost()
        except errors.ApiError:
            pass  # the deadline decides
        if self._own_lease is not None and not self.leading():
            self._on_lost()

    async def release(self) -> None:
        """Releases the lease, so that the next leader need not wait. Call it after `run` has ended, with no call in
        flight."""
        lease, may_release = self._own_lease, self.leading() and not self.unfinished
        self._on_lost()
        if lease is None or not may_release:
            return
        with suppress(errors.ApiError):  # then it expires
            try:
                await self._put(_released(lease))
            except errors.Conflict:
                # A renewal that timed out may have succeeded.
                found = await self._get()
                if found.spec.holder_identity == self.identity:
                    await self._put(_released(found))

    async def _acquire(self) -> None:
        sent = self._clock()
        try:
            lease = await self._get()
        except errors.NotFound:
            created = Lease(spec=self._spec(transitions=0))
            created.metadata.name, created.metadata.namespace = self._name, self._namespace
            body = await self._client.request(
                "POST", self._path, body=self._body(created), urgent=True, seconds=self._request_timeout(), tries=1
            )
            # If it was deleted while another replica led, that replica may still be there.
            self._on_acquired(_lease(body), sent, self._notice_period() if self._no_other_seen else self._duration)
            return
        spec, over = lease.spec, False
        self._free_at = float("inf")
        holder, version = spec.holder_identity or "", lease.metadata.resource_version
        if (holder, version) != self._seen:
            self._seen, self._seen_at = (holder, version), self._clock()
        transitions, wait = (spec.lease_transitions or 0) + 1, None
        if not holder:
            wait = 0.0  # released: no former leader can still write
        elif holder == self.identity and self._has_led and transitions == self.term + 1:
            transitions = self.term  # a deadline was missed, and nobody else has led since: the same term
        elif holder == self.identity and not self._has_led:
            wait = self._notice_period()
        else:
            # Also a lease with our identity that we did not write, once we have led: another process uses it.
            self._no_other_seen, wait, over = False, self._duration if self._settle else 0.0, True
            self._free_at = self._seen_at + max(float(spec.lease_duration_seconds or 0), self._duration)
            if self._clock() < self._free_at:
                return
        sent = self._clock()
        lease.spec = self._spec(transitions)
        self._on_acquired(await self._put(lease), sent, wait)
        if wait is not None:
            self.taken_over = over

    async def _renew(self) -> None:
        assert self._own_lease is not None
        sent = self._clock()
        lease = msgspec.structs.replace(
            self._own_lease, spec=msgspec.structs.replace(self._own_lease.spec, renew_time=_micro_time())
        )
        try:
            self._own_lease = await self._put(lease)
        except errors.Conflict:
            # A response may have been lost, or a label was added: only another holder ends the leadership.
            found = await self._get()
            if found.spec.holder_identity != self.identity or found.spec.lease_transitions != self.term:
                raise
            self._own_lease = found
            return
        self._renewed_at = sent

    def _on_acquired(self, lease: Lease, sent: float, wait: float | None) -> None:
        """Records an acquired lease; `wait`: seconds until the first write, None if an earlier wait still counts."""
        self._own_lease = lease
        self._renewed_at = sent
        if wait is not None:
            self._writes_from = self._clock() + wait
        self.term = lease.spec.lease_transitions or 0
        self._has_led = True
        self.lost.clear()
        self.elected.set()

    def _on_lost(self) -> None:
        if self._own_lease is not None:
            self.lost.set()
        self._own_lease = None
        self._seen = ("", "")
        self.elected.clear()

    # --- API calls; urgent, because the gate of the client depends on them

    def _request_timeout(self) -> float:
        """Returns the seconds after which a renewal is better sent again."""
        return max(self._renew_deadline / 2, 0.1)

    def _notice_period(self) -> float:
        """Returns the seconds within which a leader that reaches the API server notices that it lost the lease."""
        return 1.5 * self._retry

    async def _get(self) -> Lease:
        path = f"{self._path}/{self._name}"
        return _lease(await self._client.request("GET", path, urgent=True, seconds=self._request_timeout(), tries=1))

    async def _put(self, lease: Lease) -> Lease:
        path = f"{self._path}/{self._name}"
        body = await self._client.request(
            "PUT", path, body=self._body(lease), urgent=True, seconds=self._request_timeout(), tries=1
        )
        return _lease(body)

    def _body(self, lease: Lease) -> dict[str, object]:
        lease.metadata.labels = {**lease.metadata.labels, **self._labels}
        lease.metadata.annotations = {**lease.metadata.annotations, **self._annotations}
        return _plain(lease)

    def _spec(self, transitions: int) -> LeaseSpec:
        now = _micro_time()
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=max(round(self._duration), 1),
            acquire_time=now,
            renew_time=now,
            lease_transitions=transitions,
        )


def _released(lease: Lease) -> Lease:
    lease.spec.holder_identity = ""
    lease.spec.lease_duration_seconds = 1
    return lease


def _boot_clock() -> float:
    """Returns the time of a clock that never jumps and, if available, continues while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _plain(lease: Lease) -> dict[str, object]:
    return {"apiVersion": lease.api_version, "kind": lease.kind, **msgspec.to_builtins(lease)}


def _lease(body: bytes) -> Lease:
    try:
        return msgspec.json.decode(body, type=Lease)
    except msgspec.DecodeError as error:
        raise errors.BadAnswer("Lease", f"the answer is no Lease: {error}") from None


def _micro_time() -> str:
    """Returns the current time, for people to read; nothing is computed from it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
