"""What the extender answers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from builders.node_groups import (
    CITIES,
    REQUIRED,
    REQUIRED_OVERRIDE,
    TEMPLATE,
    bound,
    city_node,
    deployment,
    groups,
    nginx_pod,
    node_group,
    nodes,
    owner,
    pods,
    ranges,
    store_of,
    thing,
    weights,
)
from muster.cluster.memory import MemoryStore
from muster.groupctl.extender import group_scheduling
from muster.groupctl.extender.group_scheduling import GroupScheduling
from muster.model.core import Node, Pod
from muster.model.extender import FilterResult, read_args, read_preemption
from muster.model.meta import Object

NODES = list(CITIES)
HANGZHOU, BEIJING = NODES[:2], NODES[2:]


class Scheduler:
    """kube-scheduler's side of the conversation; the clock moves only when it is set."""

    def __init__(self, store: MemoryStore, **options: Any) -> None:
        self.now = 0.0
        self.store = store
        self.extender = GroupScheduling(store, now=self.tick, **options)

    def tick(self) -> float:
        self.now += 0.2
        return self.now

    def filter(self, name: str = "new", among: list[str] = NODES, of: dict[str, Any] | None = None) -> FilterResult:
        return self.extender.filter(read_args(args(name, among, of), self.extender.known_names))

    def passes(self, name: str = "new", among: list[str] = NODES, of: dict[str, Any] | None = None) -> list[str]:
        result = self.filter(name, among, of)
        assert result.node_names is not None and not result.error
        assert sorted([*result.node_names, *result.failed_and_unresolvable_nodes]) == sorted(among)
        return result.node_names

    def scores(self, name: str = "new", among: list[str] = NODES) -> dict[str, int]:
        asked = read_args(args(name, among, None), self.extender.known_names)
        return {entry.host: entry.score for entry in self.extender.prioritize(asked)}

    def why(self, node: str, name: str = "new") -> str:
        text = msgspec.json.decode(self.filter(name).failed_and_unresolvable_nodes[node])
        assert isinstance(text, str)
        return text


def args(name: str, among: list[str], of: dict[str, Any] | None) -> bytes:
    owned = owner("ReplicaSet", "nginx-1") if of is None else of
    meta = {"name": name, "namespace": "default", "uid": f"uid-pod-{name}", "creationTimestamp": None, **owned}
    return json.dumps({"Pod": {"metadata": meta, "spec": {}, "status": {}}, "Nodes": None, "NodeNames": among}).encode()


def cluster(*more: Object, labels: dict[str, str] | None = None, policy: Object | None = None) -> Scheduler:
    app = deployment(bound() if labels is None else labels)
    return Scheduler(store_of(*nodes(), *groups(), policy or weights(), *app, *more))


def test_groups_that_have_their_number_take_no_more_and_the_one_that_lacks_most_is_worth_most() -> None:
    scheduler = cluster(*pods({"node-c": 1, "node-a": 1}))
    assert scheduler.passes() == NODES
    assert scheduler.scores() == {**dict.fromkeys(HANGZHOU, 10), **dict.fromkeys(BEIJING, 5)}
    scheduler = cluster(*pods({"node-c": 1, "node-d": 1}))
    assert scheduler.passes() == HANGZHOU
    assert scheduler.why("node-e") == "node group beijing already has 2 of 2 replicas"


def test_an_application_without_labels_goes_where_it_likes() -> None:
    scheduler = cluster(labels={})
    assert scheduler.passes(among=[*NODES, "unheard-of"]) == [*NODES, "unheard-of"]
    assert set(scheduler.scores().values()) == {0}
    assert len(scheduler.extender.reservations) == 0


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({REQUIRED: "pp"}, "Deployment default/nginx: PropagationPolicy pp is required and not bound yet"),
        (bound("gone"), "PropagationPolicy gone not found"),
    ],
)
def test_an_application_that_waits_for_its_policy_goes_nowhere(labels: dict[str, str], reason: str) -> None:
    scheduler = cluster(labels=labels)
    assert scheduler.passes() == []
    assert scheduler.why("node-a") == reason


def test_a_policy_that_cannot_be_used_refuses_its_own_applications_only() -> None:
    bad = weights("pp", Beijing=-1)
    scheduler = cluster(policy=bad)
    assert "weight: -1 is negative" in scheduler.why("node-a")
    assert scheduler.passes("alone", of={}) == NODES


