"""PropagationPolicyController: binding, evictions at their pace, guards, statuses."""

from __future__ import annotations

from typing import Any

import pytest

from builders import node_groups as sample
from muster.cluster.memory import MemoryStore
from muster.groupctl.controllers.eviction_queue import EvictionQueue
from muster.groupctl.controllers.policy_controller import OBSERVED
from muster.groupctl.controllers.propagation import PropagationPolicyController
from muster.model.batch import Deployment
from muster.model.core import Node, Pod, PodStatus
from muster.model.groups import PropagationPolicy
from muster.model.meta import Condition, Object

REDUNDANT = {"node-a": 1, "node-b": 1, "node-c": 1, "node-d": 1, "node-e": 1}


class Cluster:
    """A store with the controller on it, and a clock to move."""

    def __init__(self, *objects: Object, **options: Any) -> None:
        self.store: MemoryStore = sample.store_of(*objects)
        self.evicted: list[str] = []
        evictions = EvictionQueue(self.store, lambda pod, policy, rule: self.evicted.append(pod.metadata.name))
        self.controller = PropagationPolicyController(self.store, evictions, **options)

    def after(self, seconds: float) -> list[str]:
        """What is evicted when so much time has passed."""
        clock = self.store.clock
        clock.advance(clock.now() + seconds)  # type: ignore[attr-defined]
        before = len(self.evicted)
        while self.controller.run():
            pass
        return self.evicted[before:]

    @property
    def labels(self) -> dict[str, str]:
        return self.store.get(Deployment, "default/nginx").metadata.labels

    def satisfied(self) -> tuple[str, str]:
        conditions = self.store.get(PropagationPolicy, "default/pp").status.conditions
        found = next(c for c in conditions if c.type == "Satisfied")
        return found.status, found.reason


def spread(*more: Object, on: dict[str, int] = REDUNDANT, policy: Object | None = None, **options: Any) -> Cluster:
    """The design's example: two in Hangzhou and three in Beijing, wanted the other way round."""
    app = sample.deployment({sample.REQUIRED: "pp"}, replicas=sum(on.values()))
    return Cluster(
        *sample.nodes(), *sample.groups(), policy or sample.weights(), *app, *sample.pods(on), *more, **options
    )


class TestBinding:
    def test_an_application_is_bound_once_its_policy_is_there_in_either_order(self) -> None:
        cluster = Cluster(*sample.nodes(), *sample.groups(), *sample.deployment({sample.REQUIRED: "pp"}))
        cluster.after(0)
        assert sample.BINDING not in cluster.labels
        assert [note.reason for note in cluster.store.events] == ["PolicyNotFound"]
        cluster.store.create(sample.weights())
        cluster.after(0)
        assert cluster.labels[sample.BINDING] == "pp"
        assert [note.reason for note in cluster.store.events][1] == "Bound"

    def test_a_binding_follows_what_is_required(self) -> None:
        cluster = Cluster(
            *sample.groups(),
            sample.weights(),
            sample.weights("other"),
            *sample.deployment({sample.REQUIRED: "other", sample.BINDING: "pp"}),
        )
        cluster.after(0)
        assert cluster.labels[sample.BINDING] == "other"
        cluster.store.patch(Deployment, "default/nginx", {"metadata": {"labels": {sample.REQUIRED: None}}})
        cluster.after(0)
        assert sample.BINDING not in cluster.labels

    @pytest.mark.parametrize(
        "policy", [sample.weights("pp", beijing=-1), sample.weights("pp", beijing=0), sample.ranges(beijing=(3, 1))]
    )
    def test_a_policy_that_cannot_be_used_is_not_bound_and_others_are(self, policy: Object) -> None:
        other = sample.thing(
            "apps/v1", "StatefulSet", "s", {"labels": {sample.REQUIRED: "good"}}, spec={"template": sample.TEMPLATE}
        )
        cluster = Cluster(*sample.groups(), policy, sample.weights("good"), *sample.deployment(sample.bound()), other)
        cluster.after(0)
        assert sample.BINDING not in cluster.labels
        assert cluster.store.get(type(other), "default/s").metadata.labels[sample.BINDING] == "good"
        assert cluster.satisfied() == ("False", "Invalid")

    def test_a_policy_of_another_namespace_is_another_policy(self) -> None:
        policy = sample.weights()
        policy.metadata.namespace = "elsewhere"
        cluster = Cluster(*sample.groups(), policy, *sample.deployment({sample.REQUIRED: "pp"}))
        cluster.after(0)
        assert sample.BINDING not in cluster.labels


