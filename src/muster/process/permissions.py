"""Reports missing permissions of a component: in the log, in metrics, and in a condition of its own pod.

Every refusal by the API server passes through here (Access.on_refusal), so no missing permission goes unreported. It is
logged at level 0 at once, and every ten minutes while it is missing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from muster.kube.client import Client
from muster.kube.reviews import allowed, missing
from muster.process.logs import Log
from muster.process.own_pod import OwnPod
from muster.store import errors
from muster.store.errors import ApiError, Permission

REVIEW_PERIOD_S = 600.0
GATHER_S = 5.0
CONDITION = "muster.io/PermissionsGranted"


class Permissions:
    """`refused` is called with every refusal. `run` also reviews the permissions that the component needs."""

    def __init__(
        self, log: Log, registry: CollectorRegistry | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._clock = clock
        self._missing_since: dict[Permission, float] = {}  # → when it was last logged
        self._where: dict[Permission, str] = {}  # → the namespace of the last refusal
        self._changed = asyncio.Event()
        labels = ["verb", "resource"]
        self._refusals = Counter(
            "muster_permission_denied", "Calls refused because the account lacks a permission", labels,
            registry=registry,
        )  # fmt: skip
        self._missing = Gauge(
            "muster_permission_missing", "1 while the account lacks the permission", labels, registry=registry
        )

    def refused(self, error: ApiError) -> None:
        """Counts and logs the refusal if a permission is missing."""
        if isinstance(error, errors.Forbidden) and (permission := error.permission) is not None:
            self._refusals.labels(permission.verb, permission.resource).inc()
            self._where[permission] = error.namespace
            self._log_missing(permission, error.message)

    async def run(self, client: Client, needed: Sequence[Permission], pod: OwnPod) -> None:
        """Reviews the permissions at the start and every ten minutes. `client` has no gate."""
        reported: list[str] | None = None
        while True:
            self._changed.clear()
            try:
                lacks = await missing(client, needed)
                # Those of one namespace, such as the Lease, are not in the list.
                others = [one for one in self._missing_since if one not in needed]
                lacks += [one for one in others if not await allowed(client, one, self._where.get(one, ""))]
            except ApiError as error:
                self._log(0, "the API server does not say which permissions are missing", why=str(error))
            else:
                self._update(lacks)
            now = sorted(map(str, self._missing_since))
            if now != reported and await self._report(pod, now):
                reported = now
            await self._pause()

    async def _pause(self) -> None:
        """Waits ten minutes; less if another permission is found missing, which the condition has to show."""
        try:
            async with asyncio.timeout(REVIEW_PERIOD_S):
                await self._changed.wait()
            await asyncio.sleep(GATHER_S)  # more refusals usually follow
        except TimeoutError:
            return

    def _update(self, lacks: Sequence[Permission]) -> None:
        for permission in [one for one in self._missing_since if one not in lacks]:
            del self._missing_since[permission]
            self._missing.labels(permission.verb, permission.resource).set(0)
            self._log(0, "permission granted", verb=permission.verb, resource=permission.resource,
                      group=permission.group)  # fmt: skip
        for permission in lacks:
            self._log_missing(permission, "by review of the account's permissions")

    def _log_missing(self, permission: Permission, why: str) -> None:
        if permission not in self._missing_since:
            self._missing.labels(permission.verb, permission.resource).set(1)
            self._changed.set()
        elif self._clock() < self._missing_since[permission] + REVIEW_PERIOD_S:
            return
        self._missing_since[permission] = self._clock()
        self._log(0, f"missing permission: {permission}", verb=permission.verb, resource=permission.resource,
                  group=permission.group, why=why)  # fmt: skip

    async def _report(self, pod: OwnPod, missing: list[str]) -> bool:
        """Writes the condition of the pod; whether that succeeded. The log and the metrics have the same."""
        reason = "PermissionsMissing" if missing else "AllGranted"
        message = f"the account may not: {'; '.join(missing)}" if missing else ""
        try:
            await pod.set_condition(CONDITION, status=not missing, reason=reason, message=message)
        except ApiError:
            return False
        return True
