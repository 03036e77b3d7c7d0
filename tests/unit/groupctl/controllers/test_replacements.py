"""Replacements that land in the wrong node group: bounded evictions, across restarts, and their status."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import node_groups as sample
from muster.cluster.memory import MemoryStore, VirtualClock
from muster.groupctl.controllers.eviction_queue import EvictionQueue
from muster.groupctl.controllers.override import OverridePolicyController
from muster.groupctl.controllers.propagation import PropagationPolicyController
from muster.model.batch import Deployment
from muster.model.core import Node, Pod
from muster.model.groups import OverridePolicy, PropagationPolicy
from muster.model.meta import Condition, Object
from strategies.profiles import examples

FOREIGN = {"spec": {"template": {"spec": {"schedulerName": "foreign"}}}}


class Cluster:
    """Five pods in Beijing, where two are wanted; a scheduler that puts replacements where it likes."""

    def __init__(self, *more: Object, lands: str = "node-c", labels: dict[str, str] | None = None) -> None:
        app = sample.deployment({**sample.bound(), **(labels or {})})
        self.store: MemoryStore = sample.store_of(
            *sample.nodes(), *sample.groups(), sample.weights(), *app, *sample.pods({"node-c": 5}), *more
        )
        self.change(FOREIGN)
        self.lands = lands
        self.missing = ""
        self.evicted: list[str] = []
        self.failed: list[str] = []
        self.made = 0
        self.start()

    def start(self) -> None:
        """A new controller, which knows what the cluster says and nothing else."""
        evictions = EvictionQueue(self.store, lambda pod, policy, rule: self.evicted.append(pod.metadata.name))
        self.controller = PropagationPolicyController(
            self.store, evictions, placer=lambda _: self.missing,
            failed=lambda app, scheduler: self.failed.append(scheduler),
        )  # fmt: skip
        self.override = OverridePolicyController(self.store, evictions)

    def change(self, spec: dict[str, Any]) -> None:
        """Change the Deployment; its controller has seen it."""
        made = self.store.patch(Deployment, "default/nginx", spec)
        seen = {"status": {"observedGeneration": made.metadata.generation}}
        self.store.patch(Deployment, "default/nginx", seen, status=True)

    @property
    def clock(self) -> VirtualClock:
        clock = self.store.clock
        assert isinstance(clock, VirtualClock)
        return clock

    def turn(self) -> None:
        while self.controller.run() | self.override.run():
            self.place()

    def place(self) -> None:
        """What goes is replaced at once, and runs where the scheduler puts it."""
        for key, one in list(self.store.of(Pod).items()):
            if one.metadata.deletion_timestamp is not None:
                self.store.remove(Pod, key)
                self.made += 1
                self.store.create(sample.nginx_pod(f"new-{self.made}", self.lands))

    def after(self, seconds: float, step: float = 10.0) -> int:
        """How many pods are evicted while so much time passes."""
        before, end = len(self.evicted), self.clock.now() + seconds
        self.turn()
        while self.clock.now() < end:
            self.clock.advance(min(self.clock.now() + step, end))
            self.turn()
        return len(self.evicted) - before

    def satisfied(self) -> Condition:
        conditions = self.store.get(PropagationPolicy, "default/pp").status.conditions
        return next(c for c in conditions if c.type == "Satisfied")


def test_evictions_stop_for_ever_longer_and_the_condition_names_the_scheduler() -> None:
    cluster = Cluster()
    assert cluster.after(200) == 1
    reported = cluster.satisfied()
    assert (reported.status, reported.reason) == ("False", "WrongGroup")
    assert "replacement default/new-1 landed on node node-c, in node group beijing" in reported.message
    assert "schedulerName foreign" in reported.message and "no pod is evicted before" in reported.message
    assert cluster.failed == ["foreign"] and cluster.controller.paused == 1
    events = [(note.kind, note.reason) for note in cluster.store.events]
    assert events.count(("Deployment", "WrongGroup")) == events.count(("PropagationPolicy", "WrongGroup")) == 1
    # 5, 10, 20 and 40 minutes, then an hour each time.
    assert cluster.after(75 * 60) == 4
    assert cluster.after(4 * 3600) == 4


@pytest.mark.parametrize("every", [30.0, 400.0])
def test_a_controller_that_is_started_again_does_not_begin_anew(every: float) -> None:
    cluster = Cluster()
    went = 0
    for _ in range(int(3600 / every)):
        went += cluster.after(every)
        cluster.start()
    assert went <= 5


def test_one_that_is_killed_before_the_replacement_lands_still_sees_that_it_landed_wrong() -> None:
    cluster = Cluster()
    cluster.turn()
    cluster.clock.advance(cluster.clock.now() + 10)
    cluster.controller.run()
    assert len(cluster.evicted) == 1
    cluster.start()
    cluster.place()
    assert cluster.after(250) == 0
    assert cluster.satisfied().reason == "WrongGroup"


def test_nodes_that_come_and_other_numbers_do_not_forgive_but_another_scheduler_does() -> None:
    cluster = Cluster()
    cluster.after(60)
    cluster.store.create(sample.city_node("node-z", "beijing"))
    cluster.change({"spec": {"replicas": 6}})
    cluster.store.create(sample.nginx_pod("sixth", "node-z"))
    assert cluster.after(200) == 0
    cluster.lands = "node-a"
    cluster.change({"spec": {"template": {"spec": {"schedulerName": "good"}}}})
    assert cluster.after(60) == 4
    assert (cluster.satisfied().status, cluster.satisfied().reason) == ("True", "AsDesired")
    assert cluster.store.get(PropagationPolicy, "default/pp").status.applications[0].evictions is None


def test_nothing_more_is_evicted_until_the_replacement_exists() -> None:
    cluster = Cluster()

    def wait(seconds: int) -> None:
        for _ in range(seconds):
            cluster.clock.advance(cluster.clock.now() + 1)
            cluster.controller.run()

    wait(15)
    [gone] = [key for key, one in cluster.store.of(Pod).items() if one.metadata.deletion_timestamp is not None]
    cluster.store.remove(Pod, gone)
    wait(25)  # the ReplicaSet controller is slow
    assert len(cluster.evicted) == 1
    cluster.store.create(sample.nginx_pod("late", "node-c"))
    assert cluster.after(200) == 0
    assert cluster.satisfied().reason == "WrongGroup"


@pytest.mark.parametrize("by", ["template", "override"])
def test_a_node_name_that_is_written_into_the_pods_is_named(by: str) -> None:
    fixed = {"plaintext": [{"path": "/spec/nodeName", "operator": "add", "value": "node-c"}]}
    labels = {sample.BINDING_OVERRIDE: "op", sample.REQUIRED_OVERRIDE: "op"} if by == "override" else {}
    cluster = Cluster(sample.overrides(fixed), labels=labels)
    if by == "template":
        cluster.change({"spec": {"template": {"spec": {"nodeName": "node-c"}}}})
    cluster.override.run = lambda: False  # type: ignore[method-assign]
    assert cluster.after(200) == 1
    who = "the pod template" if by == "template" else "OverridePolicy op"
    assert f"{who} sets nodeName" in cluster.satisfied().message


def test_nothing_is_evicted_while_nobody_places_pods_and_it_goes_on_when_somebody_does() -> None:
    cluster = Cluster(lands="node-a")
    cluster.missing = "no muster extender is alive for schedulerName foreign"
    assert cluster.after(3600) == 0
    reported = cluster.satisfied()
    assert (reported.status, reported.reason) == ("False", "NoExtender")
    assert cluster.missing in reported.message
    cluster.missing = ""
    assert cluster.after(60) == 3
    assert cluster.satisfied().status == "True"


def test_that_somebody_places_pods_again_is_seen_by_a_clock_that_goes_on() -> None:
    class Ticking(VirtualClock):
        def now(self) -> float:
            self.advance(super().now() + 0.001)
            return super().now()

    cluster = Cluster(lands="node-a")
    cluster.store._clock = Ticking(cluster.clock.now())
    cluster.missing = "nobody"
    assert cluster.after(60) == 0
    cluster.missing = ""
    assert cluster.after(1) > 0


def test_a_pod_that_is_about_to_be_evicted_gets_no_new_image_first() -> None:
    cluster = Cluster(
        sample.overrides(sample.registry("Beijing")), lands="node-a", labels={sample.REQUIRED_OVERRIDE: "op"}
    )
    images: dict[str, str] = {}
    cluster.turn()
    for _ in range(12):
        for key, one in cluster.store.of(Pod).items():
            images.setdefault(key, "")
            images[key] = max(images[key], one.spec.containers[0].image)
        cluster.after(5)
    assert len(cluster.evicted) == 3
    assert [images[f"default/{name}"] for name in cluster.evicted] == ["nginx:1.14"] * 3
    kept = [p for p in cluster.store.of(Pod).values() if p.spec.node_name == "node-c"]
    assert [p.spec.containers[0].image for p in kept] == ["beijing.registry.io/nginx:1.14"] * 2


def test_but_one_whose_eviction_is_held_does() -> None:
    cluster = Cluster(sample.overrides(sample.registry("Beijing")), labels={sample.REQUIRED_OVERRIDE: "op"})
    cluster.missing = "nobody"
    cluster.after(60)
    assert all("registry" in p.spec.containers[0].image for p in cluster.store.of(Pod).values())


@examples(10)
@given(data=st.data())
def test_whatever_happens_meanwhile_a_scheduler_that_never_obeys_causes_few_evictions(data: st.DataObject) -> None:
    """In two hours five evictions by the pauses alone; restarts and changes of nodes and numbers add none."""
    cluster = Cluster()
    fresh = 0
    for _ in range(24):
        cluster.after(300, step=60)
        match data.draw(st.sampled_from(["nothing", "restart", "node", "label"])):
            case "restart":
                cluster.start()
            case "node":
                fresh += 1
                cluster.store.create(sample.city_node(f"fresh-{fresh}", "beijing"))
            case "label":
                label = {"metadata": {"labels": {"seen": str(fresh)}}}
                cluster.store.patch(Node, "node-d", label)
    assert len(cluster.evicted) <= 6
    assert cluster.satisfied().reason == "WrongGroup"


def test_the_state_is_kept_in_the_status_as_kubernetes_writes_times() -> None:
    cluster = Cluster()
    cluster.after(100)
    (reported,) = cluster.store.get(PropagationPolicy, "default/pp").status.applications
    kept: Any = reported.evictions
    assert kept.failures == 1 and kept.reason == "WrongGroup"
    assert kept.since == "1970-01-01T00:16:50Z" and kept.not_before == "1970-01-01T00:21:50Z"


def test_an_edition_that_cannot_be_made_is_not_as_desired() -> None:
    wrong = {"plaintext": [{"path": "/spec/nowhere/0", "operator": "replace", "value": 1}]}
    cluster = Cluster(sample.overrides(wrong), labels={sample.REQUIRED_OVERRIDE: "op"})
    cluster.turn()
    (satisfied,) = [
        c for c in cluster.store.get(OverridePolicy, "default/op").status.conditions if c.type == "Satisfied"
    ]
    assert (satisfied.status, satisfied.reason) == ("False", "Invalid")