class TestEvictions:
    def test_a_redundant_pod_is_evicted_when_all_has_settled(self) -> None:
        cluster = spread()
        assert cluster.after(0) == []
        assert cluster.controller.next_time() == cluster.store.clock.now() + 10
        assert cluster.after(9) == []
        assert cluster.after(1) == ["p-node-c-0"]
        assert cluster.store.get(Pod, "default/p-node-c-0").metadata.deletion_timestamp is not None

    def test_misplaced_pods_go_first(self) -> None:
        away = [sample.city_node("far"), sample.nginx_pod("lost", "far")]
        cluster = spread(*away, on={"node-c": 3, "node-a": 1})
        cluster.after(0)
        assert cluster.after(10) == ["lost"]

    def test_the_next_one_goes_when_the_replacement_is_ready(self) -> None:
        cluster = spread(on={"node-c": 5})
        cluster.after(0)
        (first,) = cluster.after(10)
        assert cluster.after(1) == []
        cluster.store.delete(Pod, f"default/{first}", grace=0)
        cluster.store.create(sample.nginx_pod("new"))
        assert cluster.after(1) == []
        cluster.store.bind("default/new", "node-a")
        assert cluster.after(1) == []
        cluster.store.update_status(sample.nginx_pod("new", "node-a"))
        assert len(cluster.after(1)) == 1

    def test_a_tenth_of_many_replicas_goes_at_once_but_no_more_than_five_a_moment(self) -> None:
        cluster = spread(on={"node-c": 100})
        cluster.after(0)
        assert len(cluster.after(10)) == 5
        assert len(cluster.after(1)) == 1
        assert len(cluster.after(2)) == 2

    def test_nothing_is_evicted_without_a_place_to_go(self) -> None:
        closed = [sample.city_node(name, "hangzhou", unschedulable=True) for name in ("node-a", "node-b")]
        others = sample.nodes(but=("node-a", "node-b"))
        app = sample.deployment(sample.bound(), replicas=3)
        cluster = Cluster(*closed, *others, *sample.groups(), sample.weights(), *app, *sample.pods({"node-c": 3}))
        cluster.after(0)
        assert cluster.after(20) == []
        cluster.store.patch(Node, "node-a", {"spec": {"unschedulable": False}})
        assert len(cluster.after(10)) == 1

    def test_a_replacement_without_a_place_stops_evictions_for_longer_and_longer(self) -> None:
        cluster = spread(on={"node-c": 5})
        cluster.after(0)
        (first,) = cluster.after(10)
        cluster.store.delete(Pod, f"default/{first}", grace=0)
        cluster.store.create(sample.nginx_pod("new"))
        assert cluster.after(299) == []
        assert cluster.after(1) == []
        assert cluster.satisfied() == ("False", "Unplaceable")
        assert cluster.after(299) == []
        (second,) = cluster.after(1)
        cluster.store.delete(Pod, f"default/{second}", grace=0)
        cluster.store.create(sample.nginx_pod("newer"))
        assert cluster.after(300) == []
        assert cluster.after(599) == []

    def test_a_range_moves_only_what_is_outside_of_it(self) -> None:
        cluster = spread(on={"node-c": 4, "node-a": 1}, policy=sample.ranges(beijing=(1, 4), hangzhou=(1, 4)))
        cluster.after(0)
        assert cluster.after(20) == []
        assert cluster.satisfied() == ("True", "AsDesired")
        cluster = spread(on={"node-c": 5}, policy=sample.ranges(beijing=(1, 5), hangzhou=(1, 4)))
        cluster.after(0)
        assert len(cluster.after(10)) == 1


