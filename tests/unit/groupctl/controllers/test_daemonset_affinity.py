"""The node groups of a DaemonSet as required node affinity: written, kept beside the user's own terms, taken back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders.node_groups import (
    BINDING,
    CONTAINERS,
    REQUIRED,
    groups,
    nginx_pod,
    nodes,
    owner,
    store_of,
    thing,
    weights,
)
from muster.cluster.memory import MemoryStore, VirtualClock
from muster.groupctl.controllers.daemonset_affinity import MARK, _joined
from muster.groupctl.controllers.eviction_queue import EvictionQueue
from muster.groupctl.controllers.nodegroup import NodeGroupController
from muster.groupctl.controllers.propagation import PropagationPolicyController
from muster.model.affinity import NodeSelectorTerm
from muster.model.batch import DaemonSet
from muster.model.core import Pod
from muster.model.groups import BoundApplication, PropagationPolicy
from muster.model.meta import Condition, Object
from muster.model.selectors import asks_for

MEMBER = "nodegroup.groupmanagement.kubeedge.io/"
IN = {
    "beijing": {"key": f"{MEMBER}beijing", "operator": "Exists"},
    "hangzhou": {"key": f"{MEMBER}hangzhou", "operator": "Exists"},
}
SSD = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}


def daemon_set(own: list[dict[str, Any]] | None = None, labels: dict[str, str] | None = None) -> Object:
    spec: dict[str, Any] = {"containers": CONTAINERS}
    if own is not None:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": own}}
        spec["affinity"] = {"nodeAffinity": required, "podAntiAffinity": {}}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": spec}
    meta = {"labels": {REQUIRED: "pp"} if labels is None else labels}
    return thing("apps/v1", "DaemonSet", "agent", meta, spec={"template": template})


class Cluster:
    def __init__(self, app: Object, *more: Object, **options: Any) -> None:
        self.store: MemoryStore = store_of(*nodes(), *groups(), weights(), app, *more)
        self.options = options
        self.start()

    def start(self) -> None:
        self.controller = PropagationPolicyController(self.store, EvictionQueue(self.store), **self.options)
        self.nodes = NodeGroupController(self.store, labels=True)

    def after(self, seconds: float = 0.0) -> None:
        clock = self.store.clock
        assert isinstance(clock, VirtualClock)
        clock.advance(clock.now() + seconds)
        while self.nodes.run() | self.controller.run():
            pass

    @property
    def agent(self) -> DaemonSet:
        return self.store.get(DaemonSet, "default/agent")

    def terms(self) -> list[Any] | None:
        affinity = self.agent.spec.template.spec.affinity
        required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
        return None if required is None else [msgspec.to_builtins(term) for term in required.node_selector_terms]

    def write(self, terms: list[dict[str, Any]] | None) -> None:
        """A user changes the required node affinity."""
        required = {
            "requiredDuringSchedulingIgnoredDuringExecution": None if terms is None else {"nodeSelectorTerms": terms}
        }
        affinity = {"affinity": {"nodeAffinity": required}}
        self.store.patch(DaemonSet, "default/agent", {"spec": {"template": {"spec": affinity}}})

    def label(self, value: str | None) -> None:
        self.store.patch(DaemonSet, "default/agent", {"metadata": {"labels": {REQUIRED: value}}})

    def reported(self) -> BoundApplication:
        (found,) = self.store.get(PropagationPolicy, "default/pp").status.applications
        return found

    def satisfied(self) -> Condition:
        conditions = self.store.get(PropagationPolicy, "default/pp").status.conditions
        return next(c for c in conditions if c.type == "Satisfied")


def test_the_groups_become_a_required_node_affinity_and_go_again() -> None:
    cluster = Cluster(daemon_set())
    cluster.after()
    assert cluster.terms() == [{"matchExpressions": [IN["beijing"]]}, {"matchExpressions": [IN["hangzhou"]]}]
    assert cluster.reported().node_affinity == ["beijing", "hangzhou"]
    version = cluster.store.version
    cluster.start()
    cluster.after(60)
    assert cluster.store.version == version
    cluster.label(None)
    cluster.after()
    assert cluster.terms() is None
    assert MARK not in cluster.agent.metadata.annotations and BINDING not in cluster.agent.metadata.labels


def test_the_users_own_terms_hold_beside_them_and_come_back() -> None:
    cluster = Cluster(daemon_set([SSD, NAMED]))
    cluster.after()
    both = [*SSD["matchExpressions"], IN["hangzhou"]]
    assert cluster.terms() is not None and len(cluster.terms() or ()) == 4
    assert {"matchExpressions": both} in (cluster.terms() or ())
    assert {**NAMED, "matchExpressions": [IN["beijing"]]} in (cluster.terms() or ())
    assert "own required node affinity are kept" in cluster.reported().node_affinity_message
    cluster.start()
    cluster.label(None)
    cluster.after()
    assert cluster.terms() == [SSD, NAMED]


@pytest.mark.parametrize(
    "value",
    [
        '{"x": ' + "[" * 100_000,
        '{"terms": 5, "groups": ["beijing", "hangzhou"]}',
        '{"terms": [3], "groups": ["beijing"]}',
        '{"terms": [{"matchExpressions": 7}], "groups": ["beijing"]}',
        '{"terms": null, "groups": 5}',
        "",
    ],
    ids=["nested", "a number", "a number in terms", "a number in a term", "groups", "empty"],
)
def test_an_annotation_that_somebody_else_wrote_keeps_the_terms_of_the_template(value: str) -> None:
    app = daemon_set([SSD])
    app.metadata.annotations[MARK] = value
    cluster = Cluster(app)
    cluster.after()
    both = [*SSD["matchExpressions"], IN["hangzhou"]]
    assert {"matchExpressions": both} in (cluster.terms() or ()) and len(cluster.terms() or ()) == 2
    cluster.label(None)
    cluster.after()
    assert cluster.terms() == [SSD]


@pytest.mark.parametrize("own", [None, [SSD]])
def test_what_the_user_changes_meanwhile_is_joined_again_and_comes_back(own: list[dict[str, Any]] | None) -> None:
    cluster = Cluster(daemon_set(own))
    cluster.after()
    cluster.write([NAMED])
    cluster.after(20)
    assert cluster.terms() == _joined([NAMED], ["beijing", "hangzhou"])
    cluster.label(None)
    cluster.after()
    assert cluster.terms() == [NAMED]


def test_a_tool_that_undoes_it_again_and_again_causes_ever_fewer_roll_outs() -> None:
    cluster = Cluster(daemon_set([SSD]))
    cluster.after()
    before = cluster.agent.metadata.generation
    for _ in range(600):  # every ten seconds, for 100 minutes
        if cluster.terms() != [SSD]:
            cluster.write([SSD])
        cluster.after(10)
    assert cluster.agent.metadata.generation - before < 2 * 12
    assert "somebody else took the node affinity of the node groups away" in cluster.reported().node_affinity_message


def test_another_policy_writes_other_groups_and_keeps_the_users_terms() -> None:
    cluster = Cluster(daemon_set([SSD]), weights("other", beijing=1))
    cluster.after()
    cluster.label("other")
    cluster.after()
    assert cluster.terms() == _joined([SSD], ["beijing"])
    cluster.label(None)
    cluster.after()
    assert cluster.terms() == [SSD]


def test_while_the_policy_is_only_missing_the_affinity_stays() -> None:
    cluster = Cluster(daemon_set())
    cluster.after()
    terms = cluster.terms()
    cluster.store.remove(PropagationPolicy, "default/pp")
    cluster.after()
    assert BINDING not in cluster.agent.metadata.labels
    assert cluster.terms() == terms


def test_a_required_affinity_that_matches_no_node_is_left_alone() -> None:
    cluster = Cluster(daemon_set([{}]))
    cluster.after()
    assert cluster.terms() == [{}]
    assert "matches no node" in cluster.reported().node_affinity_message


def test_it_waits_until_the_nodes_have_the_label_that_it_asks_for() -> None:
    cluster = Cluster(daemon_set())
    while cluster.controller.run():
        pass
    assert cluster.terms() is None
    assert "node node-a has no label of its node group" in cluster.reported().node_affinity_message
    cluster.after()
    assert cluster.terms() is not None and cluster.reported().node_affinity_message == ""


def test_with_the_switch_off_it_is_only_reported_and_pending_pods_are_not_satisfied() -> None:
    waits = nginx_pod("agent-x", of=owner("DaemonSet", "agent"))
    assert isinstance(waits, Pod)
    message = "0/5 nodes are available: 1 node is in no node group of PropagationPolicy pp."
    waits.status.conditions = [Condition(type="PodScheduled", status="False", message=message)]
    cluster = Cluster(daemon_set(), waits, daemonset_affinity="--daemonset-affinity=false")
    cluster.after()
    assert cluster.terms() is None
    assert cluster.reported().node_affinity == []
    assert cluster.reported().node_affinity_message == "node affinity is not written: --daemonset-affinity=false"
    reported = cluster.satisfied()
    assert (reported.status, reported.reason) == ("False", "Pending")
    assert "agent-x has no node: 0/5 nodes are available" in reported.message


LABELS = st.dictionaries(
    st.sampled_from(["disk", "zone", f"{MEMBER}beijing", f"{MEMBER}hangzhou"]), st.sampled_from("ab")
)
WISHES = st.builds(
    lambda key, values: {"key": key, "operator": "In", "values": values},
    st.sampled_from(["disk", "zone"]), st.lists(st.sampled_from("ab"), min_size=1),
)  # fmt: skip
TERMS = st.lists(
    st.one_of(st.just({}), st.builds(lambda w: {"matchExpressions": w}, st.lists(WISHES, min_size=1))), min_size=1
)


@given(labels=LABELS, own=st.one_of(st.none(), TERMS))
def test_a_node_matches_the_joined_terms_if_it_matches_the_users_and_is_in_a_group(
    labels: dict[str, str], own: list[dict[str, Any]] | None
) -> None:
    def matches(terms: list[dict[str, Any]] | None) -> bool:
        if terms is None:
            return True
        spec: Any = daemon_set(terms)
        return bool(asks_for(spec.spec.template.spec, "node", labels))

    joined = _joined(own, ["beijing", "hangzhou"])
    in_a_group = any(label.startswith(MEMBER) for label in labels)
    assert (bool(joined) and matches(joined)) == (matches(own) and in_a_group)
    assert all(msgspec.convert(term, NodeSelectorTerm) for term in joined)
