"""An extender that was started again, or has not read the cluster yet."""

from __future__ import annotations

import msgspec
import pytest

from builders import node_groups as sample
from muster.groupctl.extender.group_scheduling import GroupScheduling
from muster.groupctl.extender.reservations import RESERVATION_TTL_S
from muster.groupctl.extender.service import StandbyScheduling
from muster.groups.assignment import ASSIGNED
from muster.model.core import Pod
from muster.model.extender import ExtenderArgs, MetaPod, MetaVictims, PreemptionArgs
from muster.model.meta import Object, OwnerReference
from muster.store import ApiError

NODES = list(sample.CITIES)
HANGZHOU, BEIJING = NODES[:2], NODES[2:]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def nobody(kind: str, key: str, uid: str) -> Object | None:
    return None


def asked(one: Object) -> ExtenderArgs:
    assert isinstance(one, Pod)
    return ExtenderArgs(Pod(metadata=one.metadata), NODES)


def started(*more: Object) -> tuple[GroupScheduling, Clock]:
    clock = Clock()
    store = sample.store_of(
        *sample.nodes(), *sample.groups(), sample.weights(), *sample.deployment(sample.bound()), *more
    )
    return GroupScheduling(store, fetch_owner=nobody, now=clock), clock


def test_pods_that_waited_when_it_started_may_be_on_their_way_to_any_group() -> None:
    waiting = [sample.nginx_pod(f"w{i}") for i in range(3)]
    extender, _ = started(*sample.pods({"node-c": 1, "node-a": 1}), *waiting)
    # beijing has 1 of 2, hangzhou 1 of 3: two others may fill either.
    assert extender.filter(asked(waiting[0])).node_names == []
    # w0 asked and was refused, so it is on its way to nowhere: hangzhou has capacity for w1 whatever w2 does.
    assert extender.filter(asked(waiting[1])).node_names == HANGZHOU


def test_after_thirty_seconds_nobody_is_on_the_way_any_more() -> None:
    waiting = [sample.nginx_pod(f"w{i}") for i in range(6)]
    extender, clock = started(*waiting)
    assert extender.filter(asked(waiting[0])).node_names == []
    clock.now = RESERVATION_TTL_S
    assert extender.filter(asked(waiting[1])).node_names == NODES


def test_nobody_waits_for_pods_of_which_nothing_is_known() -> None:
    waiting = [sample.nginx_pod(f"w{i}") for i in range(6)]
    extender, clock = started(*waiting)
    extender.filter(asked(waiting[0]))
    assert extender.waits == 0 and clock.now == 0.0


def test_in_a_cluster_from_files_pods_that_wait_were_never_answered() -> None:
    store = sample.store_of(
        *sample.nodes(),
        *sample.groups(),
        sample.weights(),
        *sample.deployment(sample.bound()),
        *[sample.nginx_pod(f"w{i}") for i in range(6)],
    )
    assert GroupScheduling(store).reserved == 0


def test_a_pod_that_the_webhook_made_for_a_group_goes_to_no_other() -> None:
    extender, _ = started()
    mine = sample.nginx_pod("mine", labels={ASSIGNED: "beijing"})
    result = extender.filter(asked(mine))
    assert result.node_names == BEIJING
    why = msgspec.json.decode(result.failed_and_unresolvable_nodes["node-a"])
    assert why == "the pod was made for node group beijing, the node is in hangzhou"
    victims = {name: MetaVictims([MetaPod("v")]) for name in NODES}
    kept = extender.preempt(PreemptionArgs(Pod(metadata=mine.metadata), victims)).victims
    assert list(kept) == BEIJING


