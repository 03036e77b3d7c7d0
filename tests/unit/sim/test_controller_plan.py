"""The predicted writes of a changed policy."""

from __future__ import annotations

from builders.node_groups import (
    REQUIRED_OVERRIDE,
    Document,
    bound,
    deployment,
    groups,
    nodes,
    overrides,
    pods,
    registry,
    thing,
    weights,
)
from muster.cycle.configure import default_configuration
from muster.cycle.scheduler import Scheduler
from muster.groups.assignment import OPT_IN
from muster.model.meta import Object, key
from muster.sim.applied import overlaid
from muster.sim.controller_plan import ControllerPlan, plan

Objects = dict[str, dict[str, Object]]


def of(*objects: Object) -> Objects:
    found: Objects = {}
    for obj in objects:
        found.setdefault(type(obj).__name__, {})[key(obj)] = obj
    return found


def cluster() -> Objects:
    """Three pods in Beijing and two in Hangzhou, as the policy wants it."""
    running = pods({"node-a": 1, "node-b": 1, "node-c": 1, "node-d": 1, "node-e": 1})
    app = deployment({**bound(), REQUIRED_OVERRIDE: "op"})
    return of(*nodes(), *groups(), weights(Beijing=3, Hangzhou=2), *app, *running)


def planned(changes: Objects) -> ControllerPlan:
    return plan(Scheduler(default_configuration()), overlaid(cluster(), changes), 1000.0)


def writes(found: ControllerPlan, verb: str) -> list[str]:
    return [f"{step.key} {step.text}" for step in found.steps if step.verb == verb]


def test_a_cluster_as_it_should_be_sees_nothing() -> None:
    found = planned({})
    assert writes(found, "evict") == [] and found.settled


def test_a_changed_policy_evicts_as_many_as_it_must_and_no_more() -> None:
    found = planned(of(weights(Beijing=2, Hangzhou=3)))
    (evicted,) = writes(found, "evict")
    assert "for PropagationPolicy default/pp" in evicted
    assert found.steps[0].at >= found.began + 10 and found.settled and found.pending == {}


def test_a_new_override_policy_changes_the_image_of_every_pod_one_after_the_other() -> None:
    found = planned(of(overrides(registry("Beijing"), registry("Hangzhou"))))
    images = writes(found, "images")
    assert len(images) == 5 and sum("beijing.registry.io/nginx:1.14" in text for text in images) == 3
    assert writes(found, "patch") == ["default/nginx groupmanagement.kubeedge.io/binding-overridepolicy=op"]
    assert found.to_dict()["counts"] == {"images": 5, "patch": 1}


def test_the_input_is_not_touched() -> None:
    before = cluster()
    plan(Scheduler(default_configuration()), overlaid(before, of(weights(Beijing=1, Hangzhou=4))), 1000.0)
    assert before == cluster()


def flagged(*rules: Document) -> ControllerPlan:
    opted = thing("v1", "Namespace", "default", {"labels": {OPT_IN: "enabled"}})
    changes = of(overrides(*rules), opted)
    return plan(Scheduler(default_configuration()), overlaid(cluster(), changes), 1000.0, webhook=True)


def test_with_a_webhook_pods_that_must_be_made_anew_are_evicted_once_each() -> None:
    rule = {"argsOverrider": [{"containerName": "nginx", "operator": "add", "value": ["--city={{nodegroup}}"]}]}
    found = flagged(rule)
    evicted = writes(found, "evict")
    assert len(evicted) == len(set(evicted)) == 5 and found.settled and found.pending == {}
    assert all("for OverridePolicy default/op" in text for text in evicted)
    assert writes(found, "images") == []
    without = planned(of(overrides(rule)))
    assert writes(without, "evict") == [] and without.settled
