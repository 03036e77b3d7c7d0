"""Leader election by a Lease, reckoned on a monotonic clock.

A leader may write only until its renew deadline, counted from the moment it *sent* its last renewal that succeeded;
another may take the lease only after a whole lease duration without a change, counted from when it saw that. So two
never begin to write at once, whatever the clocks of their machines show.

A call that the former leader has begun may still arrive later: its process was stopped, or the network was slow. With
`settle` the new leader writes nothing for a second lease duration. Without it the new leader must refuse such calls by
another way before it writes (`taken_over`; see docs/decisions/0016).

Nobody waits that long where nobody can be there: a lease that was given back is free at once. One that does not exist
yet, and one under our own name from a process before us (a container that was started again in its pod), is taken at
once, and the first write waits until a leader that is there against all expectation has met our lease at its renewal.
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
    """Who holds it, for how long, since when; how often it has changed hands."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, kw_only=True):
    """coordination.k8s.io/v1 Lease."""

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
        """`labels` and `annotations` are put on the Lease with every write: a change appears with the next renewal."""
        if not duration > renew_deadline > retry > 0:
            raise ValueError("a lease lasts longer than its renew deadline, and that longer than a retry")
        self.key = key
        # Of this process alone, unless who gives a name makes sure that nobody else goes by it at the same time.
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self.term = 0
        """How often the lease has changed hands: larger for every new leader."""
        self.elected = asyncio.Event()
        """Set while we lead (which does not yet mean that we may write)."""
        self.lost = asyncio.Event()
        """Set once we led and do so no more."""
        self._client = client
        self._duration = duration
        self._renew_deadline = renew_deadline
        self._retry = retry
        self._settle = settle
        self._clock = clock or _steady
        self._labels = labels or {}
        self._annotations = annotations if annotations is not None else {}
        namespace, _, self._name = key.partition("/")
        self._namespace = namespace
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.unfinished = False
        """Calls of ours may still be on their way: the lease is not given back, it runs out."""
        self.taken_over = False
        """The lease ran out under a leader that did not give it back: calls of that leader may still arrive."""
        self._free_at = float("inf")  # when somebody else's lease runs out
        self._held: Lease | None = None  # the lease as we last wrote it
        self._led = False  # in this process
        self._alone = True  # no lease of anybody else was ever seen
        self._seen: tuple[str, str] = ("", "")  # holder and version of somebody else's lease…
        self._seen_at = 0.0  # … and when we first saw that
        self._renewed_at = float("-inf")  # when our last successful renewal was sent
        self._writes_from = float("inf")

    # --- what the others ask

    def leading(self) -> bool:
        """We hold the lease, and our renew deadline has not passed."""
        return self._held is not None and self._clock() < self._renewed_at + self._renew_deadline

    def may_write(self) -> bool:
        """We lead, and whoever led before has surely stopped."""
        return self.leading() and self._clock() >= self._writes_from

    async def writable(self) -> None:
        """Until we lead and may write."""
        while not self.may_write():
            await self.elected.wait()
            await asyncio.sleep(min(max(self._writes_from - self._clock(), 0.01), self._retry))

    # --- the loop

    async def run(self) -> None:
        """Acquire, renew, and when the lease is lost stand for election again."""
        while True:
            began = self._clock()
            await self.step()
            await asyncio.sleep(max(self._next_step(began) - self._clock(), 0.05))

    def _next_step(self, began: float) -> float:
        if self._held is not None:
            return began + self._retry * random.uniform(1.0, 1.2)
        # A renewal counts from when it is seen, so who stands by looks often, and is there when the lease runs out.
        return min(began + self._retry / 4, self._free_at)

    async def step(self) -> None:
        """Try once to acquire or to renew."""
        try:
            await self._renew() if self._held is not None else await self._acquire()
        except (errors.Conflict, errors.AlreadyExists, errors.NotFound):
            # Somebody else wrote or deleted it: whatever we believed is over.
            self._lose()
        except errors.ApiError:
            pass  # the deadline decides
        if self._held is not None and not self.leading():
            self._lose()

    async def release(self) -> None:
        """Give the lease back: the next leader need not wait. Only after `run` has ended and nothing is in flight."""
        held, may = self._held, self.leading() and not self.unfinished
        self._lose()
        if held is None or not may:
            return
        with suppress(errors.ApiError):  # then it runs out by itself
            try:
                await self._put(_given_back(held))
            except errors.Conflict:
                # A renewal that nobody waited for any more may have arrived after all.
                found = await self._get()
                if found.spec.holder_identity == self.identity:
                    await self._put(_given_back(found))

    async def _acquire(self) -> None:
        sent = self._clock()
        try:
            lease = await self._get()
        except errors.NotFound:
            created = Lease(spec=self._spec(transitions=0))
            created.metadata.name, created.metadata.namespace = self._name, self._namespace
            body = await self._client.request(
                "POST", self._path, body=self._body(created), urgent=True, seconds=self._patience(), tries=1
            )
            # Deleted under a leader that we know of, it is no sign that nobody is there.
            self._won(_lease(body), sent, self._notice() if self._alone else self._duration)
            return
        spec, over = lease.spec, False
        self._free_at = float("inf")
        holder, version = spec.holder_identity or "", lease.metadata.resource_version
        if (holder, version) != self._seen:
            self._seen, self._seen_at = (holder, version), self._clock()
        transitions, wait = (spec.lease_transitions or 0) + 1, None
        if not holder:
            wait = 0.0  # given back: nobody is behind it who could still write
        elif holder == self.identity and self._led and transitions == self.term + 1:
            transitions = self.term  # we missed a deadline, and nobody else has led since: nothing new begins
        elif holder == self.identity and not self._led:
            wait = self._notice()
        else:
            # Also one under our name that we did not write, once we have led: another goes by it.
            self._alone, wait, over = False, self._duration if self._settle else 0.0, True
            self._free_at = self._seen_at + max(float(spec.lease_duration_seconds or 0), self._duration)
            if self._clock() < self._free_at:
                return
        sent = self._clock()
        lease.spec = self._spec(transitions)
        self._won(await self._put(lease), sent, wait)
        if wait is not None:
            self.taken_over = over

    async def _renew(self) -> None:
        assert self._held is not None
        sent = self._clock()
        lease = msgspec.structs.replace(
            self._held, spec=msgspec.structs.replace(self._held.spec, renew_time=_micro_time())
        )
        try:
            self._held = await self._put(lease)
        except errors.Conflict:
            # An answer of ours may have been lost, or a label was put on: only another holder ends our lead.
            found = await self._get()
            if found.spec.holder_identity != self.identity or found.spec.lease_transitions != self.term:
                raise
            self._held = found
            return
        self._renewed_at = sent

    def _won(self, lease: Lease, sent: float, wait: float | None) -> None:
        """`wait`: seconds until the first write, None where an earlier wait of ours still counts."""
        self._held = lease
        self._renewed_at = sent
        if wait is not None:
            self._writes_from = self._clock() + wait
        self.term = lease.spec.lease_transitions or 0
        self._led = True
        self.lost.clear()
        self.elected.set()

    def _lose(self) -> None:
        if self._held is not None:
            self.lost.set()
        self._held = None
        self._seen = ("", "")
        self.elected.clear()

    # --- the calls; urgent, for the gate hangs on them

    def _patience(self) -> float:
        """A renewal that takes longer than this is better tried again."""
        return max(self._renew_deadline / 2, 0.1)

    def _notice(self) -> float:
        """By then a leader that reaches the API server has tried to renew, and found that the lease is not its own."""
        return 1.5 * self._retry

    async def _get(self) -> Lease:
        path = f"{self._path}/{self._name}"
        return _lease(await self._client.request("GET", path, urgent=True, seconds=self._patience(), tries=1))

    async def _put(self, lease: Lease) -> Lease:
        path = f"{self._path}/{self._name}"
        body = await self._client.request(
            "PUT", path, body=self._body(lease), urgent=True, seconds=self._patience(), tries=1
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


def _given_back(lease: Lease) -> Lease:
    lease.spec.holder_identity = ""
    lease.spec.lease_duration_seconds = 1
    return lease


def _steady() -> float:
    """A clock that never jumps and, where there is such a one, goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _plain(lease: Lease) -> dict[str, object]:
    return {"apiVersion": lease.api_version, "kind": lease.kind, **msgspec.to_builtins(lease)}


def _lease(body: bytes) -> Lease:
    try:
        return msgspec.json.decode(body, type=Lease)
    except msgspec.DecodeError as error:
        raise errors.BadAnswer("Lease", f"the answer is no Lease: {error}") from None


def _micro_time() -> str:
    """Only for people to read; nothing is reckoned from it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
