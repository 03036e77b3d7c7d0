"""Is there a webhook that makes new pods right? Its registration and the Lease of the active one say so.

A registration alone says nothing: it stays when the webhook is gone, and pods are then created as they are. The active
replica renews its Lease every few seconds and gives it back when it ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec

from muster.groupctl.controllers.liveness import CHECK_INTERVAL_S, LeaseWatch
from muster.groups.binding import DOMAIN
from muster.kube.client import Client
from muster.kube.lists import Report
from muster.store import errors

REGISTRATION = "muster-webhook"
_HOOK = f"pods.{DOMAIN}"
_CONFIGURATION = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{REGISTRATION}"


class WebhookLiveness:
    """`alive` is what was last seen; `changed` is called when it becomes otherwise."""

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
        """Until cancelled."""
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
            self._report("a webhook is alive" if alive else "no webhook is alive: editions are not made anew")
            self._changed()

    async def _is_registered(self) -> bool:
        return await _registered(self._client) is not None


async def webhook_lease_key(client: Client) -> str:
    """Where the webhook's Lease is, for one who looks from outside: beside its Service, else in kube-system."""
    try:
        hook = await _registered(client) or {}
    except errors.ApiError:
        hook = {}
    service = hook.get("clientConfig", {}).get("service") or {}
    return f"{service.get('namespace', 'kube-system')}/{REGISTRATION}"


async def _registered(client: Client) -> dict[str, Any] | None:
    found: dict[str, Any] = msgspec.json.decode(await client.request("GET", _CONFIGURATION))
    return next((hook for hook in found.get("webhooks") or () if hook.get("name") == _HOOK), None)
