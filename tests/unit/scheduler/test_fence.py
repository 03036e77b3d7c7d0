"""The fence: which pods are changed, what is waited for, and what happens if one cannot be changed."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fakes.faulty_api import Answer, FaultyApi, listed, refuse, reply, run, stored_pod
from muster.kube.writes import FENCE
from muster.model.core import Pod
from muster.process.logs import Log
from muster.scheduler.fence import Fence

PODS = "/api/v1/pods"


class Watches:
    """Informers that are asked how far their watch has come."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def reached(self, kind: type[Pod], version: str) -> None:
        self.asked.append(version)


def closed(*pods: dict[str, Any], seconds: float = 0.3, **answers: Answer) -> tuple[list[Any], list[str], float]:
    """The patches that the fence sends, the versions that it waits for, and how long it takes."""
    watches = Watches()

    async def story(api: FaultyApi) -> tuple[list[Any], list[str], float]:
        api.plan("GET", PODS, reply(listed(pods, 10)))
        for number, one in enumerate(pods):
            name = one["metadata"]["name"]
            answer = answers.get(name, reply(stored_pod(name, 20 + number)))
            api.plan("PATCH", f"/api/v1/namespaces/ns/pods/{name}/status", answer)
        async with api.client(tries=1) as client:
            begin = time.monotonic()
            await Fence(client, watches, ("muster",), Log(-1)).close("me.2.1", seconds)  # type: ignore[arg-type]
            took = time.monotonic() - begin
        assert api.asked[0].query["fieldSelector"] == "spec.nodeName=" and "resourceVersion" not in api.asked[0].query
        return [one for one in api.asked if one.method == "PATCH"], watches.asked, took

    return run(story)


def ours(name: str, **spec: Any) -> dict[str, Any]:
    return stored_pod(name, 5, schedulerName="muster", **spec)


def test_every_pending_pod_that_could_be_bound_is_changed_and_the_watch_must_have_shown_it() -> None:
    gated = ours("gated", schedulingGates=[{"name": "wait"}])
    going = ours("going")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    patches, versions, took = closed(
        ours("a"), stored_pod("theirs", 5, schedulerName="default-scheduler"), gated, going, ours("b"), seconds=30
    )
    assert {one.path for one in patches} == {f"/api/v1/namespaces/ns/pods/{name}/status" for name in "ab"}
    assert [one.body for one in patches if "/a/" in one.path] == [
        {"metadata": {"uid": "uid-a", "annotations": {FENCE: "me.2.1"}}}
    ]
    assert versions == ["24"] and took < 10


@pytest.mark.parametrize("answer", [
    refuse(404, "NotFound", "pods \"a\" not found"),
    refuse(422, "Invalid", "metadata.uid: field is immutable",
           details={"causes": [{"field": "metadata.uid", "message": "field is immutable"}]}),
])  # fmt: skip
def test_a_deleted_pod_does_not_delay_the_fence(answer: Answer) -> None:
    _, versions, took = closed(ours("a"), ours("b"), seconds=30, a=answer)
    assert versions == ["21"] and took < 10


@pytest.mark.parametrize("answer", [
    refuse(403, "Forbidden", 'cannot patch resource "pods/status" in API group ""'),
    refuse(500, "InternalError", "no"),
])  # fmt: skip
def test_if_a_pod_cannot_be_changed_the_calls_of_the_former_leader_are_waited_for(answer: Answer) -> None:
    _, versions, took = closed(ours("a"), ours("b"), a=answer)
    assert versions == ["21"] and took >= 0.3
