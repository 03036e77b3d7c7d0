"""Lists in pages, begun again when they grow old, one unreadable object set aside."""

from __future__ import annotations

import gc

import pytest

from fakes.faulty_api import FaultyApi, listed, raw, refuse, reply, run, stored_pod
from muster.kube.list_watch import Selection, list_all
from muster.kube.resources import resource_of
from muster.model.core import Pod
from muster.model.meta import Object, key
from muster.store import errors

PATH = "/api/v1/pods"
PODS = Selection(resource_of(Pod))


async def _all(api: FaultyApi, size: int = 2) -> tuple[list[Object], str]:
    async with api.client(tries=2) as client:
        return await list_all(client, PODS, api.report.append, size=size)


def test_pages_are_followed_to_the_end() -> None:
    async def story(api: FaultyApi) -> tuple[list[str], str, list[str | None]]:
        first, second = listed([stored_pod("a", 1), stored_pod("b", 2)], 9, "go on"), listed([stored_pod("c", 3)], 9)
        api.plan("GET", PATH, reply(first), reply(second))
        objects, version = await _all(api)
        return [key(obj) for obj in objects], version, [one.query.get("continue") for one in api.asked]

    assert run(story) == (["ns/a", "ns/b", "ns/c"], "9", [None, "go on"])


def test_objects_are_the_models_own_types() -> None:
    async def story(api: FaultyApi) -> Object:
        api.plan("GET", PATH, reply(listed([stored_pod("a", 1, node="n1", schedulerName="muster")], 9)))
        return (await _all(api))[0][0]

    found = run(story)
    assert isinstance(found, Pod)
    assert (found.spec.node_name, found.spec.scheduler_name, found.api_version) == ("n1", "muster", "v1")


def test_a_list_that_grew_too_old_is_begun_again() -> None:
    async def story(api: FaultyApi) -> list[str]:
        old, new = listed([stored_pod("a", 1)], 5, "old"), listed([stored_pod("b", 8)], 9)
        expired = refuse(410, "Expired", "the continue token is too old")
        api.plan("GET", PATH, reply(old), expired, reply(new))
        return [key(obj) for obj in (await _all(api))[0]]

    assert run(story) == ["ns/b"]


def test_a_list_that_is_always_too_old_is_taken_in_one_piece_at_last() -> None:
    async def story(api: FaultyApi) -> tuple[str, list[str | None]]:
        page, expired = reply(listed([stored_pod("a", 1)], 5, "old")), refuse(410, "Expired", "too old")
        api.plan("GET", PATH, page, expired, page, expired, page, expired, reply(listed([stored_pod("a", 1)], 6)))
        return (await _all(api))[1], [one.query.get("limit") for one in api.asked]

    version, limits = run(story)
    assert version == "6"
    assert limits[-1] is None
    assert limits[:-1] == ["2"] * 6


def test_one_object_that_cannot_be_read_is_left_out_and_named() -> None:
    async def story(api: FaultyApi) -> tuple[list[str], list[str]]:
        bad = stored_pod("bad", 2)
        bad["spec"]["nodeName"] = 7
        api.plan("GET", PATH, reply(listed([stored_pod("a", 1), bad, stored_pod("c", 3)], 9)))
        return [key(obj) for obj in (await _all(api))[0]], api.report

    names, message = run(story)
    assert names == ["ns/a", "ns/c"]
    assert len(message) == 1
    assert "ns/bad" in message[0]
    assert "spec.nodeName" in message[0]


def test_nulls_are_absent_fields() -> None:
    async def story(api: FaultyApi) -> tuple[list[str], list[str]]:
        bare = stored_pod("a", 1)
        bare["spec"]["tolerations"] = None
        bare["metadata"]["labels"] = None
        api.plan("GET", PATH, reply(listed([bare], 9)))
        return [key(obj) for obj in (await _all(api))[0]], api.report

    assert run(story) == (["ns/a"], [])


@pytest.mark.parametrize("body", [b'{"metadata": {', b"", b"[1, 2]", b"<html>", b'{"items": "no"}'])
def test_an_answer_that_is_no_list_is_an_error(body: bytes) -> None:
    async def story(api: FaultyApi) -> None:
        api.plan("GET", PATH, raw(body))
        with pytest.raises(errors.BadAnswer):
            await _all(api)

    run(story)


def test_an_empty_list_may_say_null() -> None:
    async def story(api: FaultyApi) -> tuple[list[Object], str]:
        api.plan("GET", PATH, reply({"metadata": {"resourceVersion": "3"}, "items": None}))
        return await _all(api)

    assert run(story) == ([], "3")


def test_the_collector_runs_again_afterwards() -> None:
    async def story(api: FaultyApi) -> bool:
        api.plan("GET", PATH, raw(b"broken"))
        with pytest.raises(errors.BadAnswer):
            await _all(api)
        return gc.isenabled()

    assert run(story)


def test_a_part_of_a_kind_is_asked_for_by_namespace_labels_and_fields() -> None:
    some = Selection(resource_of(Pod), "ns", "app=a", "spec.nodeName=")
    assert some.path == "/api/v1/namespaces/ns/pods"
    assert some.params() == {"labelSelector": "app=a", "fieldSelector": "spec.nodeName="}
