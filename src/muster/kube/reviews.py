"""Asks the API server which permissions this account lacks.

A SelfSubjectRulesReview lists the rules that hold in one namespace. It is asked about a namespace that does not exist,
where no RoleBinding is: so the answer has exactly the rules that hold in every namespace. An authorizer may not be able
to list its rules (a webhook, the authorizer of a cloud). What the list lacks is therefore asked for one by one, by a
SelfSubjectAccessReview for all namespaces, whose answer decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from muster.kube.client import Client
from muster.model.meta import Partial
from muster.store import errors
from muster.store.errors import Permission

T = TypeVar("T")

NOWHERE = "muster-permissions-in-all-namespaces"
_PATH = "/apis/authorization.k8s.io/v1"


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
    """Those that are not granted in all namespaces. `client` must not have a gate: a standby asks as well."""
    review = await _review(client, "SelfSubjectRulesReview", {"namespace": NOWHERE}, _RulesReview)
    unlisted = [one for one in needed if not any(rule.grants(one) for rule in review.status.resource_rules)]
    return [one for one in unlisted if not await allowed(client, one)]


async def allowed(client: Client, wanted: Permission, namespace: str = "") -> bool:
    """Whether it is granted in the namespace, or (empty) in all of them."""
    resource, _, part = wanted.resource.partition("/")
    asked = {"verb": wanted.verb, "group": wanted.group, "resource": resource, "subresource": part, "name": wanted.name,
             "namespace": namespace}  # fmt: skip
    spec = {"resourceAttributes": {field: value for field, value in asked.items() if value}}
    return (await _review(client, "SelfSubjectAccessReview", spec, _AccessReview)).status.allowed


async def _review(client: Client, kind: str, spec: object, answer: type[T]) -> T:
    path = f"{_PATH}/{kind.lower()}s"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    text = await client.request("POST", path, body=body, repeatable=True)
    try:
        return msgspec.json.decode(text, type=answer)
    except msgspec.MsgspecError as error:
        raise errors.BadAnswer(f"POST {path}", f"the answer is no {kind}: {error}", code=502) from None
