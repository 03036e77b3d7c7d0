"""The plugin propagation: the extender's rules inside muster's own scheduler."""

from __future__ import annotations

from builders import node_groups as sample
from builders.manifests import state_of
from builders.small_cluster import option, session_of
from muster.engine.core.jobs import Status
from muster.engine.core.session import Session
from muster.engine.placement.trace import NodeTrace, explain
from muster.model.meta import Object


def opened(*objects: Object) -> Session:
    return session_of(state_of(*sample.nodes(), *sample.groups(), sample.weights(), *objects), option("propagation"))


def traced(session: Session, name: str = "new") -> dict[str, NodeTrace]:
    return explain(session, session.state.tasks[f"default/{name}"])


def feasible(session: Session, name: str = "new") -> list[str]:
    return [node for node, trace in traced(session, name).items() if trace.feasible]


def test_full_groups_and_nodes_outside_are_refused_and_the_greater_lack_scores_more() -> None:
    found = traced(
        opened(
            *sample.deployment(sample.bound()),
            sample.city_node("far"),
            *sample.pods({"node-c": 1}),
            sample.nginx_pod("new"),
        )
    )
    assert {name: trace.scores["propagation"] for name, trace in found.items()} == {
        "far": 0, "node-a": 500, "node-b": 500, "node-c": 150, "node-d": 150, "node-e": 150,
    }  # fmt: skip
    reason = found["far"].reasons[0][1]
    assert (reason.code, reason.resolvable) == ("no-group", False)
    found = traced(opened(*sample.deployment(sample.bound()), *sample.pods({"node-c": 2}), sample.nginx_pod("new")))
    assert found["node-e"].reasons[0][2] == "node group beijing already has 2 of 2 replicas"


def test_without_labels_it_has_nothing_to_say() -> None:
    session = opened(*sample.deployment(), sample.nginx_pod("new"))
    assert len(feasible(session)) == 5
    assert {trace.scores["propagation"] for trace in traced(session).values()} == {0}


def test_an_application_that_is_not_bound_goes_nowhere() -> None:
    assert feasible(opened(*sample.deployment({sample.REQUIRED: "pp"}), sample.nginx_pod("new"))) == []
    assert (
        feasible(opened(*sample.deployment({sample.REQUIRED: "pp", sample.BINDING: "old"}), sample.nginx_pod("new")))
        == []
    )
    assert feasible(opened(*sample.deployment(sample.bound("gone")), sample.nginx_pod("new"))) == []


def test_placements_of_the_cycle_count_and_their_undoing_too() -> None:
    session = opened(
        *sample.deployment(sample.bound()),
        sample.nginx_pod("new-0-1"),
        sample.nginx_pod("new-0-2"),
        sample.nginx_pod("other", of={}),
    )
    first, second = (session.state.tasks[f"default/new-0-{i}"] for i in (1, 2))
    assert feasible(session, "new-0-2") == ["node-a", "node-b", "node-c", "node-d", "node-e"]
    statement = session.statement()
    for task, at in ((first, "node-c"), (second, "node-d")):
        statement.allocate([task], [session.state.nodes.rank[at]])
    assert session.state.tasks["default/new-0-1"].status == Status.ALLOCATED
    assert feasible(session, "new-0-2") == ["node-a", "node-b"]
    statement.rollback()
    assert len(feasible(session, "new-0-2")) == 5
    assert len(feasible(session, "other")) == 5


def test_evicted_pods_give_their_place_back() -> None:
    session = opened(*sample.deployment(sample.bound()), *sample.pods({"node-c": 2}), sample.nginx_pod("new"))
    assert feasible(session) == ["node-a", "node-b"]
    session.statement().evict(session.state.tasks["default/p-node-c-0"], None, "preempt")
    assert len(feasible(session)) == 5


def test_a_daemon_sets_pods_are_only_kept_inside_the_groups() -> None:
    daemon = sample.thing("apps/v1", "DaemonSet", "d", {"labels": sample.bound()}, spec={"template": sample.TEMPLATE})
    many = [sample.nginx_pod(f"d-{i}", "node-c", of=sample.owner("DaemonSet", "d")) for i in range(6)]
    session = opened(daemon, sample.city_node("far"), *many, sample.nginx_pod("new", of=sample.owner("DaemonSet", "d")))
    assert feasible(session) == ["node-a", "node-b", "node-c", "node-d", "node-e"]


def test_pods_of_an_owner_that_is_not_there_stand_for_themselves() -> None:
    lost = sample.owner("ReplicaSet", "gone")
    labelled = {"labels": sample.bound()}
    session = opened(
        sample.city_node("far"), sample.nginx_pod("new", of=lost), sample.nginx_pod("own", of=lost, **labelled)
    )
    assert "far" in feasible(session)
    assert "far" not in feasible(session, "own")


def test_a_pod_that_waits_for_a_group_without_nodes_or_that_does_not_exist_names_it() -> None:
    empty = sample.node_group("empty", location="nowhere")
    few = session_of(
        state_of(*sample.nodes(), sample.city_node("far"), *sample.groups(), empty,
                 sample.weights("pp", beijing=1, empty=1, missing=1),
                 *sample.deployment(sample.bound(), 3), *sample.pods({"node-c": 1}), sample.nginx_pod("new")),
        option("propagation"),
    )  # fmt: skip
    waits = (
        "1 replica waits for node group empty, which has no nodes, "
        "1 replica waits for node group missing, which does not exist"
    )
    found = traced(few)
    assert found["node-e"].reasons[0][2] == f"node group beijing already has 1 of 1 replicas; {waits}"
    assert found["far"].reasons[0][2] == f"node is in no node group of PropagationPolicy pp; {waits}"
