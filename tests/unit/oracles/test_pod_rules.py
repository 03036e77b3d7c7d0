"""The plan checker refuses pods that are where they may not be: for each rule a right placement and a wrong one."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import Manifest, manifest, node, pod, typed
from muster.cycle.configure import configure
from muster.engine.core.plan import Plan, PodReason
from muster.model.meta import key
from muster.plugin_checks.pod_features import HOST, ZONE, affinity, near, spread
from oracles.plan_checker import check

CONFIG, _ = configure("actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n", "scheduler.yaml")
GPU_TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
TOLERATED = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
WEB_PORT = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def zones(*names: str, **more: Any) -> list[Manifest]:
    """Nodes n0, n1 … in these zones; without a label where the name is empty."""
    return [
        node(f"n{i}", labels={HOST: f"n{i}", **({ZONE: name} if name else {})}, **more) for i, name in enumerate(names)
    ]


def judged(objects: list[Manifest], binds: dict[str, str], **parts: Any) -> set[str]:
    made = [typed(one) for one in objects]
    plan = Plan(binds={f"default/{name}": at for name, at in binds.items()}, **parts)
    plan.reasons = {key(one): PodReason("x", "waits") for one in made}
    return check(made, CONFIG, plan)


def needs(**term: Any) -> dict[str, Any]:
    """Required node affinity with one expression."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


A, B = zones("a", "b")
X = {"app": "x"}
Y = {"app": "y"}
LIKES_X, HATES_X = affinity(required=[near("x")]), affinity(anti=[near("x")])
IN_TIER = near("x") | {"labelSelector": {"matchLabels": {"tier": "t"}}}

