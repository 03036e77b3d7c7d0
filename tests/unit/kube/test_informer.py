"""Informers: whatever happens to lists and watches, the table equals the cluster and every change is reported once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fakes.faulty_api import (
    FaultyApi,
    Plain,
    bookmark,
    event,
    gone,
    hang_up,
    listed,
    raw,
    refuse,
    reply,
    run,
    stored_pod,
    stream_events,
    until,
)
from muster.kube import Delta, Informers, InformerState, Wanted, list_watch
from muster.kube.informer import Pace
from muster.kube.list_watch import decode_object
from muster.kube.resources import SOURCES, resource_of
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.scheduling import PodGroup, Queue
from muster.model.topology import Topology

PATH = "/api/v1/pods"
Reported = list[tuple[str, str]]


def follow(
    plan: Callable[[FaultyApi], None], end: Callable[[FaultyApi, Informers], object], kinds: Any = (Pod,)
) -> tuple[Reported, Informers, FaultyApi]:
    """Follow until `end` is true; what was reported, and how it looked then."""

    async def story(api: FaultyApi) -> tuple[Reported, Informers, FaultyApi]:
        plan(api)
        async with api.client(tries=1) as client:
            informers = Informers(client, kinds, api.report.append, pace=Pace(2, 0.5, 0.05))
            stream = informers.stream()
            async with informers:
                assert await informers.synced(5)
                await until(lambda: end(api, informers))
            return [(one.change.value, one.key) for one in stream.take()], informers, api

    return run(story)


def table(informers: Informers) -> dict[str, str]:
    return {key: obj.metadata.resource_version for key, obj in informers.of(Pod).items()}


def test_what_is_there_is_added_and_what_happens_is_reported() -> None:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", PATH, reply(listed([stored_pod("a", 1), stored_pod("b", 2)], 5)))
        news = (
            event("ADDED", stored_pod("c", 6)),
            event("MODIFIED", stored_pod("a", 7)),
            event("DELETED", stored_pod("b", 8)),
        )
        api.plan("WATCH", PATH, stream_events(*news, then="silence"))

    reported, informers, api = follow(plan, lambda api, informers: "ns/b" not in informers.of(Pod))
    assert reported == [
        ("ADDED", "ns/a"), ("ADDED", "ns/b"), ("ADDED", "ns/c"), ("MODIFIED", "ns/a"), ("DELETED", "ns/b"),
    ]  # fmt: skip
    assert table(informers) == {"ns/a": "7", "ns/c": "6"}
    assert api.watches(PATH)[0].query["resourceVersion"] == "5"
    assert api.watches(PATH)[0].query["allowWatchBookmarks"] == "true"


def test_events_may_arrive_in_any_pieces() -> None:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", PATH, reply(listed([], 5)))
        news = [event("ADDED", stored_pod(f"p{i}", 6 + i)) for i in range(20)]
        api.plan("WATCH", PATH, stream_events(*news, then="silence", pieces=7))

    reported, _, _ = follow(plan, lambda api, informers: len(informers.of(Pod)) == 20)
    assert reported == [("ADDED", f"ns/p{i}") for i in range(20)]


@pytest.mark.parametrize("then", ["end", "cut"])
def test_a_watch_that_ends_is_taken_up_where_it_ended(then: str) -> None:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", PATH, reply(listed([stored_pod("a", 1)], 5)))
        first = stream_events(event("MODIFIED", stored_pod("a", 6)), then=then)
        api.plan("WATCH", PATH, first, stream_events(event("MODIFIED", stored_pod("a", 7)), then="silence"))

    reported, _, api = follow(plan, lambda api, informers: table(informers) == {"ns/a": "7"})
    assert [one.query["resourceVersion"] for one in api.watches(PATH)] == ["5", "6"]
    assert api.count("GET", PATH) == 3  # one list, two watches
    assert reported == [("ADDED", "ns/a"), ("MODIFIED", "ns/a"), ("MODIFIED", "ns/a")]


def test_a_bookmark_carries_the_place_to_go_on_from() -> None:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", PATH, reply(listed([stored_pod("a", 1)], 5)))
        api.plan("WATCH", PATH, stream_events(bookmark(50)), stream_events(then="silence"))

    reported, _, api = follow(plan, lambda api, informers: len(api.watches(PATH)) == 2)
    assert [one.query["resourceVersion"] for one in api.watches(PATH)] == ["5", "50"]
    assert reported == [("ADDED", "ns/a")]


def test_a_watch_that_falls_silent_is_taken_for_dead() -> None:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", PATH, reply(listed([], 5)))
        api.plan(
            "WATCH",
            PATH,
            stream_events(then="silence"),
            stream_events(event("ADDED", stored_pod("a", 6)), then="silence"),
        )

    reported, _, _ = follow(plan, lambda api, informers: informers.of(Pod))
    assert reported == [("ADDED", "ns/a")]


@pytest.mark.parametrize(
    "too_old", [stream_events(gone()), refuse(410, "Expired", "too old")], ids=["in the watch", "at once"]
)
def test_after_410_the_new_list_is_compared_and_no_deletion_is_missed(too_old: Any) -> None:
    def plan(api: FaultyApi) -> None:
        before, after = (
            [stored_pod("a", 1), stored_pod("b", 2), stored_pod("c", 3)],
            [stored_pod("a", 1), stored_pod("c", 9), stored_pod("d", 8)],
        )
        api.plan("GET", PATH, reply(listed(before, 5)), reply(listed(after, 10)))
        api.plan("WATCH", PATH, too_old, stream_events(then="silence"))

    reported, informers, _ = follow(plan, lambda api, informers: "ns/d" in informers.of(Pod))
    assert reported[3:] == [("DELETED", "ns/b"), ("MODIFIED", "ns/c"), ("ADDED", "ns/d")]
    assert table(informers) == {"ns/a": "1", "ns/c": "9", "ns/d": "8"}


def test_an_object_deleted_and_made_again_meanwhile_is_another_one() -> None:
    def plan(api: FaultyApi) -> None:
        first, second = [stored_pod("a", 1, uid="old")], [stored_pod("a", 9, uid="new")]
        api.plan("GET", PATH, reply(listed(first, 5)), reply(listed(second, 10)))
        api.plan("WATCH", PATH, stream_events(gone()), stream_events(then="silence"))

    reported, _, _ = follow(plan, lambda api, informers: table(informers) == {"ns/a": "9"})
    assert reported == [("ADDED", "ns/a"), ("DELETED", "ns/a"), ("ADDED", "ns/a")]


def test_a_cluster_restored_from_a_backup_is_believed() -> None:
    def plan(api: FaultyApi) -> None:
        before, after = [stored_pod("a", 90), stored_pod("b", 91)], [stored_pod("a", 40)]
        api.plan("GET", PATH, reply(listed(before, 95)), reply(listed(after, 50)))
        api.plan("WATCH", PATH, stream_events(gone()), stream_events(then="silence"))

    _, informers, _ = follow(plan, lambda api, informers: len(informers.of(Pod)) == 1)
    assert table(informers) == {"ns/a": "40"}


def test_a_line_that_is_no_json_loses_nothing_before_or_after_it() -> None:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", PATH, reply(listed([], 5)))
        broken = stream_events(event("ADDED", stored_pod("a", 6)), b'{"type": "ADDED", "object": {"metada\n')
        api.plan("WATCH", PATH, broken, stream_events(event("ADDED", stored_pod("b", 7)), then="silence"))

    reported, _, api = follow(plan, lambda api, informers: len(informers.of(Pod)) == 2)
    assert reported == [("ADDED", "ns/a"), ("ADDED", "ns/b")]
    assert api.watches(PATH)[1].query["resourceVersion"] == "6"


def test_a_line_that_stays_unreadable_is_stepped_over_by_a_new_list() -> None:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", PATH, reply(listed([], 5)), reply(listed([stored_pod("a", 6)], 7)))
        poison = stream_events(b"\x00\x01 no json\n")
        api.plan("WATCH", PATH, poison, poison, stream_events(then="silence"))

    reported, _, _ = follow(plan, lambda api, informers: informers.of(Pod))
    assert reported == [("ADDED", "ns/a")]


def test_an_event_that_has_no_end_is_not_gathered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_watch, "MAX_EVENT_BYTES", 10_000)

    def plan(api: FaultyApi) -> None:
        api.plan("GET", PATH, reply(listed([], 5)), reply(listed([stored_pod("a", 6)], 7)))
        endless = stream_events(b'{"type": "ADDED", "object": "' + b"x" * 40_000, then="silence", pieces=1_000)
        api.plan("WATCH", PATH, endless, endless, stream_events(then="silence"))

    reported, _, api = follow(plan, lambda api, informers: informers.of(Pod))
    assert reported == [("ADDED", "ns/a")]
    assert any("more than 10000 bytes" in line for line in api.report)


def test_an_object_that_becomes_unreadable_counts_as_gone_and_is_named() -> None:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", PATH, reply(listed([stored_pod("a", 1)], 5)))
        bad = stored_pod("a", 6)
        bad["spec"]["nodeSelector"] = "x"
        api.plan("WATCH", PATH, stream_events(event("MODIFIED", bad), then="silence"))

    reported, _, api = follow(plan, lambda api, informers: not informers.of(Pod))
    assert reported == [("ADDED", "ns/a"), ("DELETED", "ns/a")]
    assert any("ns/a" in line and "spec.nodeSelector" in line for line in api.report)


def test_errors_are_reported_once_and_survived() -> None:
    def plan(api: FaultyApi) -> None:
        away = refuse(503, "ServiceUnavailable", "starting")
        api.plan("GET", PATH, hang_up(), away, raw(b"{"), away, reply(listed([stored_pod("a", 1)], 5)))
        api.plan("WATCH", PATH, stream_events(event("ADDED", stored_pod("b", 6)), then="silence"))

    reported, informers, api = follow(plan, lambda api, informers: len(informers.of(Pod)) == 2)
    assert reported == [("ADDED", "ns/a"), ("ADDED", "ns/b")]
    assert len([line for line in api.report if "cannot be followed" in line]) == 1
    assert informers.states() == {"pods": InformerState.SYNCED}


def test_a_watch_that_ends_at_once_becomes_no_storm() -> None:
    async def story(api: FaultyApi) -> int:
        api.plan("GET", PATH, reply(listed([], 5)))
        api.plan("WATCH", PATH, stream_events())
        async with api.client(tries=1) as client, Informers(client, [Pod], api.report.append) as informers:
            await informers.synced(5)
            await asyncio.sleep(1.0)
            return len(api.watches(PATH))

    assert run(story) <= 8


def test_lists_and_watches_that_are_always_too_old_become_no_storm() -> None:
    async def story(api: FaultyApi) -> int:
        api.plan("GET", PATH, reply(listed([], 5)))
        api.plan("WATCH", PATH, stream_events(gone()))
        async with api.client(tries=1) as client, Informers(client, [Pod], api.report.append) as informers:
            await informers.synced(5)
            await asyncio.sleep(1.0)
            return len(api.asked)

    assert run(story) <= 16


def test_a_kind_the_cluster_does_not_have_is_reported_once_and_found_when_it_comes() -> None:
    groups = "/apis/scheduling.volcano.sh/v1beta1/podgroups"

    async def story(api: FaultyApi) -> tuple[list[Delta], list[str]]:
        api.plan("GET", PATH, reply(listed([stored_pod("a", 1)], 5)))
        api.plan("WATCH", PATH, stream_events(then="silence"))
        async with api.client(tries=1) as client:
            informers = Informers(client, [Pod, PodGroup], api.report.append, pace=Pace(2, 0.5, 0.05))
            stream = informers.stream([PodGroup])
            async with informers:
                assert await informers.synced(5)
                assert informers.states()["podgroups.scheduling.volcano.sh"] is InformerState.ABSENT
                await asyncio.sleep(0.3)
                api.plan("GET", groups, reply(listed([stored_pod("g", 7)], 8)))
                await until(lambda: len(stream))
                api.plan("GET", groups, refuse(404, "NotFound", "gone"))
                await until(lambda: len(stream) == 2)
        return stream.take(), api.report

    deltas, message = run(story)
    assert [(one.change.value, one.kind, one.key) for one in deltas] == [
        ("ADDED", "PodGroup", "ns/g"),
        ("DELETED", "PodGroup", "ns/g"),
    ]
    assert len([line for line in message if "podgroups.scheduling.volcano.sh is not known" in line]) == 1


def test_what_may_not_be_read_is_not_synced_and_reported() -> None:
    async def story(api: FaultyApi) -> tuple[bool, list[str]]:
        api.plan("GET", PATH, refuse(403, "Forbidden", 'User "x" cannot list resource "pods"'))
        async with api.client(tries=1) as client, Informers(client, [Pod], api.report.append) as informers:
            return await informers.synced(0.5), api.report

    synced, message = run(story)
    assert not synced
    assert len(message) == 1
    assert 'cannot list resource "pods"' in message[0]


def test_the_version_that_is_served_is_the_one_that_is_read() -> None:
    path = "/apis/kueue.x-k8s.io/v1beta1/topologies"

    def plan(api: FaultyApi) -> None:
        api.plan("GET", path, reply({"metadata": {"resourceVersion": "4"}, "items": [{"metadata": {"name": "t"}}]}))
        api.plan("WATCH", path, stream_events(then="silence"))

    _, informers, _ = follow(plan, lambda api, informers: informers.of(Topology), [Topology])
    assert informers.of(Topology)["t"].api_version == "kueue.x-k8s.io/v1beta1"


def test_of_two_objects_of_one_name_in_two_groups_one_is_taken_and_it_is_reported() -> None:
    kueue, kai = "/apis/kueue.x-k8s.io/v1alpha1/topologies", "/apis/kai.scheduler/v1alpha1/topologies"

    def plan(api: FaultyApi) -> None:
        for path in (kueue, kai):
            items = [{"metadata": {"name": "t", "uid": path}}]
            api.plan("GET", path, reply({"metadata": {"resourceVersion": "4"}, "items": items}))
            api.plan("WATCH", path, stream_events(then="silence"))

    reported, informers, api = follow(plan, lambda api, informers: api.report, [Topology])
    assert informers.of(Topology)["t"].api_version == "kueue.x-k8s.io/v1alpha1"
    assert reported == [("ADDED", "t")]
    assert len(api.report) == 1
    assert "is ignored" in api.report[0]


def test_a_part_of_a_kind_is_followed_by_the_same_selection_in_list_and_watch() -> None:
    path = "/api/v1/namespaces/ns/pods"

    def plan(api: FaultyApi) -> None:
        api.plan("GET", path, reply(listed([stored_pod("a", 1)], 5)))
        api.plan("WATCH", path, stream_events(then="silence"))

    wanted = Wanted(Pod, namespace="ns", fields="metadata.name=a")
    _, _, api = follow(plan, lambda api, informers: api.watches(path), [wanted])
    assert [one.query["fieldSelector"] for one in api.asked] == ["metadata.name=a"] * 2


def test_a_reader_that_comes_later_begins_with_what_is_there() -> None:
    async def story(api: FaultyApi) -> tuple[Reported, Reported, Reported]:
        api.plan("GET", PATH, reply(listed([stored_pod("b", 2), stored_pod("a", 1)], 5)))
        api.plan("WATCH", PATH, stream_events(then="silence"))
        async with api.client() as client, Informers(client, [Pod, Wanted(Queue)], api.report.append) as informers:
            await informers.synced(5)
            late, bare, other = informers.stream(), informers.stream(replay=False), informers.stream([Queue])
            late_deltas, bare_deltas, other_deltas = late.take(), bare.take(), other.take()
            assert not await bare.wait(0.05)
        return tuple([(d.change.value, d.key) for d in ds] for ds in (late_deltas, bare_deltas, other_deltas))  # type: ignore[return-value]

    assert run(story) == ([("ADDED", "ns/a"), ("ADDED", "ns/b")], [], [])


def _as_pod(value: Plain) -> Object:
    import json

    found = decode_object(resource_of(Pod), json.dumps(value).encode(), lambda text: None)
    assert found is not None
    return found


def test_our_own_write_is_seen_at_once_and_reported_once() -> None:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", PATH, reply(listed([stored_pod("a", 1)], 5)))
        news = stream_events(event("MODIFIED", stored_pod("a", 6)), event("ADDED", stored_pod("b", 7)), then="silence")
        api.plan("WATCH", PATH, _after(0.3, news))

    def end(api: FaultyApi, informers: Informers) -> bool:
        if table(informers)["ns/a"] == "1":
            informers.observe(_as_pod(stored_pod("a", 6)))
            assert table(informers)["ns/a"] == "6"
        return "ns/b" in informers.of(Pod)

    reported, _, _ = follow(plan, end)
    assert reported == [("ADDED", "ns/a"), ("MODIFIED", "ns/a"), ("ADDED", "ns/b")]


def test_a_write_that_comes_back_after_its_objects_deletion_raises_no_ghost() -> None:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", PATH, reply(listed([stored_pod("a", 1)], 5)))
        api.plan("WATCH", PATH, stream_events(event("DELETED", stored_pod("a", 8)), then="silence"))

    def end(api: FaultyApi, informers: Informers) -> bool:
        if informers.of(Pod):
            return False
        informers.observe(_as_pod(stored_pod("a", 7)))
        return True

    reported, informers, _ = follow(plan, end)
    assert reported == [("ADDED", "ns/a"), ("DELETED", "ns/a")]
    assert not informers.of(Pod)


def _after(seconds: float, answer: Any) -> Any:
    async def later(request: Any) -> Awaitable[Any]:
        await asyncio.sleep(seconds)
        made: Awaitable[Any] = await answer(request)
        return made

    return later


def test_secrets_are_no_kind_we_could_read() -> None:
    plurals = {resource.plural for sources in SOURCES.values() for versions in sources for resource in versions}
    assert "secrets" not in plurals
    assert "pods" in plurals
