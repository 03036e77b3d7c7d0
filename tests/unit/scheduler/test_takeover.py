"""The fence (which pods are changed, what is awaited, what happens if one cannot be changed), and the warm standby."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from fakes.faulty_api import Answer, FaultyApi, listed, refuse, reply, run, stored_pod
from muster.kube.writes import FENCE
from muster.model.core import Pod
from muster.process.logs import Log
from muster.scheduler.takeover import Fence, Standby

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


class Prepared:
    """Counts what is prepared and ended; `keep_up` is what the loop does while another leads."""

    def __init__(self, keep_up: Callable[[object], Any]) -> None:
        self.made = self.ended = self.faults = 0
        self._keep_up = keep_up
        self.standby = Standby(self._prepare, Log(-1), self._fault)

    def _fault(self) -> None:
        self.faults += 1

    @asynccontextmanager
    async def _prepare(self, client: object) -> AsyncIterator[Any]:
        self.made += 1
        try:
            yield SimpleNamespace(number=self.made, loop=SimpleNamespace(keep_up=self._keep_up), stream=None)
        finally:
            self.ended += 1

    async def led(self, *, warm: bool) -> int:
        """Stand by, then lead: the number of what the term begins with."""
        async with self.standby.while_another_leads(None):  # type: ignore[arg-type]
            for _ in range(5):
                await asyncio.sleep(0)
        async with self.standby.for_term(None, warm=warm) as ready:  # type: ignore[arg-type]
            number: int = ready.number  # type: ignore[attr-defined]
            assert self.made - self.ended == 1, "only one of them follows the cluster"
        assert self.made == self.ended
        return number


async def for_ever(stream: object) -> None:
    await asyncio.Event().wait()


async def breaks(stream: object) -> None:
    raise RuntimeError("a fault of ours")


def test_a_term_after_a_dead_leader_uses_the_caches_of_the_standby() -> None:
    prepared = Prepared(for_ever)
    assert asyncio.run(prepared.led(warm=True)) == 1
    assert (prepared.made, prepared.faults) == (1, 0)


def test_any_other_term_reads_the_cluster_again() -> None:
    assert asyncio.run(Prepared(for_ever).led(warm=False)) == 2


def test_a_standby_that_failed_is_not_used() -> None:
    prepared = Prepared(breaks)
    assert asyncio.run(prepared.led(warm=True)) == 2
    assert prepared.faults == 1


def test_every_term_of_a_process_has_its_own_scheduler() -> None:
    async def terms(prepared: Prepared) -> list[int]:
        return [await prepared.led(warm=True) for _ in range(3)]

    assert asyncio.run(terms(Prepared(for_ever))) == [1, 2, 3]
