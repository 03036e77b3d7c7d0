"""Whose a pod is, on a cluster that is only partly seen yet."""

from __future__ import annotations

import asyncio

from builders.node_groups import bound, deployment, nginx_pod, thing
from muster.groupctl.owners import OwnerResolver
from muster.groups.custom_applications import CustomApplicationConfig
from muster.model.kinds import decode_as
from muster.model.meta import Object, key
from muster.store import NotFound

ROLLOUT = CustomApplicationConfig(group="apps.example.io", version="v1", kind="Rollout").type("rollouts")


class World:
    """What is in the tables, what is in the cluster, and what was asked for."""

    def __init__(self, *seen: Object, there: tuple[Object, ...] = (), custom: bool = False) -> None:
        self.tables: dict[str, dict[str, Object]] = {}
        for obj in seen:
            self.tables.setdefault(type(obj).__name__, {})[key(obj)] = obj
        self.there = {(type(obj).__name__, key(obj)): obj for obj in there}
        self.asked: list[str] = []
        self.clock = 0.0
        self.kinds = (ROLLOUT,) if custom else ()
        self.owners = OwnerResolver(self.tables, self.get, lambda: self.kinds, lambda: self.clock)

    async def get(self, kind: type[Object], name: str) -> Object:
        self.asked.append(f"{kind.__name__} {name}")
        if (kind.__name__, name) not in self.there:
            raise NotFound.of(kind.__name__, name)
        return self.there[kind.__name__, name]

    def application(self, of: str, kind: str = "ReplicaSet", version: str = "apps/v1", uid: str = "") -> str:
        one = nginx_pod("p")
        one.metadata.owner_references[0].kind = kind
        one.metadata.owner_references[0].name = of
        one.metadata.owner_references[0].api_version = version
        one.metadata.owner_references[0].uid = uid
        return str(asyncio.run(self.owners.application_of(one)))


def rollout(uid: str = "u-1") -> Object:
    meta = {"name": "shop", "namespace": "default", "uid": uid, "labels": bound()}
    return decode_as(ROLLOUT, {"metadata": meta, "spec": {"replicas": 3}})


def below(uid: str = "u-1") -> Object:
    by = {"apiVersion": "apps.example.io/v1", "kind": "Rollout", "name": "shop", "uid": uid, "controller": True}
    meta = {"uid": "u-rs", "ownerReferences": [by]}
    return thing("apps/v1", "ReplicaSet", "shop-1", meta, spec={"replicas": 3})


def test_a_configured_kind_is_the_application_and_its_group_counts() -> None:
    world = World(rollout(), below(), custom=True)
    assert world.application("shop-1") == "Rollout.apps.example.io default/shop"
    assert world.application("shop", "Rollout", "apps.example.io/v1", "u-1") == "Rollout.apps.example.io default/shop"
    assert world.application("shop", "Rollout", "other.example.io/v1", "u-1") == "Pod default/p"


def test_a_kind_that_nobody_configured_ends_the_chain_below_it() -> None:
    world = World(rollout(), below())
    assert world.application("shop-1") == "ReplicaSet default/shop-1"
    world.kinds = (ROLLOUT,)
    assert world.application("shop-1") == "Rollout.apps.example.io default/shop"
    assert world.asked == []


def test_an_object_of_a_configured_kind_that_was_not_seen_yet_is_asked_for() -> None:
    world = World(below(), there=(rollout(),), custom=True)
    assert world.application("shop-1") == "Rollout.apps.example.io default/shop"
    assert world.asked == ["Rollout.apps.example.io default/shop"]


def test_an_owner_of_the_same_name_is_another_one_at_every_level() -> None:
    """The table still has the one that was deleted; the one that was made in its place is asked for."""
    world = World(rollout("u-0"), below("u-1"), there=(rollout("u-1"),), custom=True)
    assert world.application("shop-1") == "Rollout.apps.example.io default/shop"
    assert world.asked == ["Rollout.apps.example.io default/shop"]


def test_an_owner_that_was_deleted_ends_the_chain_and_is_not_fetched_again_at_once() -> None:
    world = World(below("u-0"), there=(rollout("u-1"),), custom=True)
    assert world.application("shop-1") == "ReplicaSet default/shop-1"
    assert world.application("shop-1") == "ReplicaSet default/shop-1"
    assert len(world.asked) == 1
    world.clock = 6
    world.application("shop-1")
    assert len(world.asked) == 2


def test_a_stateful_set_of_another_group_is_not_kubernetes_own() -> None:
    top = thing("apps/v1", "StatefulSet", "db", {"uid": "u-db", "labels": bound()}, spec={"replicas": 1})
    world = World(top, *deployment(bound()))
    assert world.application("db", "StatefulSet", "apps/v1", "u-db") == "StatefulSet default/db"
    assert world.application("db", "StatefulSet", "apps.kruise.io/v1beta1", "u-db") == "Pod default/p"
