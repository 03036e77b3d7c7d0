"""Scores of muster's plugins for pods of kube-scheduler that follow no policy."""

from __future__ import annotations

import msgspec

from builders.node_groups import CITIES, bound, deployment, groups, nginx_pod, nodes, store_of, thing, weights
from muster.config.loader import load
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.groupctl.extender.group_scheduling import GroupScheduling
from muster.groupctl.extender.plugin_scores import PluginScores, scaled
from muster.model.core import Pod
from muster.model.extender import ExtenderArgs
from muster.model.meta import Object

NODES = list(CITIES)
PACK = """
actions: allocate
tiers:
- plugins:
  - name: resource-strategy-fit
    arguments:
      resourceStrategyFitWeight: 10
      resources: {cpu: {type: MostAllocated, weight: 1}}
"""
GROUPS = """
actions: allocate
tiers:
- plugins:
  - name: nodegroup
"""


def extender(config: str, *objects: Object) -> GroupScheduling:
    read, findings = load(config, "scheduler.yaml", known())
    assert not [finding for finding in findings if finding.severity == "error"]
    store = store_of(*objects)
    return GroupScheduling(store, plugins=PluginScores(store, Scheduler(read)))


def busy(name: str, node: str, cpu: str) -> Object:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    meta = {"labels": {}}
    return thing("v1", "Pod", name, meta, spec={"containers": containers, "nodeName": node, "schedulerName": "other"},
                 status={"phase": "Running" if node else "Pending"})  # fmt: skip


def asked(one: Object) -> ExtenderArgs:
    assert isinstance(one, Pod)
    return ExtenderArgs(one, NODES)


def test_a_fuller_node_is_worth_more_where_pods_are_packed() -> None:
    found = extender(PACK, *nodes(), busy("a", "node-b", "4"), busy("b", "node-d", "2"))
    scores = {score.host: score.score for score in found.prioritize(asked(busy("new", "", "1")))}
    assert scores == {"node-a": 0, "node-b": 10, "node-c": 0, "node-d": 5, "node-e": 0}


def test_a_question_leaves_no_trace_and_bindings_are_followed() -> None:
    store = store_of(*nodes(), busy("a", "node-b", "4"))
    read, _ = load(PACK, "scheduler.yaml", known())
    plugins = PluginScores(store, Scheduler(read))
    one = busy("new", "", "1")
    assert isinstance(one, Pod)
    first = plugins.ask(one)
    assert plugins.ask(one) == first
    store.create(busy("more", "node-c", "6"))
    scores = plugins.ask(one)[1]
    assert max(scores, key=lambda name: scores[name]) == "node-c"


def test_nodes_that_a_queue_must_not_use_are_refused_with_the_plugins_name() -> None:
    spec = {"affinity": {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g1"]}}}
    default = thing("scheduling.volcano.sh/v1beta1", "Queue", "default", {"namespace": ""}, spec=spec)
    labelled = thing("v1", "Node", "n1", {"labels": {"volcano.sh/nodegroup-name": "g1"}})
    found = extender(GROUPS, *nodes(), labelled, default)
    one = busy("new", "", "1")
    assert isinstance(one, Pod)
    result = found.filter(ExtenderArgs(one, [*NODES, "n1"]))
    assert result.node_names == ["n1"]
    why = msgspec.json.decode(result.failed_and_unresolvable_nodes["node-a"])
    assert why.endswith("(nodegroup)")


def test_a_pod_with_a_policy_is_scored_by_its_policy_alone() -> None:
    app = deployment(bound())
    found = extender(PACK, *nodes(), *groups(), weights(), *app, busy("a", "node-c", "4"))
    scores = {score.host: score.score for score in found.prioritize(asked(nginx_pod("new")))}
    assert scores["node-a"] == scores["node-b"] == 10 and scores["node-c"] == scores["node-d"] == 6


def test_equal_nodes_are_worth_nothing_and_strangers_neither() -> None:
    assert scaled({"a": 3.0, "b": 3.0}, ["a", "b"]) == {}
    assert scaled({"a": -1.0, "b": 1.0, "c": 0.0}, ["a", "b", "c", "unknown"]) == {"a": 0, "b": 10, "c": 5}