def test_reservations_count_until_the_pod_is_bound_gone_or_forgotten() -> None:
    scheduler = cluster(*pods({"node-c": 1, "node-d": 1, "node-a": 2}))
    assert scheduler.passes("first") == HANGZHOU
    assert scheduler.passes("second") == []
    assert scheduler.why("node-a", "second") == "node group hangzhou already has 3 of 3 replicas"
    assert scheduler.passes("first") == HANGZHOU  # never blocked by itself
    scheduler.now += 30
    assert scheduler.passes("second") == HANGZHOU
    scheduler.store.create(nginx_pod("second", "node-b"))
    assert scheduler.passes("first") == []
    assert len(scheduler.extender.reservations) == 0


def test_a_pod_on_its_way_to_one_of_several_groups_keeps_their_last_places_open() -> None:
    scheduler = cluster(*pods({"node-c": 1, "node-a": 2}))
    assert scheduler.passes("first") == NODES
    assert scheduler.passes("second") == []
    assert "may be full" in scheduler.why("node-a", "second")
    assert scheduler.extender.waits > 0
    scheduler.store.create(nginx_pod("first", "node-e"))
    assert scheduler.passes("second") == HANGZHOU


def test_the_rest_is_kept_for_a_group_below_its_min_also_while_another_pod_is_on_its_way() -> None:
    policy = ranges(hangzhou=(3, 3), beijing=(0, None), wuhan=(0, None))
    wuhan = city_node("node-w", "wuhan"), node_group("wuhan", location="wuhan")
    scheduler = cluster(*wuhan, *pods({"node-a": 1, "node-c": 1}), policy=policy)
    assert scheduler.passes("first", among=["node-c", "node-w"]) == ["node-c", "node-w"]
    # Wherever the first one goes, hangzhou needs both replicas that are left.
    assert scheduler.passes("second", among=["node-a", "node-c", "node-w"]) == ["node-a"]


def test_a_burst_never_overshoots_whatever_the_scheduler_chooses() -> None:
    scheduler = cluster()
    waiting = [f"p{i}" for i in range(5)]
    while waiting:
        name = waiting.pop(0)
        passed = scheduler.passes(name)
        if passed:
            scheduler.store.create(nginx_pod(name, passed[-1]))
        else:
            waiting.append(name)
    on = [placed.spec.node_name for placed in scheduler.store.of(Pod).values()]
    assert sorted(CITIES[name] for name in on) == ["beijing"] * 2 + ["hangzhou"] * 3


def test_a_wait_ends_when_the_binding_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = cluster(*pods({"node-c": 1, "node-a": 2}))
    scheduler.passes("first")
    waited = scheduler.extender._changed.wait

    def bind(timeout: float | None = None) -> bool:
        if "default/first" not in scheduler.store.of(Pod):
            scheduler.store.create(nginx_pod("first", "node-a"))
        return waited(0)

    monkeypatch.setattr(scheduler.extender._changed, "wait", bind)
    assert scheduler.passes("second") == BEIJING


def test_a_daemon_set_is_only_asked_for_membership() -> None:
    daemon = thing("apps/v1", "DaemonSet", "agent", {"labels": bound()}, spec={"template": TEMPLATE})
    scheduler = Scheduler(store_of(*nodes(), *groups(), weights(), daemon, thing("v1", "Node", "node-x")))
    agent = owner("DaemonSet", "agent")
    for i in range(4):
        assert scheduler.passes(f"agent-{i}", among=["node-e", "node-x"], of=agent) == ["node-e"]


def test_a_range_keeps_what_others_need_for_their_min() -> None:
    scheduler = cluster(*pods({"node-a": 3}), policy=ranges(hangzhou=(0, 5), beijing=(2, 5)))
    assert scheduler.passes() == BEIJING
    assert "kept for node groups below their min" in scheduler.why("node-a")


def test_owners_in_a_circle_are_an_error_of_that_pod_alone() -> None:
    a = thing("apps/v1", "ReplicaSet", "a", owner("Deployment", "b"), spec={})
    b = thing("apps/v1", "Deployment", "b", owner("ReplicaSet", "a"), spec={})
    scheduler = cluster(a, b)
    assert "owners in a circle" in scheduler.filter(of=owner("ReplicaSet", "a")).error
    assert scheduler.passes() == NODES


def test_whole_nodes_come_back_as_they_came_and_their_labels_count() -> None:
    scheduler = cluster(city_node("known", "elsewhere"))
    items = [
        {"metadata": {"name": "stranger", "labels": {"location": "beijing"}}, "spec": {"kept": [1, None]}},
        {"metadata": {"name": "other", "labels": None}},
        {"metadata": {"name": "known", "labels": {"location": "beijing"}}},  # the cluster says where it is
    ]
    body = json.loads(args("new", [], None))
    del body["NodeNames"]
    body["Nodes"] = {"metadata": {}, "items": items}
    result = json.loads(msgspec.json.encode(scheduler.extender.filter(read_args(json.dumps(body).encode()))))
    assert result["Nodes"]["items"] == items[:1]
    assert result["NodeNames"] is None
    assert list(result["FailedAndUnresolvableNodes"]) == ["other", "known"]
    assert result["FailedNodes"] == {}


