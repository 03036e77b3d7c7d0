"""Small gangs that only another order or arrangement of their pods can place."""

from __future__ import annotations

from typing import Any

import pytest

import muster
from builders.manifests import Manifest, group, node, pod
from oracles.group_placement import HARD, HOST, random_group


def follower(name: str, app: str, of: str, **more: Any) -> Manifest:
    term = {"labelSelector": {"matchLabels": {"app": of}}, "topologyKey": HOST}
    return pod(name, "g", labels={"app": app}, affinity={"podAffinity": {HARD: [term]}}, **more)


@pytest.mark.parametrize("seed", [197, 423, 833])
def test_groups_that_were_hard_to_place(seed: int) -> None:
    """A follower's only node, rules over zones, and a pod that may only start its series."""
    case = random_group(seed)
    assert len(muster.simulate(case.objects).binds) == len(case.pods)


def test_a_pod_that_follows_another_may_come_after_it() -> None:
    nodes = [node(f"n{i}", cpu=2, labels={HOST: f"n{i}"}) for i in range(2)]
    pods = [follower("a-0", "a", "b"), pod("z-1", "g", labels={"app": "b"})]
    result = muster.simulate([*nodes, group("g", minMember=2), *pods])
    assert result.binds["default/a-0"] == result.binds["default/z-1"]


def test_pods_with_roles_are_placed_as_volcano_places_them() -> None:
    """Its error cache keeps a node from all pods of a role on which one of them failed."""
    role = {"volcano.sh/task-spec": "worker"}
    nodes = [node("n0", cpu=2, labels={HOST: "n0"})]
    pods = [follower("a-0", "a", "b", annotations=role), pod("z-1", "g", labels={"app": "b"}, annotations=role)]
    assert muster.simulate([*nodes, group("g", minMember=2), *pods]).binds == {}
