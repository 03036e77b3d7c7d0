"""Watches as a client sees them for which held pods do not exist."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from muster.groupctl.edge_gate.change_log import ChangeLog, LogEntry
from muster.groupctl.edge_gate.watch_filter import WatchFilter
from muster.model.core import Pod


class World:
    """Pods with their versions, and which of them are held."""

    def __init__(self, *, since: str = "10", bookmarks: bool = True, table: bool = False) -> None:
        self.held: set[str] = set()
        self.pods: dict[str, int] = {}
        self.changes = ChangeLog()
        self.table = table
        self.filter = WatchFilter(self.keep, self.changes, self.fetch, since=since, bookmarks=bookmarks)

    async def keep(self, pod: Pod, text: bytes | None) -> bool:
        return pod.metadata.name not in self.held

    async def fetch(self, key: str) -> bytes | None:
        name = key.partition("/")[2]
        return encode(self.object(name, columns=True)) if name in self.pods else None

    def object(self, name: str, *, columns: bool = False) -> dict[str, Any]:
        meta = {"name": name, "namespace": "d", "resourceVersion": str(self.pods[name])}
        if not self.table:
            return {"kind": "Pod", "apiVersion": "v1", "metadata": meta}
        titles = [{"name": "Name"}] if columns else None
        held = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
        return {
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": meta["resourceVersion"]},
            "columnDefinitions": titles, "rows": [{"cells": [name], "object": held}],
        }  # fmt: skip

    def event(self, kind: str, name: str, version: int, *, columns: bool = False) -> tuple[str, str] | None:
        self.pods[name] = version
        line = encode({"type": kind, "object": self.object(name, columns=columns)})
        self.filter.remember_columns(line)
        return reported(asyncio.run(self.filter.event(line)))

    def look(self, name: str, epoch: int = 1) -> tuple[str, str] | None:
        return reported(asyncio.run(self.filter.reevaluate(LogEntry(f"d/{name}", epoch=epoch))))


def encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def reported(line: bytes) -> tuple[str, str] | None:
    if not line:
        return None
    event = json.loads(line)
    obj = event["object"]
    return event["type"], (obj["rows"][0]["object"] if "rows" in obj else obj)["metadata"]["name"]


def test_events_of_pods_that_are_sent_pass_byte_for_byte() -> None:
    world = World()
    world.pods["a"] = 11
    line = b'{"type":"MODIFIED","object":' + encode({**world.object("a"), "x": "ü \\u0041"}) + b"}"
    assert asyncio.run(world.filter.event(line)) == line + b"\n"


def test_a_new_pod_that_is_held_is_not_there_until_it_is_released() -> None:
    world = World()
    world.held.add("a")
    assert world.event("ADDED", "a", 11) is None
    assert world.event("MODIFIED", "a", 12) is None
    world.held.clear()
    assert world.look("a") == ("ADDED", "a")
    assert world.event("MODIFIED", "a", 13) == ("MODIFIED", "a")


def test_an_event_of_a_pod_that_was_released_comes_as_its_first() -> None:
    world = World()
    world.held.add("a")
    world.event("ADDED", "a", 11)
    world.held.clear()
    assert world.event("MODIFIED", "a", 12) == ("ADDED", "a")
    assert world.look("a") is None  # it is there already


def test_a_pod_that_is_held_again_goes_and_its_end_is_not_sent_twice() -> None:
    world = World()
    world.event("ADDED", "a", 11)
    world.held.add("a")
    assert world.look("a") == ("DELETED", "a")
    assert world.look("a") is None
    assert world.event("DELETED", "a", 12) is None


def test_a_pod_that_is_deleted_before_its_hold_is_reported_is_deleted() -> None:
    world = World()
    world.event("ADDED", "a", 11)
    world.held.add("a")
    del world.pods["a"]
    assert world.look("a") is None
    assert world.event("DELETED", "a", 12) == ("DELETED", "a")


def test_a_pod_newer_than_the_watch_is_left_to_its_own_event() -> None:
    """Or the client would believe that it has heard everything up to that version."""
    world = World()
    world.held.add("a")
    world.event("ADDED", "a", 11)
    world.held.clear()
    world.pods["a"] = 15
    assert world.look("a") is None
    assert world.event("MODIFIED", "a", 15) == ("ADDED", "a")


def test_a_client_that_reconnects_gets_every_pod_it_may_have() -> None:
    world = World(since="20")
    world.filter.evaluated_epoch = 3
    world.pods |= {"a": 11, "b": 12}
    world.held.add("b")
    world.filter.held_back.add("d/b")
    assert world.look("a", epoch=3) == ("ADDED", "a")
    assert world.look("b", epoch=2) == ("DELETED", "b")
    assert world.look("a", epoch=4) is None


def test_two_changes_before_the_watch_delete_a_held_pod_once() -> None:
    world = World()
    world.pods["a"] = 5
    world.held.add("a")
    world.filter.evaluated_epoch = 3
    assert world.look("a", epoch=2) == ("DELETED", "a")
    assert world.look("a", epoch=3) is None
    world.held.discard("a")
    assert world.look("a", epoch=4) == ("ADDED", "a")


def test_a_bookmark_says_how_far_the_api_servers_own_events_went() -> None:
    world = World(since="10")
    world.event("ADDED", "a", 30)
    mark = json.loads(world.filter.bookmark())
    assert (mark["type"], mark["object"]["kind"]) == ("BOOKMARK", "Pod")
    assert mark["object"]["metadata"]["resourceVersion"] == "30"
    assert World(bookmarks=False).filter.bookmark() == b""
    assert World(since="").filter.bookmark() == b""


def test_bookmarks_and_errors_pass_as_they_are() -> None:
    world = World()
    for line in (
        b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"99"}}}',
        b'{"type":"ERROR","object":{"kind":"Status","code":410}}',
    ):
        assert asyncio.run(world.filter.event(line)) == line + b"\n"
    assert world.changes.latest_sent == 99


def test_the_columns_of_a_table_move_to_the_first_event_that_passes() -> None:
    world = World(table=True)
    world.held.add("a")
    world.pods |= {"a": 11, "b": 12, "c": 13}
    lines = [encode({"type": "ADDED", "object": world.object(name, columns=name == "a")}) for name in "abc"]
    message = []
    for line in lines:
        world.filter.remember_columns(line)
        message.append(asyncio.run(world.filter.event(line)))
    assert message[0] == b""
    assert [json.loads(line)["object"]["columnDefinitions"] for line in message[1:]] == [[{"name": "Name"}], None]
    world.held.clear()
    late = json.loads(asyncio.run(world.filter.reevaluate(LogEntry("d/a", epoch=1))))
    assert late["type"] == "ADDED" and late["object"]["columnDefinitions"] is None


def test_the_log_returns_what_changed_at_or_after_a_version_or_that_it_does_not_reach_back() -> None:
    changes = ChangeLog(max_entries=2)
    changes.start_at(10)
    assert changes.since("9") is None
    changes.record_sent("20")
    changes.add([LogEntry("d/a")], "15")  # no answer up to 20 knew of it
    changes.add([LogEntry("d/b")], "25")
    assert changes.since("20") == [LogEntry("d/a"), LogEntry("d/b")]
    assert changes.since("21") == [LogEntry("d/b")]
    changes.add([LogEntry("d/c")], "30")
    assert changes.since("20") is None
    assert changes.since("21") == [LogEntry("d/b"), LogEntry("d/c")]


def test_a_pod_that_a_client_may_have_is_deleted_for_it_though_its_release_was_not_reported_yet() -> None:
    for then in ("DELETED", "MODIFIED"):
        world = World(since="20")
        world.filter.evaluated_epoch = 3
        world.pods["a"] = 25
        assert world.look("a", epoch=3) is None  # its own event is on its way
        world.held.add("a")
        assert world.event(then, "a", 26) == ("DELETED", "a")


def test_a_pod_that_went_before_its_hold_was_reported_is_deleted_for_a_client_that_comes_back() -> None:
    world = World(since="20")
    world.filter.evaluated_epoch = 3
    world.held.add("a")
    world.filter.held_back.add("d/a")
    assert world.look("a", epoch=3) is None
    assert world.event("DELETED", "a", 26) == ("DELETED", "a")


def test_a_pod_that_its_own_change_held_between_the_list_and_the_watch_is_deleted() -> None:
    """It had no node in the client's list; its node, whose group wants another edition, came before the watch."""
    world = World(since="20")
    world.held.add("a")
    world.filter.held_back, world.filter.changed = {"d/a"}, {"d/a"}
    assert world.event("MODIFIED", "a", 21) == ("DELETED", "a")
    assert world.event("MODIFIED", "a", 22) is None
    assert world.event("DELETED", "a", 23) is None


def test_a_pod_that_was_created_and_held_between_the_list_and_the_watch_stays_unknown() -> None:
    world = World(since="20")
    world.changes.record_sent("30")
    world.filter.known_version = 30
    world.held.add("a")
    world.filter.held_back, world.filter.changed = {"d/a"}, {"d/a"}
    assert world.event("ADDED", "a", 21) is None
    assert world.event("MODIFIED", "a", 22) is None
