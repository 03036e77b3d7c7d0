"""OverridePolicyController: pods that differ in more than images are made anew, where somebody makes them right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from builders import node_groups as sample
from muster.cluster.memory import MemoryStore, VirtualClock
from muster.groupctl.controllers.editions import MARK
from muster.groupctl.controllers.eviction_queue import EvictionQueue
from muster.groupctl.controllers.override import OverridePolicyController
from muster.groups.assignment import EDITION, OPT_IN, edition_name
from muster.model.batch import Deployment
from muster.model.core import Namespace, Node, Pod
from muster.model.groups import OverridePolicy, PropagationPolicy
from muster.model.meta import Object

BOTH = {sample.REQUIRED: "pp", sample.BINDING: "pp", sample.REQUIRED_OVERRIDE: "op"}
ARGS = {"argsOverrider": [{"containerName": "nginx", "operator": "add", "value": ["--city={{nodegroup}}"]}]}
DNS = {"plaintext": [{"path": "/spec/dnsConfig/searches/-", "operator": "add", "value": "{{nodegroup}}.local"}]}
OPTED = sample.thing("v1", "Namespace", "default", {"labels": {OPT_IN: "enabled"}})


class Cluster:
    """A store with the controller on it, a clock to move, and a webhook that is alive or not."""

    def __init__(self, *objects: Object, alive: bool = True, **options: Any) -> None:
        self.store: MemoryStore = sample.store_of(*sample.nodes(), *sample.groups(), sample.weights(), *objects)
        self.alive = alive
        self.evicted: list[str] = []
        self.begin_anew(**options)

    def begin_anew(self, **options: Any) -> None:
        """A new controller, which knows what the cluster says and nothing else."""
        evictions = EvictionQueue(self.store, lambda pod, policy, rule: self.evicted.append(pod.metadata.name))
        options.setdefault("settle", 0.0)
        self.controller = OverridePolicyController(self.store, evictions, webhook=lambda: self.alive, **options)

    def after(self, seconds: float = 0.0) -> list[str]:
        """What is evicted when so much time has passed."""
        clock = self.store.clock
        assert isinstance(clock, VirtualClock)
        clock.advance(clock.now() + seconds)
        before = len(self.evicted)
        while self.controller.run():
            pass
        return self.evicted[before:]

    def satisfied(self) -> tuple[str, str, str]:
        conditions = self.store.get(OverridePolicy, "default/op").status.conditions
        return next((c.status, c.reason, c.message) for c in conditions if c.type == "Satisfied")

    def replace(self, name: str, **args: Any) -> None:
        """The pod is gone, and another is made in its place."""
        if f"default/{name}" in self.store.of(Pod):
            self.store.remove(Pod, f"default/{name}")
        self.store.create(sample.nginx_pod(f"{name}-again", "node-a", **args))


def running(rule: Mapping[str, Any] = ARGS, *more: Object, labels: dict[str, str] = BOTH, **options: Any) -> Cluster:
    given = options.pop("pods", sample.pods({"node-a": 2, "node-c": 1}))
    return Cluster(
        sample.overrides(dict(rule)), *sample.deployment(labels, replicas=3), *given, *more, OPTED, **options
    )


def made(name: str, on: str, city: str) -> Object:
    found = sample.nginx_pod(name, on)
    assert isinstance(found, Pod)
    found.spec.containers[0].args = [f"--city={city}"]
    return found


def test_pods_are_evicted_one_after_the_other_while_a_webhook_is_alive() -> None:
    cluster = running()
    (first,) = cluster.after()
    assert cluster.after(1) == []
    cluster.store.remove(Pod, f"default/{first}")
    cluster.store.create(made("right", "node-a", "hangzhou"))
    assert len(cluster.after(1)) == 1
    note = next(n for n in cluster.store.events if n.reason == "Evicted")
    assert "to be replaced as OverridePolicy op wants it" in note.message


def test_without_a_webhook_nobody_is_evicted_and_the_status_says_what_is_missing() -> None:
    cluster = running(alive=False)
    assert cluster.after() == []
    status, reason, message = cluster.satisfied()
    assert (status, reason) == ("False", "WebhookRequired")
    assert "Deployment nginx: pods of beijing, hangzhou differ in /containers/nginx/args" in message
    cluster.alive = True
    assert len(cluster.after(1)) == 1


def test_a_namespace_that_has_not_opted_in_has_no_webhook() -> None:
    cluster = running()
    cluster.store.patch(Namespace, "default", {"metadata": {"labels": {OPT_IN: None}}})
    assert cluster.after() == []
    assert cluster.satisfied()[1] == "WebhookRequired"
    cluster.store.patch(Namespace, "default", {"metadata": {"labels": {OPT_IN: "enabled"}}})
    assert len(cluster.after(1)) == 1


def test_pods_that_are_what_they_should_be_stay() -> None:
    right = [made("a", "node-a", "hangzhou"), made("b", "node-c", "beijing")]
    cluster = running(pods=right)
    assert cluster.after() == []
    assert cluster.satisfied() == ("True", "AsDesired", "")
    (reported,) = cluster.store.get(OverridePolicy, "default/op").status.applications
    assert reported.editions == {"beijing": 1, "hangzhou": 1}


def test_nothing_moves_before_things_have_settled_nor_during_a_roll_out() -> None:
    cluster = running(settle=10.0)
    assert cluster.after() == cluster.after(9) == []
    assert len(cluster.after(2)) == 1
    template = {**sample.TEMPLATE, "metadata": {"labels": {"app": "other"}}}
    second = sample.thing(
        "apps/v1", "ReplicaSet", "nginx-2", sample.owner("Deployment", "nginx"), spec={"template": template}
    )
    rolling = running(ARGS, second, sample.nginx_pod("new", "node-b", of=sample.owner("ReplicaSet", "nginx-2")))
    assert rolling.after() == []


def test_guards_hold_for_these_evictions_too() -> None:
    down = [sample.city_node("far", "hangzhou", ready=False), sample.nginx_pod("there", "far")]
    kept = sample.nginx_pod("kept", "node-a", annotations={"groupmanagement.kubeedge.io/evict": "false"})
    cluster = running(ARGS, *down, pods=[kept])
    assert cluster.after() == []
    assert cluster.satisfied()[1] == "Progressing"


def test_a_replacement_that_comes_without_its_edition_stops_the_rest_for_ever_longer() -> None:
    cluster = running()
    (gone,) = cluster.after(1)
    for pause in (300, 600, 1200):
        cluster.replace(gone)
        assert cluster.after(1) == []
        assert cluster.satisfied()[:2] == ("False", "WebhookRequired")
        assert "was made without its edition" in cluster.satisfied()[2]
        assert cluster.after(pause - 1) == []
        (gone,) = cluster.after(1)


def test_what_was_made_as_the_edition_carries_its_name_and_is_believed() -> None:
    policy = sample.overrides(DNS)
    assert isinstance(policy, OverridePolicy)
    mark = edition_name(policy, "hangzhou")
    template = {**sample.TEMPLATE, "spec": {**sample.TEMPLATE["spec"], "dnsConfig": {"searches": []}}}  # type: ignore[dict-item]
    cluster = running(DNS, pods=[sample.nginx_pod("p", "node-a", annotations={EDITION: mark})])
    app = cluster.store.get(Deployment, "default/nginx")
    for kind in (type(app), type(cluster.store.get(type(sample.deployment()[1]), "default/nginx-1"))):
        for found in cluster.store.of(kind).values():
            found.spec.template.keep(template)
    assert cluster.after() == []
    assert cluster.satisfied() == ("True", "AsDesired", "")


def test_fields_that_the_model_has_not_are_compared_too() -> None:
    class Whole(MemoryStore):
        def whole(self, kind: type[Object], key: str) -> dict[str, Any]:
            found = super().whole(kind, key)
            spec = found["spec"] if kind is Pod else found["spec"]["template"]["spec"]
            searches = ["hangzhou.local"] if key.endswith("right") else []
            spec["dnsConfig"] = {"searches": searches, "options": [{"name": "ndots"}]}
            return found

    objects = [
        *sample.nodes(),
        *sample.groups(),
        sample.weights(),
        sample.overrides(DNS),
        *sample.deployment(BOTH),
        OPTED,
    ]
    store = Whole(
        VirtualClock(1000.0), [*objects, sample.nginx_pod("right", "node-a"), sample.nginx_pod("wrong", "node-a")]
    )
    evicted: list[str] = []
    evictions = EvictionQueue(store, lambda pod, policy, rule: evicted.append(pod.metadata.name))
    controller = OverridePolicyController(store, evictions, settle=0.0, webhook=lambda: True)
    while controller.run():
        pass
    assert evicted == ["wrong"]


def test_without_a_propagation_policy_the_group_is_not_known_in_time() -> None:
    cluster = running(labels={sample.REQUIRED_OVERRIDE: "op"})
    assert cluster.after() == []
    assert cluster.satisfied()[:2] == ("False", "NeedsPropagationPolicy")


@pytest.mark.parametrize(("city", "evictions"), [("hangzhou", 1), ("nowhere", 0)])
def test_but_where_its_node_selector_leaves_a_pod_only_one_group_it_is(city: str, evictions: int) -> None:
    made = [sample.nginx_pod(name, "node-a") for name in ("p", "q")]
    for one in made:
        assert isinstance(one, Pod)
        one.spec.node_selector = {"location": city}
    cluster = running(labels={sample.REQUIRED_OVERRIDE: "op"}, pods=made)
    assert len(cluster.after()) == evictions
    assert (cluster.satisfied()[1] == "NeedsPropagationPolicy") == (evictions == 0)


def test_pods_of_a_daemon_set_are_never_evicted() -> None:
    spec = {"template": sample.TEMPLATE}
    top = sample.thing("apps/v1", "DaemonSet", "ds", {"labels": BOTH}, spec=spec)
    cluster = Cluster(
        sample.overrides(ARGS), top, sample.nginx_pod("d", "node-a", of=sample.owner("DaemonSet", "ds")), OPTED
    )
    assert cluster.after() == []
    assert cluster.satisfied()[:2] == ("False", "NotEvicted")


def revision(name: str, image: str) -> Object:
    template = {"$patch": "replace", **sample.TEMPLATE, "spec": {"containers": [{"name": "nginx", "image": image}]}}
    return sample.thing("apps/v1", "ControllerRevision", name, data={"spec": {"template": template}}, revision=1)


def test_a_stateful_sets_pods_are_compared_with_their_own_revision() -> None:
    status = {"currentRevision": "db-1", "updateRevision": "db-2"}
    top = sample.thing(
        "apps/v1", "StatefulSet", "db", {"labels": BOTH}, spec={"template": sample.TEMPLATE}, status=status
    )
    old, unknown = (
        sample.nginx_pod(
            f"db-{i}", "node-a", of=sample.owner("StatefulSet", "db"), labels={"controller-revision-hash": mark}
        )
        for i, mark in enumerate(("db-1", "db-0"))
    )
    cluster = Cluster(
        sample.overrides(sample.registry("Hangzhou")), top, revision("db-1", "nginx:1.0"), old, unknown, OPTED
    )
    cluster.after()
    images = {key: p.spec.containers[0].image for key, p in cluster.store.of(Pod).items()}
    assert images == {"default/db-0": "hangzhou.registry.io/nginx:1.0", "default/db-1": "nginx:1.14"}


def test_a_daemon_sets_pods_carry_the_end_of_their_revisions_name() -> None:
    top = sample.thing("apps/v1", "DaemonSet", "ds", {"labels": BOTH}, spec={"template": sample.TEMPLATE})
    one = sample.nginx_pod(
        "d", "node-a", of=sample.owner("DaemonSet", "ds"), labels={"controller-revision-hash": "abc"}
    )
    cluster = Cluster(sample.overrides(sample.registry("Hangzhou")), top, revision("ds-abc", "nginx:1.0"), one)
    cluster.after()
    assert cluster.store.get(Pod, "default/d").spec.containers[0].image == "hangzhou.registry.io/nginx:1.0"


def unbind(cluster: Cluster) -> None:
    cluster.store.patch(Deployment, "default/nginx", {"metadata": {"labels": {sample.REQUIRED_OVERRIDE: None}}})


def test_pods_of_an_application_that_asks_no_more_stay_as_they_are() -> None:
    cluster = running(sample.registry("Hangzhou"), pods=sample.pods({"node-a": 2}))
    cluster.after()
    unbind(cluster)
    cluster.after(5)
    assert {p.spec.containers[0].image for p in cluster.store.of(Pod).values()} == {"hangzhou.registry.io/nginx:1.14"}


def test_they_get_their_template_back_if_that_is_asked_for() -> None:
    cluster = running(sample.registry("Hangzhou"), pods=sample.pods({"node-a": 2}), revert=True)
    cluster.after()
    unbind(cluster)
    cluster.after()
    for _ in range(3):
        cluster.after(1)
    assert {p.spec.containers[0].image for p in cluster.store.of(Pod).values()} == {"nginx:1.14"}
    assert cluster.controller.next_time() is None
    anew = running(ARGS, pods=[made("a", "node-a", "hangzhou")], revert=True, alive=False)
    assert anew.after() == []
    unbind(anew)
    assert anew.after(1) == ["a"]


@pytest.mark.parametrize("policy", ["stays", "is deleted"])
def test_they_get_it_back_from_a_controller_that_was_started_after_the_label_had_gone(policy: str) -> None:
    cluster = running(sample.registry("Hangzhou"), pods=sample.pods({"node-a": 3}), revert=True)
    cluster.after()
    unbind(cluster)
    if policy == "is deleted":
        cluster.store.remove(OverridePolicy, "default/op")
    cluster.begin_anew(revert=True)
    cluster.controller.run()  # the first of three, and it is killed
    assert {p.spec.containers[0].image for p in cluster.store.of(Pod).values()} != {"nginx:1.14"}
    cluster.begin_anew(revert=True)
    for _ in range(6):
        cluster.after(1)
    assert {p.spec.containers[0].image for p in cluster.store.of(Pod).values()} == {"nginx:1.14"}
    app = cluster.store.get(Deployment, "default/nginx").metadata
    assert MARK not in app.annotations and sample.BINDING_OVERRIDE not in app.labels
    assert cluster.controller.next_time() is None


def test_without_the_switch_the_note_that_it_left_goes_and_pods_stay() -> None:
    cluster = running(sample.registry("Hangzhou"), pods=sample.pods({"node-a": 1}), revert=True)
    cluster.after()
    assert MARK in cluster.store.get(Deployment, "default/nginx").metadata.annotations
    unbind(cluster)
    cluster.begin_anew()
    cluster.after(5)
    assert MARK not in cluster.store.get(Deployment, "default/nginx").metadata.annotations
    assert {p.spec.containers[0].image for p in cluster.store.of(Pod).values()} == {"hangzhou.registry.io/nginx:1.14"}


def test_a_group_that_shares_its_nodes_has_a_place_for_its_replacements() -> None:
    """The policy names hangzhou first, so its nodes count for it, though they are of `a-group`, too."""
    cluster = running(ARGS, sample.node_group("a-group", "node-a", "node-b"), pods=sample.pods({"node-a": 1}))
    entries = [{"nodeGroupNames": [name], "weight": 1} for name in ("hangzhou", "a-group")]
    cluster.store.patch(PropagationPolicy, "default/pp", {"spec": {"staticWeightList": entries}})
    assert cluster.after() == ["p-node-a-0"]


def test_no_pod_goes_whose_group_has_no_node_to_take_another() -> None:
    cluster = running(pods=sample.pods({"node-a": 1}))
    for name in ("node-a", "node-b"):
        cluster.store.patch(Node, name, {"spec": {"unschedulable": True}})
    assert cluster.after() == []
    cluster.store.patch(Node, "node-b", {"spec": {"unschedulable": False}})
    assert cluster.after(1) == ["p-node-a-0"]