WRONG: dict[str, tuple[list[Manifest], dict[str, str], dict[str, str]]] = {
    # what is wrong: the objects, placements that are right, and the same with the fault
    "more cpu than is free": ([A, B, pod("p", cpu=8), pod("old", on="n1")], {"p": "n0"}, {"p": "n1"}),
    "more pods than the node takes": ([A, node("n9", pods=1), pod("p"), pod("old", on="n9")], {"p": "n0"}, {"p": "n9"}),
    "a resource that is not offered": (
        [A, node("n9", resources={"example.com/x": 1}), pod("p", requests={"example.com/x": 1})],
        {"p": "n9"}, {"p": "n0"},
    ),
    "capacity that a terminating pod still holds": (
        [A, B, pod("p", cpu=8), pod("old", on="n1", meta=TERMINATING)], {"p": "n0"}, {"p": "n1"},
    ),
    "a cordoned node": ([A, node("n9", unschedulable=True), pod("p")], {"p": "n0"}, {"p": "n9"}),
    "a cordoned node, another taint tolerated": (
        [
            node("n9", unschedulable=True), pod("p", tolerations=[TOLERATED]),
            pod("q", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
        ],
        {"q": "n9"}, {"p": "n9"},
    ),
    "node selector": ([*zones("a", "b"), pod("p", nodeSelector={ZONE: "b"})], {"p": "n1"}, {"p": "n0"}),
    "node affinity": (
        [*zones("a", "b"), pod("p", affinity=needs(key=ZONE, operator="NotIn", values=["a"]))],
        {"p": "n1"}, {"p": "n0"},
    ),
    "a taint that is not tolerated": (
        [node("n9", taints=[GPU_TAINT]), pod("p"), pod("q", tolerations=[TOLERATED])], {"q": "n9"}, {"p": "n9"},
    ),
    "a taint whose other value is tolerated": (
        [node("n9", taints=[GPU_TAINT]), pod("p", tolerations=[TOLERATED | {"value": "cpu"}]),
         pod("q", tolerations=[{"key": "dedicated", "operator": "Exists"}])],
        {"q": "n9"}, {"p": "n9"},
    ),
    "a host port that a running pod has": (
        [A, B, pod("old", on="n1", container=WEB_PORT), pod("p", container=WEB_PORT)], {"p": "n0"}, {"p": "n1"},
    ),
    "a host port twice": (
        [A, B, pod("p", container=WEB_PORT), pod("q", container=WEB_PORT)],
        {"p": "n0", "q": "n1"}, {"p": "n0", "q": "n0"},
    ),
    "a host port of a terminating pod": (
        [A, B, pod("old", on="n1", container=WEB_PORT, meta=TERMINATING), pod("p", container=WEB_PORT)],
        {"p": "n0"}, {"p": "n1"},
    ),
    "affinity to a pod in another zone": (
        [A, B, pod("old", on="n1", labels=X), pod("p", affinity=LIKES_X)], {"p": "n1"}, {"p": "n0"},
    ),
    "affinity to a pod of another namespace": (
        [
            A, B, pod("old", on="n1", labels=X), pod("far", on="n0", labels=X, namespace="other"),
            pod("p", affinity=LIKES_X),
        ],
        {"p": "n1"}, {"p": "n0"},
    ),
    "a node without the label of the affinity": (
        [*zones("a", ""), pod("old", on="n0", labels=X), pod("p", affinity=LIKES_X)], {"p": "n0"}, {"p": "n1"},
    ),
    "two first pods of one affinity": (
        [A, B, pod("p", labels=X, affinity=LIKES_X), pod("q", labels=X, affinity=LIKES_X)],
        {"p": "n0", "q": "n0"}, {"p": "n0", "q": "n1"},
    ),
    "a first pod though somebody was there": (
        [A, B, pod("old", on="n1", labels=X), pod("p", labels=X, affinity=LIKES_X)], {"p": "n1"}, {"p": "n0"},
    ),
    "two terms that no single pod satisfies": (
        [
            A, B, pod("both", on="n1", labels=X | {"tier": "t"}), pod("one", on="n0", labels=X),
            pod("other", on="n0", labels={"tier": "t"}),
            pod("p", affinity=affinity(required=[near("x"), IN_TIER])),
        ],
        {"p": "n1"}, {"p": "n0"},
    ),
    "anti-affinity to a running pod": (
        [A, B, pod("old", on="n1", labels=X), pod("p", affinity=HATES_X)], {"p": "n0"}, {"p": "n1"},
    ),
    "anti-affinity of a running pod": (
        [A, B, pod("old", on="n1", affinity=HATES_X), pod("p", labels=X)], {"p": "n0"}, {"p": "n1"},
    ),
    "anti-affinity between two bound pods": (
        [A, B, pod("p", labels=X, affinity=HATES_X), pod("q", labels=X, affinity=HATES_X)],
        {"p": "n0", "q": "n1"}, {"p": "n0", "q": "n0"},
    ),
    "anti-affinity of a holder that is not selected itself": (
        [A, B, pod("p", labels=X, affinity=HATES_X), pod("old", on="n1", labels=Y, affinity=HATES_X)],
        {"p": "n0"}, {"p": "n1"},
    ),
    "anti-affinity to a terminating pod": (
        [A, B, pod("old", on="n1", labels=X, meta=TERMINATING), pod("p", affinity=HATES_X)], {"p": "n0"}, {"p": "n1"},
    ),
    "zone spread": (
        [A, B, *(pod(n, labels=X, topologySpreadConstraints=[spread("x")]) for n in "pqr")],
        {"p": "n0", "q": "n1", "r": "n0"}, {"p": "n0", "q": "n0", "r": "n0"},
    ),
    "zone spread beside a running pod": (
        [A, B, pod("old", on="n1", labels=X), pod("p", labels=X, topologySpreadConstraints=[spread("x")])],
        {"p": "n0"}, {"p": "n1"},
    ),
    "a node without the label of the spread constraint": (
        [*zones("a", ""), pod("p", labels=X, topologySpreadConstraints=[spread("x")])], {"p": "n0"}, {"p": "n1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG)
def test_the_right_placement_is_allowed_and_the_wrong_one_is_not(fault: str) -> None:
    objects, right, wrong = WRONG[fault]
    assert not judged(objects, right)
    with pytest.raises(AssertionError):
        judged(objects, wrong)


@pytest.mark.parametrize(
    ("left", "right", "together"),
    [
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),
    ],
)
def test_ports_of_other_protocols_and_addresses_are_others(
    left: dict[str, Any], right: dict[str, Any], together: bool
) -> None:
    objects = [A, pod("p", container={"ports": [left]}), pod("q", container={"ports": [right]})]
    if together:
        judged(objects, {"p": "n0", "q": "n0"})
    else:
        with pytest.raises(AssertionError, match="host port"):
            judged(objects, {"p": "n0", "q": "n0"})


def test_a_terminating_pod_does_not_count_for_spread() -> None:
    constraint = {"topologySpreadConstraints": [spread("x")], "labels": X}
    objects = [A, B, pod("old", on="n1", labels=X, meta=TERMINATING), pod("p", **constraint), pod("q", **constraint)]
    assert not judged(objects, {"p": "n0", "q": "n1"})


def test_the_policies_of_a_spread_constraint_decide_which_domains_count() -> None:
    """The tainted zone is empty: with Honor it does not count for a pod that does not tolerate the taint."""
    objects = [A, node("n9", labels={ZONE: "c"}, taints=[GPU_TAINT])]
    honoured = pod("p", labels=X, topologySpreadConstraints=[spread("x") | {"nodeTaintsPolicy": "Honor"}])
    ignored = pod("p", labels=X, topologySpreadConstraints=[spread("x")])
    old = pod("old", on="n0", labels=X)
    assert not judged([*objects, old, honoured], {"p": "n0"})
    with pytest.raises(AssertionError, match="skew"):
        judged([*objects, old, ignored], {"p": "n0"})


def test_what_cannot_be_judged_from_the_end_is_named() -> None:
    """A pod without the constraint came too: before it or after it, the plan does not say."""
    objects = [A, B, pod("p", labels=X, topologySpreadConstraints=[spread("x")]), pod("q", labels=X)]
    assert judged(objects, {"p": "n0", "q": "n0"}) == {"default/p"}


def test_a_rule_that_the_checker_does_not_know_is_no_pass() -> None:
    term = near("x") | {"namespaceSelector": {}}
    with pytest.raises(AssertionError, match="knows no namespaceSelector"):
        judged([A, pod("p", affinity=affinity(anti=[term]))], {"p": "n0"})


def test_a_promised_node_must_be_one_that_the_pod_may_use() -> None:
    objects = [*zones("a", "b"), pod("p", nodeSelector={ZONE: "b"})]
    judged(objects, {}, pipelined={"default/p": "n1"})
    with pytest.raises(AssertionError, match="node selector"):
        judged(objects, {}, pipelined={"default/p": "n0"})


# --- volumes


def volume(name: str, **more: Any) -> list[Manifest]:
    """A bound claim of the default namespace and its volume."""
    source = {"csi": {"driver": "d", "volumeHandle": name}, **more}
    return [
        manifest("v1", "PersistentVolume", f"pv-{name}", spec=source),
        manifest("v1", "PersistentVolumeClaim", name, spec={"volumeName": f"pv-{name}"}),
    ]


def user(name: str, claim: str, on: str = "") -> Manifest:
    return pod(name, on=on, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}])


def test_more_volumes_than_the_driver_attaches_are_refused() -> None:
    driver = {"name": "d", "nodeID": "n1", "allocatable": {"count": 1}}
    limit = manifest("storage.k8s.io/v1", "CSINode", "n1", spec={"drivers": [driver]})
    objects = [A, B, limit, *volume("c0"), *volume("c1"), user("old", "c0", "n1"), user("p", "c1")]
    assert not judged(objects, {"p": "n0"})
    with pytest.raises(AssertionError, match="2 volumes"):
        judged(objects, {"p": "n1"})


def test_a_volume_that_the_node_cannot_reach_is_refused() -> None:
    here = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]}
    objects = [A, B, *volume("c0", nodeAffinity={"required": here}), user("p", "c0")]
    assert not judged(objects, {"p": "n0"})
    with pytest.raises(AssertionError, match="cannot be reached"):
        judged(objects, {"p": "n1"})


def test_a_claim_that_is_not_bound_is_not_judged() -> None:
    claim = manifest("v1", "PersistentVolumeClaim", "c0", spec={})
    assert judged([A, claim, user("p", "c0")], {"p": "n0"}) == {"default/p"}
