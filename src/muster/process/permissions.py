"""Says which permissions a part lacks: in the log, in metrics, in a condition of its own pod.

Every refusal of the API server comes by here (Access.on_refusal), so no part can lack a permission in silence. What is
missing is said at level 0 at once, and again every ten minutes while it is missing.
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

AGAIN_S = 600.0
SOON_S = 5.0
CONDITION = "muster.io/PermissionsGranted"


class Permissions:
    """`refused` hears of refusals. `run` asks the API server as well; it is for parts that know what they need."""

    def __init__(
        self, log: Log, registry: CollectorRegistry | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._clock = clock
        self._lacks: dict[Permission, float] = {}  # → when it was last said
        self._where: dict[Permission, str] = {}  # → the namespace of the last refusal
        self._news = asyncio.Event()
        labels = ["verb", "resource"]
        self._refusals = Counter(
            "muster_permission_denied", "Calls refused because the account lacks a permission", labels,
            registry=registry,
        )  # fmt: skip
        self._missing = Gauge(
            "muster_permission_missing", "1 while the account lacks the permission", labels, registry=registry
        )

    def refused(self, error: ApiError) -> None:
        """A call was refused, for whatever reason."""
        if isinstance(error, errors.Forbidden) and (permission := error.permission) is not None:
            self._refusals.labels(permission.verb, permission.resource).inc()
            self._where[permission] = error.namespace
            self._say(permission, error.message)

    async def run(self, client: Client, needed: Sequence[Permission], pod: OwnPod) -> None:
        """Ask at the start and every ten minutes. `client` has no gate."""
        reported: list[str] | None = None
        while True:
            self._news.clear()
            try:
                lacks = await missing(client, needed)
                others = [one for one in self._lacks if one not in needed]  # in one namespace, such as the Lease
                lacks += [one for one in others if not await allowed(client, one, self._where.get(one, ""))]
            except ApiError as error:
                self._log(0, "the API server does not say which permissions are missing", why=str(error))
            else:
                self._note(lacks)
            now = sorted(map(str, self._lacks))
            if now != reported and await self._report(pod, now):
                reported = now
            await self._pause()

    async def _pause(self) -> None:
        """Ten minutes; less if something new is missing, which the condition is to show, too."""
        try:
            async with asyncio.timeout(AGAIN_S):
                await self._news.wait()
            await asyncio.sleep(SOON_S)  # others follow
        except TimeoutError:
            return

    def _note(self, lacks: Sequence[Permission]) -> None:
        for permission in [one for one in self._lacks if one not in lacks]:
            del self._lacks[permission]
            self._missing.labels(permission.verb, permission.resource).set(0)
            self._log(0, "permission granted", verb=permission.verb, resource=permission.resource,
                      group=permission.group)  # fmt: skip
        for permission in lacks:
            self._say(permission, "by review of the account's permissions")

    def _say(self, permission: Permission, why: str) -> None:
        if permission not in self._lacks:
            self._missing.labels(permission.verb, permission.resource).set(1)
            self._news.set()
        elif self._clock() < self._lacks[permission] + AGAIN_S:
            return
        self._lacks[permission] = self._clock()
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