def test_nodes_that_come_change_and_go_are_answered_as_they_are_now() -> None:
    scheduler = cluster(*pods({"node-c": 1, "node-d": 1}))
    among = [*NODES, "node-f"]
    assert scheduler.passes(among=among) == HANGZHOU
    scheduler.store.create(city_node("node-f", "hangzhou"))
    assert scheduler.passes(among=among) == [*HANGZHOU, "node-f"]
    assert scheduler.extender.known_names is not None
    assert scheduler.extender.known_names.read(b'{"Pod":{},"NodeNames":["node-f"]}') is not None
    scheduler.store.patch(Node, "node-a", {"metadata": {"labels": {"location": "beijing"}}})
    scheduler.store.patch(Node, "node-b", {"metadata": {"labels": {"location": "elsewhere"}}})
    assert scheduler.passes(among=among) == ["node-f"]
    assert scheduler.why("node-a") == "node group beijing already has 2 of 2 replicas"
    assert scheduler.why("node-b") == "node is in no node group of PropagationPolicy pp"
    scheduler.store.delete(Node, "node-f")
    assert scheduler.passes(among=among) == []
    assert scheduler.passes(among=["node-f"]) == scheduler.passes(among=[]) == []


def test_old_schedulers_find_the_reasons_where_they_look() -> None:
    scheduler = Scheduler(store_of(*nodes(), *groups(), weights(), *deployment({REQUIRED: "pp"})), legacy=True)
    result = scheduler.filter()
    assert result.failed_nodes == result.failed_and_unresolvable_nodes != {}


@pytest.mark.parametrize("propagation", [{}, bound()])
def test_with_gate_override_pods_also_wait_for_their_override_policy(propagation: dict[str, str]) -> None:
    store = store_of(*nodes(), *groups(), weights(), *deployment({**propagation, REQUIRED_OVERRIDE: "op"}))
    assert Scheduler(store).passes() == NODES
    gated = Scheduler(store, gate_override=True)
    assert gated.passes() == []
    assert gated.why("node-a") == "Deployment default/nginx: OverridePolicy op is required and not bound yet"


class TestPreempt:
    def ask(self, scheduler: Scheduler, **victims: list[str]) -> dict[str, Any]:
        body = json.loads(args("new", [], None))
        nodes = {name.replace("_", "-"): {"Pods": [{"UID": v} for v in uids]} for name, uids in victims.items()}
        body |= {"NodeNameToVictims": None, "NodeNameToMetaVictims": nodes}
        answer = scheduler.extender.preempt(read_preemption(json.dumps(body).encode()))
        found: dict[str, Any] = json.loads(msgspec.json.encode(answer))["NodeNameToMetaVictims"]
        return found

    def test_only_nodes_whose_group_would_take_the_pod_remain(self) -> None:
        scheduler = cluster(*pods({"node-c": 2, "node-a": 1}))
        kept = self.ask(scheduler, node_a=["x"], node_d=["x"], node_e=["uid-pod-p-node-c-0"], node_b=[])
        # Victims of the pod's own unit free a place in their group.
        assert kept == {
            "node-a": {"Pods": [{"UID": "x"}], "NumPDBViolations": 0},
            "node-e": {"Pods": [{"UID": "uid-pod-p-node-c-0"}], "NumPDBViolations": 0},
        }

    def test_without_a_policy_all_remain_and_before_binding_none(self) -> None:
        assert list(self.ask(cluster(labels={}), node_a=["x"], node_c=["y"])) == ["node-a", "node-c"]
        assert self.ask(cluster(labels={REQUIRED: "pp"}), node_a=["x"]) == {}

    def test_whole_victims_are_read_too(self) -> None:
        body = json.loads(args("new", [], {}))
        victim = {"metadata": {"name": "v", "uid": "u"}, "spec": {}}
        body["NodeNameToVictims"] = {"node-a": {"Pods": [victim], "NumPDBViolations": 2}}
        found = read_preemption(json.dumps(body).encode()).victims["node-a"]
        assert ([v.uid for v in found.pods], found.violations) == (["u"], 2)


def test_the_longest_wait_is_well_inside_the_schedulers_patience() -> None:
    assert group_scheduling.MAX_WAIT_S < 5