def test_an_owner_that_is_not_seen_yet_is_asked_for() -> None:
    top, below = sample.deployment({sample.REQUIRED: "pp"})
    found = {"Deployment": top, "ReplicaSet": below}
    store = sample.store_of(*sample.nodes(), *sample.groups(), sample.weights())
    extender = GroupScheduling(store, fetch_owner=lambda kind, key, uid: found[kind])
    assert extender.filter(asked(sample.nginx_pod("p"))).node_names == []
    alone = GroupScheduling(store, fetch_owner=nobody)
    assert alone.filter(asked(sample.nginx_pod("p"))).node_names == NODES


def refuses(kind: str, key: str, uid: str) -> Object | None:
    raise ApiError("", "the API server does not answer")


def test_when_an_owner_cannot_be_asked_for_the_answer_is_an_error() -> None:
    store = sample.store_of(*sample.nodes(), *sample.groups(), sample.weights())
    assert "does not answer" in GroupScheduling(store, fetch_owner=refuses).filter(asked(sample.nginx_pod("p"))).error


def unread(labels: dict[str, str], *, gate_override: bool = False) -> StandbyScheduling:
    top, below = sample.deployment(labels)
    found = {"Deployment": top, "ReplicaSet": below}
    return StandbyScheduling(
        lambda kind, key, uid: found[kind], lambda: "not read yet", frozenset, gate_override=gate_override
    )


def test_before_the_cluster_is_read_pods_without_a_policy_pass() -> None:
    assert unread({}).filter(asked(sample.nginx_pod("p"))).node_names == NODES
    by_itself = StandbyScheduling(refuses, lambda: "not read yet", frozenset)
    assert by_itself.filter(asked(sample.nginx_pod("p", of={}))).node_names == NODES


def test_before_the_cluster_is_read_an_application_that_is_not_bound_waits_and_a_bound_one_comes_again() -> None:
    result = unread({sample.REQUIRED: "pp"}).filter(asked(sample.nginx_pod("p")))
    assert result.node_names == [] and sorted(result.failed_and_unresolvable_nodes) == NODES
    assert unread(sample.bound()).filter(asked(sample.nginx_pod("p"))).error == "not read yet"
    assert (
        "does not answer"
        in StandbyScheduling(refuses, lambda: "", frozenset).filter(asked(sample.nginx_pod("p"))).error
    )


def test_before_the_configured_kinds_are_known_a_pod_of_an_unknown_owner_comes_again() -> None:
    """Its owner may be an application by configuration, and may require a policy."""
    top, below = sample.deployment({}, name="shop")
    rollout = OwnerReference(api_version="apps.example.io/v1", kind="Rollout", name="shop", uid="u", controller=True)
    top.metadata.owner_references = [rollout]
    found = {"Deployment": top, "ReplicaSet": below}
    one = sample.nginx_pod("p", of=sample.owner("ReplicaSet", "shop-1"))
    for kinds, passes in ((None, False), ((), True)):
        extender = StandbyScheduling(
            lambda kind, key, uid: found[kind], lambda: "not read yet", lambda kinds=kinds: kinds
        )
        result = extender.filter(asked(one))
        assert (result.node_names == NODES, "may be an application" in result.error) == (passes, not passes)


def test_before_the_cluster_is_read_pods_wait_for_an_override_policy_if_configured() -> None:
    labels = {sample.REQUIRED_OVERRIDE: "op"}
    assert unread(labels).filter(asked(sample.nginx_pod("p"))).node_names == NODES
    assert unread(labels, gate_override=True).filter(asked(sample.nginx_pod("p"))).node_names == []


@pytest.mark.parametrize(("labels", "kept"), [({}, NODES), (sample.bound(), [])])
def test_before_the_cluster_is_read_only_free_pods_preempt_and_all_nodes_are_worth_the_same(
    labels: dict[str, str], kept: list[str]
) -> None:
    extender, one = unread(labels), sample.nginx_pod("p")
    victims = {name: MetaVictims([MetaPod("v")]) for name in NODES}
    assert list(extender.preempt(PreemptionArgs(Pod(metadata=one.metadata), victims)).victims) == kept
    assert {score.score for score in extender.prioritize(asked(one))} == {0}
