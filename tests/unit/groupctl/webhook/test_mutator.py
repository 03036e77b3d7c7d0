"""What becomes of a pod when it is created."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.node_groups import (
    BINDING_OVERRIDE,
    REQUIRED,
    REQUIRED_OVERRIDE,
    bound,
    city_node,
    deployment,
    groups,
    nginx_pod,
    overrides,
    owner,
    ranges,
    registry,
    thing,
    weights,
)
from muster.groupctl.grouping_cache import GroupingCache
from muster.groupctl.owners import OwnerResolver
from muster.groupctl.webhook.group_slots import GroupSlots
from muster.groupctl.webhook.mutator import Mutator
from muster.groupctl.webhook.review import AdmissionRequest, AdmissionResponse
from muster.groups.assignment import ADMITTED, ASSIGNED, EDITION, UNBOUND
from muster.groups.override import json_patch
from muster.groups.override.json_patch import patch_between
from muster.kube.informer import Delta
from muster.model.meta import Object, key
from muster.store import Change, NotFound
from muster.store.errors import Unreachable

DOMAIN = "groupmanagement.kubeedge.io"
CITIES = {"hz": "hangzhou", "bj": "beijing"}
ARGS = {"containerName": "nginx", "operator": "add", "value": ["-v"]}
EDITIONS = {REQUIRED_OVERRIDE: "op", BINDING_OVERRIDE: "op"}


class World:
    """A cluster in tables, and the webhook's questions to it."""

    def __init__(self, *objects: Object, labelled: bool = True) -> None:
        self.tables: dict[str, dict[str, Object]] = {}
        self.asked: list[str] = []
        self.elsewhere: dict[str, Object] = {}
        self.down = False
        self.clock = 0.0
        self.slots = GroupSlots(lambda: self.clock)
        self.active: bool | None = True
        self.mutator = Mutator(
            OwnerResolver(self.tables, self.get), GroupingCache(self.tables), self.slots, lambda: self.active
        )
        self.count = 0
        for name, city in CITIES.items():
            made = city_node(name, city)
            if labelled:
                made.metadata.labels[f"nodegroup.{DOMAIN}/{city}"] = ""
            self.put(made)
        for obj in (*groups(), *objects):
            self.put(obj)

    def put(self, obj: Object) -> None:
        kind = type(obj).__name__
        old = self.tables.setdefault(kind, {}).get(key(obj))
        self.tables[kind][key(obj)] = obj
        if kind == "Pod":
            self.slots.observe(Delta(Change.ADDED, kind, key(obj), old, obj))

    async def get(self, kind: type[Object], name: str) -> Object:
        self.asked.append(name)
        if self.down:
            raise Unreachable("GET", "no connection")
        if name not in self.elsewhere:
            raise NotFound.of(kind.__name__, name)
        return self.elsewhere[name]

    def create(self, made: dict[str, Any] | None = None, **request: Any) -> tuple[dict[str, Any], AdmissionResponse]:
        """The pod as it is stored after the webhook's patch."""
        self.count += 1
        body = made or {"metadata": {"generateName": "p-", **owner("ReplicaSet", "nginx-1")}, "spec": containers()}
        asked = AdmissionRequest(uid=f"r{self.count}", namespace="default", operation="CREATE", object=body, **request)
        response = asyncio.run(self.mutator.review(asked))
        return patched(body, response.patch), response


def containers() -> dict[str, Any]:
    return {"containers": [{"name": "nginx", "image": "nginx:1.14", "somethingNew": {"kept": 1}}]}


