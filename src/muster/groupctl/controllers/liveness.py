"""Whether another part of muster is alive, by the Lease that it renews.

How long a Lease was not renewed is reckoned by our own clock: clocks of machines differ. A part that ends gives its
Lease back, so that it is not alive from then on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection

import msgspec

from muster.kube.client import Client
from muster.kube.lease import Lease
from muster.kube.lists import Report
from muster.model.meta import seconds
from muster.store import errors

CHECK_INTERVAL_S = 3.0
NO_LEASE = "none"


class LeaseWatch:
    """One Lease, asked for by its name."""

    def __init__(
        self, client: Client, key: str,
        clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        """`key`: namespace/name."""
        namespace, _, name = key.partition("/")
        self._client = client
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        self._clock = clock
        self._wall = wall
        self._renewed = ""  # the Lease's renewTime as it was last seen …
        self._fresh_until = float("-inf")  # … and how long that makes it good

    @property
    def is_fresh(self) -> bool:
        """By what was last seen."""
        return self._clock() < self._fresh_until

    async def check(self) -> bool:
        """Is it held? ApiError."""
        lease = msgspec.json.decode(await self._client.request("GET", self._path), type=Lease)
        spec = lease.spec
        duration = spec.lease_duration_seconds or 0
        if not spec.holder_identity or not spec.renew_time:
            self._fresh_until = float("-inf")
        elif spec.renew_time != self._renewed:
            # Of one that is seen for the first time the other machine's clock must be believed.
            left = seconds(spec.renew_time) + duration - self._wall() if not self._renewed else duration
            self._fresh_until = self._clock() + min(left, duration)
        self._renewed = spec.renew_time or ""
        return self.is_fresh


class PlacerLiveness:
    """Who places pods by PropagationPolicies: kube-scheduler with the extender, or muster's own scheduler.

    `changed` is called when one of them comes or goes.
    """

    def __init__(
        self, client: Client, extender: str, scheduler: str, scheduler_names: Collection[str],
        changed: Callable[[], None], report: Report,
    ) -> None:  # fmt: skip
        """`extender`, `scheduler`: their Leases, namespace/name; `none`: it has none, and is taken to be alive.

        `scheduler_names`: the pods of muster's scheduler.
        """
        self._names = frozenset(scheduler_names)
        keys = {"extender": extender, "scheduler": scheduler}
        self._leases = {part: (key, LeaseWatch(client, key)) for part, key in keys.items() if key != NO_LEASE}
        self._alive: dict[str, bool] = {part: True for part, key in keys.items() if key == NO_LEASE}
        self._changed = changed
        self._report = report
        self._reported: dict[str, str] = {}

    def alive(self, part: str) -> bool:
        return self._alive.get(part, False)

    def missing_reason(self, scheduler: str) -> str:
        """Why nobody brings pods with that schedulerName to their groups; empty: somebody does."""
        part = "scheduler" if scheduler in self._names else "extender"
        if self.alive(part):
            return ""
        return f"no muster {part} is alive for schedulerName {scheduler}: Lease {self._leases[part][0]} is not renewed"

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(CHECK_INTERVAL_S)

    async def check(self) -> None:
        before = dict(self._alive)
        for part, (key, lease) in self._leases.items():
            try:
                self._alive[part] = await lease.check()
            except errors.NotFound:
                self._alive[part] = False
            except errors.ApiError as fault:
                self._alive[part] = lease.is_fresh
                if self._reported.get(part) != str(fault):
                    self._reported[part] = str(fault)
                    self._report(f"whether muster {part} is alive cannot be seen: Lease {key}: {fault}")
        if self._alive != before:
            for part, alive in self._alive.items():
                if before.get(part) != alive and (alive or part in before):
                    self._report(f"muster {part} is alive" if alive else f"no muster {part} is alive: its pods stay")
            self._changed()
