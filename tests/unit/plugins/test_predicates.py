"""The filters on the node itself, with kube-scheduler's messages."""

from __future__ import annotations

from typing import Any

from builders.filter_clusters import plugin, session, task
from builders.manifests import Manifest, node, pod, state_of
from muster.engine.core.hooks import Batch
from muster.engine.core.state import State
from muster.plugins.predicates import Predicates

TAINT = [{"key": "gpu", "value": "a100", "effect": "NoSchedule"}]


def refusals(world: State, name: str = "p", **arguments: Any) -> dict[str, tuple[str, str, bool]]:
    """Node → code, text and whether an eviction could help, of the first filter that refuses."""
    rules = plugin(Predicates, **arguments)
    assert isinstance(rules, Predicates)
    now = session(world, rules)
    verdict = rules.filter(task(world, name), world.nodes.everything())
    found = {}
    for i, code in enumerate(verdict.code):
        if code:
            reason = verdict.reasons[code - 1]
            found[world.nodes.names[i]] = (reason.code, reason.message(i), reason.resolvable)
    now.close()
    return found


def test_a_node_full_of_pods_is_refused_for_now() -> None:
    world = state_of(
        node("a", cpu=4, memory="8Gi", pods=1),
        node("b", cpu=4, memory="8Gi", pods=2),
        pod("old", on="a", cpu=None),
        pod("p", cpu=None),
    )
    assert refusals(world) == {"a": ("pod-count", "node(s) pod number exceeded", True)}


def test_a_node_without_pods_takes_none() -> None:
    world = state_of(node("a", cpu=4, memory="8Gi", pods=0), pod("p", cpu=None))
    assert list(refusals(world)) == ["a"]


def test_a_cordoned_node_is_refused_permanently() -> None:
    world = state_of(
        node("a", cpu=4, memory="8Gi", unschedulable=True), node("b", cpu=4, memory="8Gi"), pod("p", cpu=None)
    )
    assert refusals(world) == {"a": ("unschedulable", "node(s) were unschedulable", False)}


def test_a_node_that_the_selector_leaves_out_is_refused_permanently() -> None:
    world = state_of(
        node("a", cpu=4, memory="8Gi", labels={"disk": "ssd"}),
        node("b", cpu=4, memory="8Gi"),
        pod("p", nodeSelector={"disk": "ssd"}, cpu=None),
    )
    text = "node(s) didn't match Pod's node affinity/selector"
    assert refusals(world) == {"b": ("node-affinity", text, False)}


def test_an_untolerated_taint_is_named() -> None:
    world = state_of(node("a", cpu=4, memory="8Gi", taints=TAINT), node("b", cpu=4, memory="8Gi"), pod("p", cpu=None))
    assert refusals(world) == {"a": ("taint", "node(s) had untolerated taint {gpu: a100}", False)}


def test_a_host_port_in_use_is_refused_for_now() -> None:
    port = [{"hostPort": 80}]
    world = state_of(
        node("a", cpu=4, memory="8Gi"),
        node("b", cpu=4, memory="8Gi"),
        pod("old", on="a", cpu=None, container={"ports": port}),
        pod("p", cpu=None, container={"ports": port}),
    )
    text = "node(s) didn't have free ports for the requested pod ports"
    assert refusals(world) == {"a": ("host-ports", text, True)}


def test_a_pod_with_resource_claims_fits_nowhere() -> None:
    world = state_of(
        node("a", cpu=4, memory="8Gi"),
        pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}], cpu=None),
    )
    [(code, text, resolvable)] = refusals(world).values()
    assert code == "resource-claims" and "resourceClaims" in text and not resolvable


def test_switches_turn_filters_off() -> None:
    port = [{"hostPort": 80}]
    selector = {"disk": "ssd"}
    world = state_of(
        node("a", cpu=4, memory="8Gi", taints=TAINT),
        pod("old", on="a", cpu=None, container={"ports": port}),
        pod("p", nodeSelector=selector, cpu=None, container={"ports": port}),
    )
    switches = ("NodeAffinity", "TaintToleration", "NodePorts")
    off: dict[str, Any] = {f"predicate__{name}Enable": False for name in switches}
    assert refusals(world)["a"][0] == "node-affinity"
    assert refusals(world, **off) == {}


def test_equal_pods_with_a_host_port_share_no_node() -> None:
    world = state_of(
        node("a", cpu=4, memory="8Gi"), pod("p", cpu=None, container={"ports": [{"hostPort": 80}]}), pod("q", cpu=None)
    )
    rules = plugin(Predicates)
    assert isinstance(rules, Predicates)
    session(world, rules)
    how = {term.term: term.batch(task(world, "p")) for term in rules.filters()}
    assert how["nodeports"] == Batch.ONCE
    assert {t.term: t.batch(task(world, "q")) for t in rules.filters()}["nodeports"] == Batch.SKIP


def test_answers_for_some_nodes_are_those_for_all() -> None:
    objects: list[Manifest] = [
        node(f"n{i}", cpu=4, memory="8Gi", taints=TAINT if i % 2 else [], unschedulable=i == 4) for i in range(6)
    ]
    world = state_of(*objects, pod("p", cpu="1"))
    rules = plugin(Predicates)
    assert isinstance(rules, Predicates)
    session(world, rules)
    whole = rules.filter(task(world, "p"), world.nodes.everything())
    index = world.nodes.everything().index[[5, 0, 4]]
    some = rules.filter(task(world, "p"), world.nodes.some(index))
    assert some.code.tolist() == whole.code[[5, 0, 4]].tolist()
    assert [bool(code) for code in some.code] == [True, False, True]