class TestGuards:
    @pytest.mark.parametrize(
        "protected",
        [
            {"annotations": {"groupmanagement.kubeedge.io/evict": "false"}},
            {"annotations": {"kubernetes.io/config.mirror": "x"}},
        ],
    )
    def test_a_pod_that_says_no_stays(self, protected: dict[str, Any]) -> None:
        cluster = Cluster(
            *sample.nodes(),
            sample.city_node("far"),
            *sample.groups(),
            sample.weights(),
            *sample.deployment(sample.bound()),
            sample.nginx_pod("p", "far", **protected),
        )
        cluster.after(0)
        assert cluster.after(20) == []

    def test_pods_on_a_node_that_is_not_ready_stay(self) -> None:
        far = sample.city_node("far", ready=False)
        cluster = Cluster(
            *sample.nodes(),
            far,
            *sample.groups(),
            sample.weights(),
            *sample.deployment(sample.bound()),
            sample.nginx_pod("p", "far"),
        )
        cluster.after(0)
        assert cluster.after(20) == []
        cluster.store.update_status(sample.city_node("far"))
        assert cluster.after(10) == ["p"]

    def test_a_budget_that_forbids_is_obeyed(self) -> None:
        spec = {"minAvailable": "100%", "selector": {"matchLabels": {"app": "nginx"}}}
        cluster = spread(sample.thing("policy/v1", "PodDisruptionBudget", "all", spec=spec))
        cluster.after(0)
        assert cluster.after(20) == cluster.after(20) == []
        assert cluster.controller.next_time() is None
        (reported,) = [note.message for note in cluster.store.events if note.reason == "EvictionBlocked"]
        assert reported == "pod default/p-node-c-0: PodDisruptionBudget default/all allows no disruption"
        (app,) = cluster.store.get(PropagationPolicy, "default/pp").status.applications
        assert app.warnings == [f"{reported.replace(': ', ' is not evicted: ')}, and 2 others"]
        cluster.store.delete(type(sample.thing("policy/v1", "PodDisruptionBudget", "all")), "default/all")
        assert cluster.after(1) == ["p-node-c-0"]

    @pytest.mark.parametrize(
        ("phase", "policy", "healthy", "goes"),
        [
            ("Pending", "", 0, True),
            ("Running", "", 0, False),
            ("Running", "AlwaysAllow", 0, True),
            ("Running", "IfHealthyBudget", 1, False),
            ("Running", "IfHealthyBudget", 2, True),
        ],
    )
    def test_a_pod_that_is_not_ready_goes_where_kubernetes_lets_it(
        self, phase: str, policy: str, healthy: int, goes: bool
    ) -> None:
        spec = {"selector": {"matchLabels": {"app": "nginx"}}, "unhealthyPodEvictionPolicy": policy}
        status = {"disruptionsAllowed": 0, "currentHealthy": healthy, "desiredHealthy": 2}
        budget = sample.thing("policy/v1", "PodDisruptionBudget", "all", spec=spec, status=status)
        lost = sample.nginx_pod("p", "far")
        assert isinstance(lost, Pod)
        lost.status = PodStatus(phase=phase, conditions=[Condition(type="Ready", status="False")])
        cluster = Cluster(
            *sample.nodes(),
            sample.city_node("far"),
            *sample.groups(),
            sample.weights(),
            *sample.deployment(sample.bound(), replicas=30),
            lost,
            budget,
        )
        cluster.after(0)
        assert cluster.after(20) == (["p"] if goes else [])

    def test_nothing_moves_during_a_roll_out(self) -> None:
        spec = {"replicas": 1, "template": sample.TEMPLATE}
        newer = sample.thing("apps/v1", "ReplicaSet", "nginx-2", sample.owner("Deployment", "nginx"), spec=spec)
        cluster = spread(newer, sample.nginx_pod("q", "node-e", of=sample.owner("ReplicaSet", "nginx-2")))
        cluster.after(0)
        assert cluster.after(20) == []

    @pytest.mark.parametrize(("kind", "version"), [("DaemonSet", "apps/v1"), ("Job", "batch/v1")])
    def test_pods_that_would_not_come_back_elsewhere_stay(self, kind: str, version: str) -> None:
        app = sample.thing(version, kind, "w", {"labels": sample.bound()}, spec={"template": sample.TEMPLATE})
        lost = sample.nginx_pod("p", "far", of=sample.owner(kind, "w", version))
        cluster = Cluster(*sample.nodes(), sample.city_node("far"), *sample.groups(), sample.weights(), app, lost)
        cluster.after(0)
        assert cluster.after(20) == []
        (reported,) = cluster.store.get(PropagationPolicy, "default/pp").status.applications
        assert (reported.kind, reported.misplaced) == (kind, 1)
        assert reported.warnings == [f"pod default/p is not evicted: pods of a {kind} are never evicted"]
        assert [note.message for note in cluster.store.events if note.reason == "EvictionBlocked"] == [
            f"pod default/p: pods of a {kind} are never evicted"
        ]

    def test_a_pod_whose_volume_lies_on_its_node_stays(self) -> None:
        host = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["far"]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}
        volume = sample.thing("v1", "PersistentVolume", "v", spec={"nodeAffinity": affinity})
        claim = sample.thing("v1", "PersistentVolumeClaim", "c", spec={"volumeName": "v"})
        bound_pod = sample.nginx_pod("p", "far")
        assert isinstance(bound_pod, Pod)
        source = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        cluster = Cluster(
            *sample.nodes(),
            sample.city_node("far"),
            *sample.groups(),
            sample.weights(),
            *sample.deployment(sample.bound()),
            volume,
            claim,
            bound_pod,
        )
        cluster.store.patch(Pod, "default/p", {"spec": {"volumes": [source]}})
        cluster.after(0)
        assert cluster.after(20) == []

    def test_the_highest_number_of_a_stateful_set_goes_first(self) -> None:
        app = sample.thing(
            "apps/v1",
            "StatefulSet",
            "w",
            {"labels": sample.bound()},
            spec={"replicas": 12, "template": sample.TEMPLATE},
        )
        members = [sample.nginx_pod(f"w-{i}", "node-c", of=sample.owner("StatefulSet", "w")) for i in range(12)]
        cluster = Cluster(*sample.nodes(), *sample.groups(), sample.weights(), app, *members)
        cluster.after(0)
        assert cluster.after(10) == ["w-11"]


