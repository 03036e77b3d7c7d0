"""Renews the Lease of an extender without leader election: it shows that an extender is alive.

While it is not renewed, the controllers evict no pod because of its group. Several extenders, one beside each
kube-scheduler, may renew the same Lease: the last one is its holder, and it is fresh while one of them is alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from muster.kube.client import Client
from muster.kube.list_watch import Report
from muster.process.settings import LeaseSettings
from muster.store import errors


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
