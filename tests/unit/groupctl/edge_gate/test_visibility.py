"""Which pods count as sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from builders.node_groups import (
    BINDING_OVERRIDE,
    REQUIRED_OVERRIDE,
    bound,
    deployment,
    groups,
    nodes,
    overrides,
    owner,
    registry,
    weights,
)
from muster.groupctl.edge_gate.visibility import EditionCheck, PodVisibility, SentPods, has_started
from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import OwnerResolver
from muster.groups.assignment import EDITION, edition_name
from muster.model.core import Pod
from muster.model.groups import OverridePolicy
from muster.model.kinds import decode_as, plain
from muster.model.meta import Object, key
from muster.store import NotFound


@pytest.mark.parametrize(
    ("status", "started"),
    [
        (None, False), ({}, False), ({"phase": "Pending"}, False), ({"phase": ""}, False),
        ({"phase": "Pending", "containerStatuses": []}, False),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}, False),
        ({"phase": "Running"}, True), ({"phase": "Failed"}, True), ({"phase": "UnknownCaller"}, True),
        ({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}, True),
        ({"phase": "Pending", "containerStatuses": [{"name": "c"}]}, True),
        ({"phase": "Pending", "initContainerStatuses": [{"name": "c"}]}, True),
    ],
)  # fmt: skip
def test_a_pod_that_a_kubelet_has_accepted_was_sent(status: dict[str, Any] | None, started: bool) -> None:
    pod: dict[str, Any] = {"metadata": {"uid": "u"}, "spec": {"containers": []}, "status": status}
    assert has_started(json.dumps(pod).encode(), "u") == started
    assert not has_started(json.dumps(pod).encode(), "another pod of that name")


def test_the_oldest_are_forgotten() -> None:
    sent = SentPods(limit=2)
    for uid in ("a", "b", "a", "c"):
        sent.add(uid)
    assert [uid in sent for uid in "abc"] == [True, False, True]
    assert not SentPods().is_unstarted("a", "")
    sent.record_unstarted("d", "7")
    assert sent.is_unstarted("d", "7") and not sent.is_unstarted("d", "8")
    sent.add("d")
    assert not sent.is_unstarted("d", "7")


LABELS = {**bound(), REQUIRED_OVERRIDE: "op", BINDING_OVERRIDE: "op"}
ENVIRONMENT = {"name": "CITY", "value": "{{nodegroup}}"}
CITY = {"plaintext": [{"path": "/spec/containers/0/env", "operator": "add", "value": [ENVIRONMENT]}]}
TEMPLATE = {"spec": {"containers": [{"name": "nginx", "image": "nginx:1.14", "notInTheModel": 1}]}}


class World:
    """The tables, the whole objects behind them, and how often these were read."""

    def __init__(self, *rules: dict[str, Any]) -> None:
        self.tables: dict[str, dict[str, Object]] = {}
        self.policy = overrides(*rules)
        top, below = deployment(LABELS)
        for one in (*nodes(), *groups(), weights(), self.policy, top, below):
            self.tables.setdefault(type(one).__name__, {})[key(one)] = one
        self.below = below
        self.reads = 0
        editions = EditionCheck(self.tables, GroupingCache(self.tables), self.whole)
        self.pods: dict[str, bytes] = {}
        self.visibility = PodVisibility(OwnerResolver(self.tables, self.get), editions, self.pod)

    async def whole(self, kind: type[Object], name: str) -> dict[str, Any]:
        self.reads += 1
        found = plain(self.tables[kind.__name__][name])
        found["spec"]["template"] = TEMPLATE
        return found

    async def get(self, kind: type[Object], name: str) -> Object:
        raise NotFound.of(kind.__name__, name)

    async def pod(self, name: str) -> bytes | None:
        return self.pods.get(name)

    def held(self, body: dict[str, Any], *, reported: bool = True) -> str | None:
        text = json.dumps(body).encode()
        self.pods[f"default/{body['metadata']['name']}"] = text
        return asyncio.run(self.visibility.hold_reason(decode_as(Pod, body), text if reported else None))


def made(image: str = "nginx:1.14", on: str = "node-a", **container: Any) -> dict[str, Any]:
    meta = {"name": "p", "namespace": "default", "uid": "u", **owner("ReplicaSet", "nginx-1")}
    # The API server adds fields, which are none of the rules'.
    main = {"name": "nginx", "image": image, "notInTheModel": 1, "terminationMessagePath": "/dev/log", **container}
    return {"metadata": meta, "spec": {"nodeName": on, "containers": [main], "tolerations": [{"operator": "Exists"}]}}


@pytest.mark.parametrize("reported", [True, False])
def test_a_field_that_no_model_knows_is_compared_too(reported: bool) -> None:
    world = World(CITY)
    assert world.held(made(env=[{"name": "CITY", "value": "hangzhou"}]), reported=reported) is None
    for wrong in ({}, {"env": [{"name": "CITY", "value": "beijing"}]}):
        why = world.held(made(**wrong), reported=reported)
        assert why is not None and "/containers/nginx/env" in why
        assert why.endswith("is not that of node group hangzhou by OverridePolicy op")


def test_images_are_compared_and_what_the_rules_do_not_touch_is_not() -> None:
    world = World(registry("Hangzhou"))
    assert world.held(made("hangzhou.registry.io/nginx:1.14", command=["other"])) is None
    assert (world.held(made()) or "").startswith("image of container nginx")
    assert world.held(made(on="node-c")) is None, "beijing has no rule"
    assert world.held(made(on="")) is None, "it has no node yet"


def test_a_pod_that_carries_the_editions_name_was_made_as_it() -> None:
    world = World(CITY)
    one = made()
    assert isinstance(world.policy, OverridePolicy)
    one["metadata"]["annotations"] = {EDITION: edition_name(world.policy, "hangzhou")}
    assert world.held(one) is None


def test_a_template_is_read_once_and_again_when_it_has_changed() -> None:
    world = World(registry("Hangzhou"))
    for _ in range(3):
        world.held(made())
    assert world.reads == 1
    world.below.metadata.generation += 1
    world.held(made())
    assert world.reads == 2


def test_an_application_without_an_override_policy_costs_nothing() -> None:
    world = World(registry("Hangzhou"))
    for one in world.tables["Deployment"].values():
        one.metadata.labels = bound()
    assert world.held(made(), reported=False) is None
    assert world.reads == 0
