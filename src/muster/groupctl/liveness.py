"""Whether another component of muster is alive, by the Lease that it renews.

The age of a Lease is measured by our own clock, because the clocks of machines differ. A component that stops releases
its Lease. The webhook must also be registered: a registration alone proves nothing, since it stays when the webhook is
gone, and pods are then created as they are.

An extender without leader election renews its Lease, too. While it is not renewed, the controllers evict no pod because
of its group. Several extenders, one beside each kube-scheduler, may renew the same Lease: the last one is its holder,
and it is fresh while one of them is alive.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from muster.groups.applications import DOMAIN
from muster.kube.client import Client
from muster.kube.lease import Lease
from muster.kube.list_watch import Report
from muster.model.meta import seconds
from muster.process.settings import LeaseSettings
from muster.store import errors

CHECK_INTERVAL_S = 3.0
NO_LEASE = "none"


class LeaseWatch:
    """Watches one Lease by reading it."""

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
        self._fresh_until = float("-inf")  # … and until when it is valid

    @property
    def is_fresh(self) -> bool:
        """Whether the Lease was held when it was last read, and is not expired."""
        return self._clock() < self._fresh_until

    async def check(self) -> bool:
        """Reads the Lease; whether it is held. Raises an error of the API server."""
        lease = msgspec.json.decode(await self._client.request("GET", self._path), type=Lease)
        spec = lease.spec
        duration = spec.lease_duration_seconds or 0
        if not spec.holder_identity or not spec.renew_time:
            self._fresh_until = float("-inf")
        elif spec.renew_time != self._renewed:
            # At the first read the other machine's clock must be trusted.
            left = seconds(spec.renew_time) + duration - self._wall() if not self._renewed else duration
            self._fresh_until = self._clock() + min(left, duration)
        self._renewed = spec.renew_time or ""
        return self.is_fresh


class PlacerLiveness:
    """Whether the components that place pods by PropagationPolicies are alive: the extender and muster's scheduler.

    `changed` is called when one of them starts or stops.
    """

    def __init__(
        self, client: Client, extender: str, scheduler: str, scheduler_names: Collection[str],
        changed: Callable[[], None], report: Report,
    ) -> None:  # fmt: skip
        """`extender`, `scheduler`: their Leases, namespace/name; `none`: it has no Lease and counts as alive.

        `scheduler_names`: the schedulerNames of muster's scheduler.
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
        """Why nothing places pods with that schedulerName in their groups; empty: a component does."""
        part = "scheduler" if scheduler in self._names else "extender"
        if self.alive(part):
            return ""
        return f"no muster {part} is alive for schedulerName {scheduler}: Lease {self._leases[part][0]} is not renewed"

    async def run(self) -> None:
        """Runs until cancelled."""
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


REGISTRATION = "muster-webhook"
_HOOK = f"pods.{DOMAIN}"
_CONFIGURATION = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{REGISTRATION}"


class WebhookLiveness:
    """Whether a webhook is alive that creates pods in their edition. `changed` is called when that changes."""

    def __init__(
        self,
        client: Client,
        lease: str,
        changed: Callable[[], None],
        report: Report,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`lease`: the webhook's, namespace/name."""
        self.alive = False
        self._client = client
        self._lease = LeaseWatch(client, lease, clock, wall)
        self._changed = changed
        self._report = report
        self._reported = ""

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(CHECK_INTERVAL_S)

    async def check(self) -> None:
        try:
            alive = await self._lease.check() and await self._is_registered()
        except errors.NotFound:
            alive = False
        except errors.ApiError as fault:
            alive = self._lease.is_fresh and self.alive
            if str(fault) != self._reported:
                self._reported = str(fault)
                self._report(f"whether a webhook is alive cannot be seen: {fault}")
        if alive != self.alive:
            self.alive = alive
            self._report("a webhook is alive" if alive else "no webhook is alive: pods keep their edition")
            self._changed()

    async def _is_registered(self) -> bool:
        return await _registered(self._client) is not None


async def webhook_lease_key(client: Client) -> str:
    """The webhook's Lease, found from its registration: in the namespace of its Service, else in kube-system."""
    try:
        hook = await _registered(client) or {}
    except errors.ApiError:
        hook = {}
    service = hook.get("clientConfig", {}).get("service") or {}
    return f"{service.get('namespace', 'kube-system')}/{REGISTRATION}"


async def _registered(client: Client) -> dict[str, Any] | None:
    found: dict[str, Any] = msgspec.json.decode(await client.request("GET", _CONFIGURATION))
    return next((hook for hook in found.get("webhooks") or () if hook.get("name") == _HOOK), None)


class LeaseHeartbeat:
    """Renews the Lease while `active` returns true; `run` runs until cancelled."""

    def __init__(
        self, client: Client, key: str, settings: LeaseSettings, active: Callable[[], bool], report: Report
    ) -> None:
        """Takes the Lease's namespace/name; of the settings only the times and the identity are used."""
        self._client = client
        self._key = key
        namespace, _, self._name = key.partition("/")
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._settings = settings
        self._active = active
        self._report = report
        self._last_error = ""

    async def run(self) -> None:
        while True:
            if self._active():
                try:
                    await self._write(self._settings.identity)
                except errors.Conflict:
                    pass  # another extender renewed it at the same moment
                except errors.ApiError as fault:
                    if str(fault) != self._last_error:
                        self._last_error = str(fault)
                        self._report(f"Lease {self._key} cannot be renewed, so that controllers evict nothing: {fault}")
            await asyncio.sleep(self._settings.retry)

    async def end(self) -> None:
        """Releases the Lease if this process has it, so that others need not wait until it expires."""
        with suppress(errors.ApiError):  # it expires by itself
            await self._write("")

    async def _write(self, holder: str) -> None:
        path = f"{self._path}/{self._name}"
        try:
            lease: dict[str, Any] = msgspec.json.decode(await self._client.request("GET", path, tries=1))
        except errors.NotFound:
            if holder:
                meta = {"name": self._name}
                made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta}
                await self._client.request("POST", self._path, body={**made, "spec": self._spec(holder)})
            return
        spec = lease.get("spec") or {}
        if holder or spec.get("holderIdentity") == self._settings.identity:
            await self._client.request("PUT", path, body={**lease, "spec": {**spec, **self._spec(holder)}}, tries=1)

    def _spec(self, holder: str) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        duration = max(round(self._settings.duration), 1) if holder else 1
        return {"holderIdentity": holder, "leaseDurationSeconds": duration, "renewTime": now}