def patched(value: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    result = deepcopy(value)
    for operation in operations:
        steps = json_patch.tokens(operation["path"])
        if operation["op"] == "remove":
            json_patch.remove(result, steps)
        elif operation["op"] == "add":
            json_patch.add(result, steps, operation["value"])
        else:
            json_patch.replace(result, steps, operation["value"])
    return result


def assigned(*made: tuple[dict[str, Any], AdmissionResponse]) -> list[str | None]:
    return [one["metadata"].get("labels", {}).get(ASSIGNED) for one, _ in made]


def test_pods_are_given_to_the_group_that_lacks_most_and_counted_from_then_on() -> None:
    world = World(weights(), *deployment(bound()))
    cities = assigned(*(world.create() for _ in range(6)))
    assert cities == ["hangzhou", "beijing", "hangzhou", "beijing", "hangzhou", None]


def test_a_pod_that_the_watch_shows_is_not_counted_twice() -> None:
    world = World(weights(), *deployment(bound()))
    made, _ = world.create()
    assert len(world.slots.reservations) == 1
    stored = nginx_pod("p-1", annotations=made["metadata"]["annotations"])
    stored.metadata.labels[ASSIGNED] = "hangzhou"
    world.put(stored)
    assert len(world.slots.reservations) == 0
    assert assigned(*(world.create() for _ in range(5))) == ["beijing", "hangzhou", "beijing", "hangzhou", None]


def test_a_slot_whose_pod_never_came_is_free_after_thirty_seconds() -> None:
    world = World(weights(), *deployment(bound(), replicas=1))
    assert assigned(world.create(), world.create()) == ["hangzhou", None]
    world.clock = 31
    assert assigned(world.create()) == ["hangzhou"]


def test_a_dry_run_takes_no_slot() -> None:
    world = World(weights(), *deployment(bound(), replicas=1))
    assert assigned(*(world.create(dry_run=True) for _ in range(3))) == ["hangzhou"] * 3
    assert len(world.slots.reservations) == 0


def test_a_pod_that_was_dealt_with_is_not_changed_again() -> None:
    world = World(weights(), overrides(registry("Hangzhou")), *deployment({**bound(), **EDITIONS}))
    made, _ = world.create()
    again, response = world.create(made)
    assert again == made and response.patch == []
    assert len(world.slots.reservations) == 1


def test_every_term_of_the_affinity_asks_for_the_group() -> None:
    world = World(weights(), *deployment(bound()))
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    here = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ssd, here, {}]}}
    body = {
        "metadata": {"name": "p", **owner("ReplicaSet", "nginx-1")},
        "spec": {**containers(), "affinity": {"nodeAffinity": required, "podAffinity": {}}},
    }
    made, _ = world.create(body)
    wanted = {"key": f"nodegroup.{DOMAIN}/hangzhou", "operator": "Exists"}
    affinity = made["spec"]["affinity"]
    terms = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [
        {"matchExpressions": [*ssd["matchExpressions"], wanted]},
        {**here, "matchExpressions": [wanted]},
        {},  # selects no node, and still does not
    ]
    assert affinity["podAffinity"] == {}


def test_without_membership_labels_on_nodes_the_affinity_is_left_out_and_reported() -> None:
    world = World(weights(), *deployment(bound()), labelled=False)
    made, response = world.create()
    assert assigned((made, response)) == ["hangzhou"]
    assert "affinity" not in made["spec"]
    assert "is `muster controllers` running?" in response.warnings[-1]


def test_the_edition_is_applied_and_named_and_unknown_fields_stay() -> None:
    world = World(weights(), overrides(registry("Hangzhou")), *deployment({**bound(), **EDITIONS}))
    made, _ = world.create()
    container = made["spec"]["containers"][0]
    assert container["image"] == "hangzhou.registry.io/nginx:1.14"
    assert container["somethingNew"] == {"kept": 1}
    assert made["metadata"]["annotations"][EDITION].startswith("op@0/hangzhou/")
    assert made["metadata"]["annotations"][ADMITTED] == "r1"


def test_an_edition_that_cannot_be_made_is_warned_of_and_the_pod_has_its_group() -> None:
    bad = {"plaintext": [{"path": "/spec/volumes/7", "operator": "remove"}]}
    world = World(weights(), overrides(bad), *deployment({**bound(), **EDITIONS}))
    made, response = world.create()
    assert assigned((made, response)) == ["hangzhou"]
    assert any("OverridePolicy op cannot be applied" in text for text in response.warnings)


def test_a_policy_may_not_be_a_way_up() -> None:
    up = {"plaintext": [{"path": "/spec/hostNetwork", "operator": "add", "value": True}]}
    world = World(weights(), overrides(up), *deployment({**bound(), **EDITIONS}))
    made, response = world.create()
    assert "hostNetwork" not in made["spec"]
    assert any("the pod: Host Namespaces: hostNetwork" in text for text in response.warnings)


@pytest.mark.parametrize("labels", [{REQUIRED: "pp"}, {**bound(), REQUIRED_OVERRIDE: "op"}])
def test_a_pod_of_an_unbound_application_waits_behind_a_gate(labels: dict[str, str]) -> None:
    world = World(weights(), *deployment(labels))
    made, _ = world.create()
    assert made["spec"]["schedulingGates"] == [{"name": UNBOUND}]
    again, response = world.create(made)
    assert again == made and response.patch == []


@pytest.mark.parametrize(
    ("rules", "refused"),
    [([registry("Hangzhou")], False), ([{"argsOverrider": [ARGS]}], True), (None, True)],
)
def test_a_jobs_pod_is_not_made_before_its_time_if_it_might_have_to_be_made_anew(
    rules: list[dict[str, Any]] | None, refused: bool
) -> None:
    """Its controller tries again; a pod that is deleted it would count as failed."""
    job = thing("batch/v1", "Job", "train", {"labels": {REQUIRED_OVERRIDE: "op"}}, spec={"parallelism": 2})
    world = World(job, *([] if rules is None else [overrides(*rules)]))
    pod = {"metadata": {"name": "t", **owner("Job", "train", "batch/v1")}, "spec": containers()}
    made, response = world.create(pod)
    assert bool(response.refusal) == refused
    assert ("schedulingGates" in made["spec"]) != refused


