"""The nodegroup plugin over a session: verdicts, points, limits and node sets for all nodes at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builders.manifests import Manifest, node, queue, state_of
from builders.small_cluster import (
    affinity_queue,
    grouped_node,
    member_pod,
    node_group,
    option,
    pod_group,
    session_of,
    task,
)
from muster.engine.core.hooks import Batch, NodeSet
from muster.engine.core.session import Session
from muster.model.meta import Object
from muster.plugins.nodegroup import NodeGroup

NODES = [grouped_node("n1", "g1"), grouped_node("n2", "g2"), grouped_node("n3", "g2"), node("n4")]


def opened(
    *objects: Object | Manifest, arguments: dict[str, Any] | None = None, **switches: bool
) -> tuple[Session, NodeGroup]:
    session = session_of(state_of(*NODES, *objects), option("nodegroup", arguments, **switches))
    plugin = session.plugins[0]
    assert isinstance(plugin, NodeGroup)
    return session, plugin


def fits(session: Session, plugin: NodeGroup, name: str) -> list[str]:
    """The nodes that both filters let the pod use."""
    view, asker = session.state.nodes.everything(), task(session.state, name)
    ok = np.ones(len(view), np.bool_)
    for term in plugin.filters():
        if term.batch(asker) != Batch.SKIP:
            ok &= term.filter(asker, view).fits
    return [session.state.nodes.names[i] for i in np.flatnonzero(ok)]


def score(session: Session, plugin: NodeGroup, name: str) -> list[float]:
    return plugin.raw(task(session.state, name), session.state.nodes.everything()).tolist()


def job(queue: str) -> list[Object]:
    return [pod_group("j", queue), member_pod("j-0", "j")]


def test_hard_rules_filter_and_soft_rules_score() -> None:
    session, plugin = opened(affinity_queue("q", required=["g1", "g2"], preferred=["g1"]), *job("q"))
    assert fits(session, plugin, "j-0") == ["n1", "n2", "n3"]
    assert score(session, plugin, "j-0") == [150, 100, 100, 0]


def test_the_weight_multiplies_all_points() -> None:
    session, plugin = opened(affinity_queue("q", preferred=["g1"], avoided=["g2"]), *job("q"), arguments={"weight": 3})
    assert score(session, plugin, "j-0") == [150, -3, -3, 0]


def test_preferred_groups_may_have_weights_of_their_own() -> None:
    notes = {"muster.io/nodegroup-preferred-weights": '{"g1": 30}'}
    session, plugin = opened(affinity_queue("q", preferred=["g1", "g2"], annotations=notes), *job("q"))
    assert score(session, plugin, "j-0") == [30, 50, 50, 0]


def test_weights_come_with_the_affinity_they_belong_to() -> None:
    notes = {"muster.io/nodegroup-preferred-weights": '{"g1": 70}'}
    objects = [affinity_queue("dept", preferred=["g1"], annotations=notes), queue("team", parent="dept")]
    session, plugin = opened(*objects, *job("team"), enableHierarchy=True)
    assert score(session, plugin, "j-0") == [70, 0, 0, 0]


@pytest.mark.parametrize("text", ["{", "[]", '{"g1": "30"}', '{"g1": -1}', '{"g1": true}', "null"])
def test_weights_that_cannot_be_read_leave_the_usual_points(text: str) -> None:
    notes = {"muster.io/nodegroup-preferred-weights": text}
    session, plugin = opened(affinity_queue("q", preferred=["g1"], annotations=notes), *job("q"))
    assert score(session, plugin, "j-0") == [50, 0, 0, 0]
    assert any("nodegroup-preferred-weights" in warning for warning in session.warnings)


# --- NodeGroup objects


def test_a_node_group_object_is_a_group_by_names_and_labels() -> None:
    session, plugin = opened(
        node("n5", labels={"zone": "edge"}),
        node_group("edge", nodes=["n4"], labels={"zone": "edge"}),
        affinity_queue("q", required=["edge"]),
        *job("q"),
    )
    assert fits(session, plugin, "j-0") == ["n4", "n5"]
    assert score(session, plugin, "j-0") == [0, 0, 0, 100, 100]


def test_the_label_wins_where_both_exist_under_one_name_and_the_conflict_is_reported() -> None:
    session, plugin = opened(node_group("g1", nodes=["n4"]), affinity_queue("q", required=["g1"]), *job("q"))
    assert fits(session, plugin, "j-0") == ["n1"]
    assert [f.code for f in NodeGroup.examine(session)] == ["nodegroup-conflict"]


def test_an_object_with_the_labels_own_nodes_is_no_conflict() -> None:
    session, _ = opened(node_group("g1", nodes=["n1"]), affinity_queue("q", required=["g1"]))
    assert NodeGroup.examine(session) == []


def test_a_node_may_be_in_a_label_group_and_in_objects_groups() -> None:
    session, plugin = opened(
        node_group("fast", nodes=["n1", "n2"]), affinity_queue("q", preferred=["fast"], forbidden=["g1"]), *job("q")
    )
    assert fits(session, plugin, "j-0") == ["n2", "n3", "n4"]
    refused = plugin.filter(task(session.state, "j-0"), session.state.nodes.everything())
    assert refused.reasons[0].message() == "queue q must not use node group g1, node is in g1"
    assert score(session, plugin, "j-0") == [50, 50, 0, 0]


# --- limits

LIMITED = affinity_queue(
    "q", required=["g1", "g2"], annotations={"volcano.sh/nodegroup-resource-limits": '{"g2": {"cpu": "3"}}'}
)


def test_a_limit_counts_what_the_queue_uses_in_the_group_on_all_its_nodes() -> None:
    running = [pod_group("r", "q"), member_pod("r-0", "r", on="n2", cpu="2")]
    session, plugin = opened(
        LIMITED, *running, pod_group("j", "q"), member_pod("j-0", "j"), member_pod("j-1", "j", cpu="2")
    )
    assert fits(session, plugin, "j-0") == ["n1", "n2", "n3"]
    assert fits(session, plugin, "j-1") == ["n1"]
    refused = plugin.limits.filter(task(session.state, "j-1"), session.state.nodes.everything())
    assert refused.reasons[0].message() == "queue q may hold 3 cpu in node group g2, has 2 and requests 2"


def test_a_limit_follows_the_cycle_and_its_undoing() -> None:
    session, plugin = opened(
        LIMITED, pod_group("j", "q"), member_pod("j-0", "j", cpu="2"), member_pod("j-1", "j", cpu="2")
    )
    statement = session.statement()
    statement.allocate([task(session.state, "j-0")], [2])
    assert fits(session, plugin, "j-1") == ["n1"]
    statement.discard()
    assert fits(session, plugin, "j-1") == ["n1", "n2", "n3"]
    statement.pipeline([task(session.state, "j-0")], [1])
    assert fits(session, plugin, "j-1") == ["n1"]


def test_a_limit_binds_its_own_queue_only_and_is_not_inherited() -> None:
    child = queue("child", parent="q")
    session, plugin = opened(LIMITED, child, *job("child"), enableHierarchy=True)
    assert plugin.limits.batch(task(session.state, "j-0")) == Batch.SKIP


@pytest.mark.parametrize("text", ["", "{", "3", '{"g2": 3}', '{"g2": {"cpu": "x"}}', '{"g2": {"cpu": null}}'])
def test_nothing_of_a_queue_is_placed_while_its_limits_cannot_be_read(text: str) -> None:
    broken = queue("q", annotations={"volcano.sh/nodegroup-resource-limits": text})
    session, plugin = opened(broken, *job("q"))
    assert fits(session, plugin, "j-0") == []
    assert [(f.severity, f.code) for f in NodeGroup.examine(session)] == [("error", "nodegroup-limits")]


# --- one node group for a whole gang


def sets(session: Session, plugin: NodeGroup) -> list[list[str]]:
    names = session.state.nodes.names
    wanted = session.jobs["d/j"]
    relevant, found = plugin.node_sets(wanted, list(wanted.tasks.values()), NodeSet(np.arange(len(names))))
    assert relevant
    return [[names[i] for i in part.index] for part in found]


def test_without_the_annotation_the_plugin_divides_nothing() -> None:
    session, plugin = opened(affinity_queue("q", required=["g1"]), *job("q"))
    assert plugin.node_sets(session.jobs["d/j"], [], NodeSet(np.arange(4)))[0] is False


def one_group(queue_object: Object | Manifest, *more: Object) -> list[list[str]]:
    group = pod_group("j", "q", annotations={"muster.io/one-node-group": "true"})
    session, plugin = opened(queue_object, group, member_pod("j-0", "j"), *more)
    return sets(session, plugin)


def test_a_gang_is_tried_on_its_queues_groups_preferred_groups_first() -> None:
    assert one_group(affinity_queue("q", required=["g1", "g2"], preferred=["g2"])) == [["n2", "n3"], ["n1"]]


def test_a_queue_without_a_rule_may_use_any_one_group() -> None:
    assert one_group(queue("q")) == [["n1"], ["n2", "n3"]]


def test_avoided_groups_come_last_and_forbidden_groups_not_at_all() -> None:
    assert one_group(affinity_queue("q", avoided=["g1"])) == [["n2", "n3"], ["n1"]]
    assert one_group(affinity_queue("q", forbidden=["g1"])) == [["n2", "n3"]]


def test_the_rest_of_a_gang_goes_where_its_first_members_are() -> None:
    assert one_group(affinity_queue("q", preferred=["g1"]), member_pod("j-1", "j", on="n3")) == [["n2", "n3"]]


# --- a new cluster under an old plugin


def test_a_changed_label_is_noticed_in_the_next_cycle() -> None:
    session, plugin = opened(affinity_queue("q", required=["g1"]), *job("q"))
    session.close()
    session.state.upsert("Node", "n4", grouped_node("n4", "g1"))
    again = Session(session.state, session.config, session.tiers, 1.0)
    assert fits(again, plugin, "j-0") == ["n1", "n4"]
    again.close()
    session.state.upsert("Queue", "q", affinity_queue("q", required=["g2"]))
    assert fits(Session(session.state, session.config, session.tiers, 2.0), plugin, "j-0") == ["n2", "n3"]
