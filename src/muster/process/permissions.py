"""Finds and reports missing permissions of a component: in the log, in metrics, and in a condition of its pod.

Every refusal by the API server passes through here (Access.on_refusal), so no missing permission goes unreported. It is
logged at level 0 at once, and every ten minutes while it is missing.

A SelfSubjectRulesReview lists the rules of one namespace. It is sent for a namespace that does not exist and therefore
has no RoleBinding, so the response has exactly the rules that apply in every namespace. An authorizer may not be able
to list its rules (a webhook, the authorizer of a cloud). For each permission that the list lacks, a
SelfSubjectAccessReview for all namespaces decides.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge

from muster.kube.client import Client
from muster.model.meta import Partial
from muster.process.logs import Log
from muster.process.own_pod import OwnPod
from muster.store import errors
from muster.store.errors import ApiError, Permission

REVIEW_PERIOD_S = 600.0
MORE_REFUSALS_S = 5.0
CONDITION = "muster.io/PermissionsGranted"
ABSENT_NAMESPACE = "muster-permissions-in-all-namespaces"
_REVIEW_PATH = "/apis/authorization.k8s.io/v1"

T = TypeVar("T")


class Permissions:
    """The missing permissions. `refused` is called with every refusal; `run` also reviews the permissions that the
    component needs."""

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
                self._log(0, "the API server does not list the missing permissions", why=str(error))
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
            await asyncio.sleep(MORE_REFUSALS_S)  # more refusals usually follow
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


class Rule(Partial, kw_only=True):
    """A rule of a Role or ClusterRole."""

    verbs: list[str] = []
    api_groups: list[str] = []
    resources: list[str] = []
    resource_names: list[str] = []

    def grants(self, wanted: Permission) -> bool:
        # RBAC: "*" is every resource and subresource, "*/status" is this subresource of every resource.
        part = wanted.resource.partition("/")[2]
        resources = {"*", wanted.resource, f"*/{part}"} if part else {"*", wanted.resource}
        return (
            not {"*", wanted.verb}.isdisjoint(self.verbs)
            and not {"*", wanted.group}.isdisjoint(self.api_groups)
            and not resources.isdisjoint(self.resources)
            and (not self.resource_names or wanted.name in self.resource_names)
        )


class _Rules(Partial, kw_only=True):
    resource_rules: list[Rule] = []


class _RulesReview(Partial, kw_only=True):
    status: _Rules = msgspec.field(default_factory=_Rules)


class _Access(Partial, kw_only=True):
    allowed: bool = False


class _AccessReview(Partial, kw_only=True):
    status: _Access = msgspec.field(default_factory=_Access)


async def missing(client: Client, needed: Iterable[Permission]) -> list[Permission]:
    """Returns the permissions that are not granted in all namespaces. `client` must have no gate: a standby asks,
    too."""
    review = await _review(client, "SelfSubjectRulesReview", {"namespace": ABSENT_NAMESPACE}, _RulesReview)
    unlisted = [one for one in needed if not any(rule.grants(one) for rule in review.status.resource_rules)]
    return [one for one in unlisted if not await allowed(client, one)]


async def allowed(client: Client, wanted: Permission, namespace: str = "") -> bool:
    """Returns whether the permission is granted in the namespace, or (empty) in all of them."""
    resource, _, part = wanted.resource.partition("/")
    asked = {"verb": wanted.verb, "group": wanted.group, "resource": resource, "subresource": part, "name": wanted.name,
             "namespace": namespace}  # fmt: skip
    spec = {"resourceAttributes": {field: value for field, value in asked.items() if value}}
    return (await _review(client, "SelfSubjectAccessReview", spec, _AccessReview)).status.allowed


async def _review(client: Client, kind: str, spec: object, answer: type[T]) -> T:
    path = f"{_REVIEW_PATH}/{kind.lower()}s"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    text = await client.request("POST", path, body=body, repeatable=True)
    try:
        return msgspec.json.decode(text, type=answer)
    except msgspec.MsgspecError as error:
        raise errors.BadAnswer(f"POST {path}", f"the answer is no {kind}: {error}", code=502) from None
