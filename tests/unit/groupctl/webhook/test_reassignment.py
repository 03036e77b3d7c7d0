"""Pods that find no place in the group they were made for."""

from __future__ import annotations

import asyncio
from typing import cast

from builders.node_groups import bound, deployment, nginx_pod, owner
from muster.groupctl.owners import OwnerResolver
from muster.groupctl.webhook.group_slots import GroupSlots
from muster.groupctl.webhook.metrics import Metrics
from muster.groupctl.webhook.reassignment import Reassigner
from muster.groups.assignment import ADMITTED, ASSIGNED
from muster.kube.informer import Delta
from muster.kube.writes import Writes
from muster.model.core import Pod
from muster.model.meta import Condition, Object, key
from muster.process.logs import Log
from muster.store import Change, NotFound
from muster.store.errors import Unreachable

MINUTE = 60.0


class World:
    """A cluster whose API server takes down who is evicted."""

    def __init__(self, *tops: str) -> None:
        tables: dict[str, dict[str, Object]] = {}
        for top in tops or ("nginx",):
            for obj in deployment(bound(), name=top):
                tables.setdefault(type(obj).__name__, {})[key(obj)] = obj
        self.clock = 0.0
        self.down = False
        self.evicted: list[tuple[float, str, str]] = []
        self.slots = GroupSlots(lambda: self.clock)
        owners = OwnerResolver(tables, self.get)
        self.part = Reassigner(cast(Writes, self), owners, self.slots, Log(-1), Metrics(), now=lambda: self.clock)

    async def get(self, kind: type[Object], name: str) -> Object:
        raise NotFound.of(kind.__name__, name)

    async def evict(self, name: str, *, uid: str, grace: int, version: str) -> None:
        assert grace == 0 and version == "7"
        if self.down:
            raise Unreachable("POST", "no connection")
        self.evicted.append((self.clock, name, uid))

    def show(self, one: Pod, *, gone: bool = False) -> None:
        change = Change.DELETED if gone else Change.MODIFIED
        self.part.observe(Delta(change, "Pod", key(one), one if gone else None, None if gone else one))

    def wait(self, until: float, step: float = 30.0) -> None:
        while self.clock < until:
            self.clock = min(self.clock + step, until)
            asyncio.run(self.part.evict_due())


def stuck(name: str = "p", of: str = "nginx", reason: str = "Unschedulable") -> Pod:
    meta = {
        "resourceVersion": "7",
        "uid": f"u-{name}",
        "annotations": {ADMITTED: "r1"},
        "labels": {ASSIGNED: "beijing"},
    }
    one = nginx_pod(name, of=owner("ReplicaSet", f"{of}-1"), **meta)
    assert isinstance(one, Pod)
    one.status.conditions = [Condition(type="PodScheduled", status="False", reason=reason)]
    return one


def test_a_pod_without_a_place_is_evicted_after_five_minutes_as_it_was_seen() -> None:
    world = World()
    world.show(stuck())
    world.wait(4.9 * MINUTE)
    assert world.evicted == []
    world.wait(5.5 * MINUTE)
    assert [(name, uid) for _, name, uid in world.evicted] == [("default/p", "u-p")]


def test_what_is_shown_again_has_waited_since_it_was_first_seen() -> None:
    world = World()
    world.show(stuck())
    world.wait(3 * MINUTE)
    world.show(stuck())
    world.wait(5.5 * MINUTE)
    assert len(world.evicted) == 1


def test_in_vain_it_is_tried_ever_more_seldom_up_to_an_hour() -> None:
    world = World()
    count = 0
    world.show(stuck("q0"))
    while world.clock < 5 * 60 * MINUTE:
        world.wait(world.clock + 30)
        if len(world.evicted) > count:
            count = len(world.evicted)
            world.show(stuck(f"q{count}"))
    gaps = [b[0] - a[0] for a, b in zip(world.evicted, world.evicted[1:], strict=False)]
    assert [round(gap / MINUTE) for gap in gaps[:6]] == [10, 15, 25, 45, 65, 65]


def test_an_eviction_that_could_not_be_asked_for_is_tried_again_at_once() -> None:
    world = World()
    world.show(stuck())
    world.down = True
    world.wait(6 * MINUTE)
    assert world.evicted == []
    world.down = False
    world.wait(7 * MINUTE)
    assert len(world.evicted) == 1


def test_a_changed_policy_or_group_forgives() -> None:
    world = World()
    world.show(stuck("a"))
    world.wait(5.5 * MINUTE)
    world.show(stuck("b"))
    world.wait(9 * MINUTE)
    world.part.reset_pauses()
    world.wait(11 * MINUTE)
    assert [name for _, name, _ in world.evicted] == ["default/a", "default/b"]


def test_all_pods_of_an_application_go_together_and_others_do_not_wait_for_it() -> None:
    world = World("nginx", "shop")
    for name, of in (("a", "nginx"), ("b", "nginx"), ("c", "shop")):
        world.show(stuck(name, of))
    world.wait(5.5 * MINUTE)
    assert [name for _, name, _ in world.evicted] == ["default/a", "default/b", "default/c"]


def test_the_next_pod_is_rather_made_for_another_group() -> None:
    world = World()
    world.show(stuck())
    world.wait(5.5 * MINUTE)
    assert list(world.slots._avoided) == [(("ReplicaSet", "default/nginx-1"), "beijing")]


def test_pods_that_only_wait_or_that_nobody_would_make_again_are_left_alone() -> None:
    world = World()
    others = [stuck(f"p{i}") for i in range(7)]
    others[0].status.conditions = []
    others[1].metadata.annotations = {}
    others[2].spec.node_name = "node-a"
    others[3].status.nominated_node_name = "node-a"
    others[4].metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    others[5].metadata.owner_references = []
    others[6].metadata.owner_references[0].kind = "Job"
    others[6].metadata.owner_references[0].api_version = "batch/v1"
    for one in others:
        world.show(one)
    world.show(stuck("gated", reason="SchedulingGated"))
    assert world.part.waiting == {}


def test_one_that_got_its_node_in_time_is_forgotten() -> None:
    world = World()
    world.show(stuck())
    placed = stuck()
    placed.spec.node_name = "node-a"
    world.show(placed)
    world.wait(6 * MINUTE)
    assert world.evicted == []