def test_a_replica_that_is_not_active_gates_pods_that_need_a_place_and_nothing_else() -> None:
    top, below = deployment(EDITIONS, name="free")
    world = World(weights(), overrides(registry("Hangzhou")), *deployment(bound()), top, below)
    world.active = False
    made, response = world.create()
    assert made["spec"]["schedulingGates"] == [{"name": UNBOUND}] and ASSIGNED not in made["metadata"].get("labels", {})
    assert "is not the active one" in response.warnings[0]
    assert len(world.slots.reservations) == 0
    at_once = {"metadata": {"name": "f", **owner("ReplicaSet", "free-1")}, "spec": {**containers(), "nodeName": "hz"}}
    assert world.create(at_once)[0]["spec"]["containers"][0]["image"] == "hangzhou.registry.io/nginx:1.14"
    world.active = True
    freed = asyncio.run(world.mutator.made(made, "default", "r9", AdmissionResponse(), reserve=True))
    assert freed["spec"]["schedulingGates"] == [] and freed["metadata"]["labels"][ASSIGNED] == "hangzhou"


def test_where_nobody_would_let_it_go_a_replica_that_is_not_active_leaves_the_pod_as_it_is() -> None:
    world = World(weights(), *deployment(bound()))
    world.active = None
    _, response = world.create()
    assert response.patch == [] and "is not the active one" in response.warnings[0]


def test_a_group_in_which_a_pod_found_no_place_comes_last_for_a_while() -> None:
    world = World(ranges(Beijing=(0, 3), Hangzhou=(0, 9)), *deployment(bound()))
    unit = ("ReplicaSet", "default/nginx-1")
    world.slots.avoid(unit, "hangzhou", 60)
    assert assigned(*(world.create() for _ in range(4))) == ["beijing", "beijing", "beijing", "hangzhou"]
    other = World(ranges(Beijing=(0, 3), Hangzhou=(0, 9)), *deployment(bound()))
    other.slots.avoid(unit, "beijing", 60)
    other.clock = 61
    assert set(assigned(*(other.create() for _ in range(4)))) == {"beijing", "hangzhou"}


def test_pods_without_policies_are_left_alone() -> None:
    world = World(*deployment({}))
    _, response = world.create()
    assert response.patch == [] and response.warnings == []


def test_a_daemonsets_pod_gets_the_edition_of_the_node_it_is_for() -> None:
    template = {"spec": {"containers": [{"name": "nginx", "image": "nginx:1.14"}]}}
    daemons = thing("apps/v1", "DaemonSet", "agent", {"labels": {**bound(), **EDITIONS}}, spec={"template": template})
    world = World(weights(), overrides(registry("Beijing")), daemons)
    field = {"key": "metadata.name", "operator": "In", "values": ["bj"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [field]}]}}
    body = {
        "metadata": {"generateName": "agent-", **owner("DaemonSet", "agent")},
        "spec": {**containers(), "affinity": {"nodeAffinity": required}},
    }
    made, _ = world.create(body)
    assert made["spec"]["containers"][0]["image"] == "beijing.registry.io/nginx:1.14"


@pytest.mark.parametrize(("location", "args"), [("beijing", ["-v"]), ("", None), ("hangzhou", None), ("x", None)])
def test_without_a_propagation_policy_the_pods_own_selector_may_say_the_group(
    location: str, args: list[str] | None
) -> None:
    selector = {"location": location} if location else {}
    rule = {"targetNodeGroup": ["Beijing"], "argsOverrider": [ARGS]}
    world = World(overrides(rule), *deployment(EDITIONS))
    meta = {"generateName": "p-", **owner("ReplicaSet", "nginx-1")}
    made, _ = world.create({"metadata": meta, "spec": {**containers(), "nodeSelector": selector}})
    assert made["spec"]["containers"][0].get("args") == args
    assert assigned((made, AdmissionResponse())) == [None] and "affinity" not in made["spec"]


def test_an_owner_that_is_not_in_the_tables_yet_is_asked_for() -> None:
    top, below = deployment(bound())
    world = World(weights(), top)
    world.elsewhere["default/nginx-1"] = below
    assert assigned(world.create()) == ["hangzhou"]
    assert world.asked == ["default/nginx-1"]


def test_if_the_api_server_does_not_answer_the_pod_is_left_as_it_is() -> None:
    world = World(weights())
    world.down = True
    _, response = world.create()
    assert response.patch == [] and "left as it is" in response.warnings[0]


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab/~", max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~", max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text("ab/~"), _PLAIN, max_size=4), st.dictionaries(st.text("ab/~"), _PLAIN, max_size=4))
def test_a_patch_makes_one_value_into_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert patched(before, patch_between(before, after)) == after
