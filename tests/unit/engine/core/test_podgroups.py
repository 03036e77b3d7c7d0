"""The group of pods that name none: named by their owner, with the requirements that the owner's annotation says."""

from __future__ import annotations

import pytest

from builders.manifests import node, pod, state_of, typed
from muster.engine.core.podgroups import (
    NETWORK_MODE,
    NETWORK_TIER,
    derived_group,
    group_name,
    owners_of_group,
)
from muster.model.batch import Job, ReplicaSet
from muster.model.core import Pod
from muster.model.meta import ObjectMeta, OwnerReference
from muster.model.scheduling import NetworkTopology
from muster.workloads import MIN_MEMBER


def replica_set(members: str, uid: str = "u") -> ReplicaSet:
    notes = {MIN_MEMBER: members, "volcano.sh/preemptable": "true", "team": "a"}
    return ReplicaSet(metadata=ObjectMeta(name="web-1", namespace="default", uid=uid, annotations=notes))


def owned(name: str, on: str = "", uid: str = "u") -> Pod:
    one = typed(pod(name, on=on, cpu=1))
    one.metadata.owner_references = [
        OwnerReference(
            api_version="apps/v1", kind="ReplicaSet", name="web-1", uid=uid, controller=True, block_owner_deletion=True
        )
    ]
    return one


def test_a_group_has_the_uid_of_the_controller_or_of_the_pod_in_its_name() -> None:
    alone = typed(pod("a"))
    alone.metadata.uid = "p"
    assert (group_name(owned("b")), group_name(alone)) == ("podgroup-u", "podgroup-p")


def test_the_owners_annotation_says_how_many_pods_start_together() -> None:
    group = derived_group(owned("a"), {"cpu": 1500, "memory": 2**20, "pods": 1}, replica_set("4"))
    assert group.spec.min_member == 4
    assert group.spec.min_resources == {"cpu": "6", "memory": "4Mi"}
    assert group.metadata.annotations == {"volcano.sh/preemptable": "true"}


@pytest.mark.parametrize(("text", "members"), [("0", 0), ("-3", 1), ("many", 1), ("", 1), (str(2**31), 1)])
def test_a_number_that_is_none_is_one(text: str, members: int) -> None:
    assert derived_group(owned("a"), {}, replica_set(text)).spec.min_member == members


def test_a_pod_may_say_how_near_its_group_must_be() -> None:
    near = typed(pod("a"))
    near.metadata.annotations = {NETWORK_MODE: "Soft", NETWORK_TIER: "2"}
    assert derived_group(near, {}, None).spec.network_topology == NetworkTopology(mode="soft", highest_tier_allowed=2)


def test_a_written_group_goes_with_the_owners_and_keeps_none_of_them_waiting() -> None:
    alone = typed(pod("a"))
    alone.metadata.uid = "p"
    (pods,), (sets,) = owners_of_group(alone), owners_of_group(owned("b"))
    assert (pods.kind, pods.uid, pods.controller) == ("Pod", "p", True)
    assert (sets.kind, sets.uid, sets.block_owner_deletion) == ("ReplicaSet", "u", False)


def test_a_group_in_memory_follows_its_owner_in_whatever_order_they_come() -> None:
    for first in ("owner", "pods"):
        state = state_of(node("n1"))
        if first == "owner":
            state.upsert("ReplicaSet", "default/web-1", replica_set("2"))
        for name in ("a", "b"):
            state.upsert("Pod", f"default/{name}", owned(name))
        if first == "pods":
            state.upsert("ReplicaSet", "default/web-1", replica_set("2"))
        state.refresh()
        assert state.jobs["default/podgroup-u"].min_available == 2
    state.upsert("ReplicaSet", "default/web-1", replica_set("3"))
    state.refresh()
    assert state.jobs["default/podgroup-u"].min_available == 3


def test_an_owner_of_the_same_name_but_another_uid_or_kind_says_nothing() -> None:
    state = state_of(node("n1"))
    state.upsert("ReplicaSet", "default/web-1", replica_set("2", uid="other"))
    state.upsert("Job", "default/web-1", Job(metadata=ObjectMeta(name="web-1", annotations={MIN_MEMBER: "5"})))
    state.upsert("Pod", "default/a", owned("a"))
    state.refresh()
    assert state.jobs["default/podgroup-u"].min_available == 1


def test_pods_stay_together_when_their_group_is_written_and_when_it_is_deleted() -> None:
    state = state_of(node("n1"), owned("a"), owned("b", "n1"))
    written = derived_group(owned("a"), {"cpu": 1000}, replica_set("2"))
    state.upsert("PodGroup", "default/podgroup-u", written)
    job = state.jobs["default/podgroup-u"]
    assert (job.min_available, set(job.tasks)) == (2, {"default/a", "default/b"})
    state.remove("PodGroup", "default/podgroup-u")
    state.refresh()
    job = state.jobs["default/podgroup-u"]
    assert (job.min_available, set(job.tasks)) == (1, {"default/a", "default/b"})
    assert all(state.tasks[key].job is job for key in job.tasks)