class TestTelling:
    def test_the_status_says_what_each_group_should_have_has_and_has_ready(self) -> None:
        cluster = spread(sample.nginx_pod("waits"))
        cluster.after(0)
        (reported,) = cluster.store.get(PropagationPolicy, "default/pp").status.applications
        assert (reported.kind, reported.name, reported.replicas, reported.misplaced, reported.pending) == (
            "Deployment",
            "nginx",
            5,
            0,
            1,
        )
        assert [(g.name, g.desired, g.current, g.ready) for g in reported.groups] == [
            ("beijing", 2, 3, 3),
            ("hangzhou", 3, 2, 2),
        ]
        assert cluster.satisfied() == ("False", "Progressing")

    def test_a_spelling_and_an_unknown_group_are_reported_once(self) -> None:
        cluster = Cluster(
            *sample.nodes(),
            sample.node_group("beijing", location="beijing"),
            sample.weights(),
            *sample.deployment(sample.bound()),
        )
        cluster.after(0)
        cluster.after(60)
        reasons = [note.reason for note in cluster.store.events if note.kind == "PropagationPolicy"]
        assert reasons == ["GroupNameCase", "GroupUnknown", "GroupNameCase"]
        status = cluster.store.get(PropagationPolicy, "default/pp").status
        resolved = next(c for c in status.conditions if c.type == "Resolved")
        assert (resolved.status, resolved.reason) == ("False", "GroupUnknown")

    def test_pending_pods_are_tried_again_when_something_changes_for_them_and_only_then(self) -> None:
        cluster = spread(sample.nginx_pod("waits"))
        cluster.after(0)
        mark = cluster.store.get(Pod, "default/waits").metadata.labels[OBSERVED]
        version = cluster.store.version
        cluster.after(5)
        assert cluster.store.version == version
        cluster.store.create(sample.city_node("more", "hangzhou"))
        cluster.after(0)
        assert cluster.store.get(Pod, "default/waits").metadata.labels[OBSERVED] != mark
        assert OBSERVED not in cluster.store.get(Pod, "default/p-node-a-0").metadata.labels

    def test_a_cluster_at_rest_sees_no_writes(self) -> None:
        cluster = spread(on={"node-a": 3, "node-c": 2})
        cluster.after(0)
        version = cluster.store.version
        assert cluster.after(3600) == []
        assert cluster.store.version == version
        assert cluster.controller.next_time() is None
        assert cluster.satisfied() == ("True", "AsDesired")
