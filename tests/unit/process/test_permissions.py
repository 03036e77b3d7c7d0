"""What is missing is reported at once, every ten minutes while it is missing, and no longer when it is granted."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from fakes.faulty_api import FaultyApi, refuse, reply, run, until
from muster.process.logs import Log
from muster.process.own_pod import OwnPod
from muster.process.permissions import REVIEW_PERIOD_S, Permissions
from muster.store import errors
from muster.store.errors import Permission

BIND = Permission("create", "pods/binding")
REFUSED = errors.Forbidden(
    "POST /api/v1/namespaces/ns/pods/a/binding",
    'pods "a" is forbidden: User "system:serviceaccount:muster-system:muster-scheduler" cannot create resource '
    '"pods/binding" in API group "" in the namespace "ns"',
    code=403,
)
REVIEWS = "/apis/authorization.k8s.io/v1"


class Reported:
    """Permissions on a clock of the test's own, and what they say."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.now = 1000.0
        self.registry = CollectorRegistry()
        self.permissions = Permissions(Log(0), self.registry, lambda: self.now)
        self._capsys = capsys

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._capsys.readouterr().err.splitlines()]

    def metric(self, name: str) -> float | None:
        return self.registry.get_sample_value(name, {"verb": "create", "resource": "pods/binding"})


def test_a_refusal_is_reported_at_once_and_every_ten_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    reported = Reported(capsys)
    for _ in range(100):
        reported.permissions.refused(REFUSED)
        reported.now += REVIEW_PERIOD_S / 60
    entries = reported.entries()
    assert [(e["v"], e["verb"], e["resource"], e["group"]) for e in entries] == [(0, "create", "pods/binding", "")] * 2
    assert "system:serviceaccount:muster-system:muster-scheduler" in entries[0]["why"]
    assert reported.metric("muster_permission_denied_total") == 100
    assert reported.metric("muster_permission_missing") == 1


@pytest.mark.parametrize(
    "error",
    [
        errors.Forbidden("POST", 'pods "a" is forbidden: exceeded quota: few, requested: pods=1', code=403),
        errors.Forbidden("POST", 'events "a" is forbidden: unable to create new content in namespace ns because it is '
                         "being terminated", code=403),
        errors.Conflict("POST", "the object has been modified", code=409),
    ],
)  # fmt: skip
def test_other_refusals_are_no_missing_permission(error: errors.ApiError, capsys: pytest.CaptureFixture[str]) -> None:
    reported = Reported(capsys)
    reported.permissions.refused(error)
    assert reported.entries() == []


def rules(*granted: dict[str, list[str]]) -> dict[str, Any]:
    return {"status": {"resourceRules": list(granted), "incomplete": False}}


def test_the_review_asks_about_all_namespaces_and_what_was_granted_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.process.permissions.MORE_REFUSALS_S", 0.2)
    reported = Reported(capsys)
    needed = (BIND, Permission("patch", "pods/status"), Permission("patch", "queues/status", "scheduling.volcano.sh"))
    status = {"verbs": ["patch"], "apiGroups": ["*"], "resources": ["*/status"]}
    named = {"verbs": ["*"], "apiGroups": [""], "resources": ["pods/binding"], "resourceNames": ["one"]}

    async def story(api: FaultyApi) -> None:
        api.plan("POST", f"{REVIEWS}/selfsubjectrulesreviews", reply(rules(status, named), 201))
        api.plan("POST", f"{REVIEWS}/selfsubjectaccessreviews", reply({"status": {"allowed": False}}, 201),
                 reply({"status": {"allowed": True}}, 201))  # fmt: skip
        async with api.client() as client:
            asking = asyncio.create_task(reported.permissions.run(client, needed, OwnPod(client, "")))
            # What is new is looked at again soon; then it is granted.
            await until(lambda: api.count("POST", f"{REVIEWS}/selfsubjectaccessreviews") == 2, 15)
            await asyncio.sleep(0.1)
            asking.cancel()
        spec = next(one.body["spec"] for one in api.asked if one.path.endswith("accessreviews"))
        assert spec == {"resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "binding"}}

    run(story)
    message = [(e["msg"], e["verb"], e["resource"]) for e in reported.entries()]
    assert message == [
        ("missing permission: create pods/binding", "create", "pods/binding"),
        ("permission granted", "create", "pods/binding"),
    ]
    assert reported.metric("muster_permission_missing") == 0


def test_a_server_that_gives_no_review_is_no_reason_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    reported = Reported(capsys)

    async def story(api: FaultyApi) -> None:
        api.plan("POST", f"{REVIEWS}/selfsubjectrulesreviews", refuse(403, "Forbidden", "no reviews here"))
        async with api.client(tries=1) as client:
            asking = asyncio.create_task(reported.permissions.run(client, (BIND,), OwnPod(client, "")))
            await until(lambda: api.asked)
            await asyncio.sleep(0.05)
            assert not asking.done()
            asking.cancel()

    run(story)
    assert "does not list the missing permissions" in reported.entries()[0]["msg"]


def test_refusals_of_every_client_come_by() -> None:
    heard: list[errors.ApiError] = []

    async def story(api: FaultyApi) -> None:
        api.plan("POST", "/a", refuse(403, "Forbidden", REFUSED.message))
        async with api.client() as client:
            client.access.on_refusal = heard.append
            with pytest.raises(errors.Forbidden):
                await client.request("POST", "/a", body={})

    run(story)
    (error,) = heard
    assert isinstance(error, errors.Forbidden) and error.permission == BIND and error.namespace == "ns"
