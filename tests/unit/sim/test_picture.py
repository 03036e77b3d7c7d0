"""What pictures and tables call a pod's PodGroup: its name, if it was given one."""

from __future__ import annotations

from builders.manifests import node, state_of
from builders.small_cluster import member_pod, pod_group, task
from muster.engine.core.podgroups import GROUP
from muster.sim.picture import group_of


def test_a_group_that_was_written_has_its_name_whatever_that_is() -> None:
    state = state_of(node("n1"), pod_group("podgroup-mine"), member_pod("a", "podgroup-mine"))
    assert group_of(task(state, "a")) == "podgroup-mine"


def test_a_group_in_memory_has_none() -> None:
    alone = member_pod("a", "")
    alone.metadata.annotations.pop(GROUP, None)
    assert group_of(task(state_of(node("n1"), alone), "a")) == ""
