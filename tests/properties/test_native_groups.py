"""Native PodGroups: a small group that can be placed at all is placed, and following changes is reading afresh."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import muster
from builders.manifests import Manifest, manifest, node, pod
from muster.engine.core.state import State
from muster.model.kinds import decode
from muster.model.meta import Object, key
from oracles.group_placement import placeable, random_group
from properties.test_following import picture
from strategies.profiles import examples

PREEMPT = {
    "actions": "enqueue, allocate, preempt, backfill",
    "tiers": [
        {"plugins": [{"name": name} for name in ("priority", "gang", "conformance")]},
        {"plugins": [{"name": name} for name in ("predicates", "proportion", "nodeorder", "topology")]},
    ],
}


@pytest.mark.long
def test_a_hundred_of_a_hundred_small_groups_are_placed() -> None:
    placed = [len(muster.simulate(group.objects).binds) == len(group.pods) for group in placeable(100)]
    assert placed.count(True) == 100


@given(st.integers(0, 100_000))
@examples(100)
def test_a_small_group_is_placed_exactly_if_it_can_be(seed: int) -> None:
    group = random_group(seed)
    assert len(muster.simulate(group.objects).binds) == (0 if group.placement is None else len(group.pods))


@given(st.integers(0, 100_000))
@examples(20)
def test_a_small_group_with_a_topology_gets_its_victims(seed: int) -> None:
    group = random_group(seed, victims=True)
    if group.placement is None:
        return
    result = muster.simulate(group.objects, config=PREEMPT)
    assert len(result.binds) == len(group.pods)


# --- following


@st.composite
def native_objects(draw: st.DrawFn) -> list[Manifest]:
    """Groups, trees and Workloads with few names, so that they meet, are missing and form cycles."""
    names = ("a", "b", "c")
    versions = ("v1alpha2", "v1alpha3", "v1beta1")
    policies: list[dict[str, Any]] = [{"basic": {}}, {"gang": {"minCount": 2, "minGroupCount": 2}}]
    found = [node("n0", cpu=3, labels={"rack": "x"}), node("n1", cpu=3, labels={"rack": "y"})]
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        spec: dict[str, Any] = {"schedulingPolicy": draw(st.sampled_from(policies))}
        if draw(st.booleans()):
            spec["parentCompositePodGroupName"] = draw(st.sampled_from(names))
        if draw(st.booleans()):
            spec["workloadRef"] = {"workloadName": draw(st.sampled_from(names))}
        found.append(native(draw(st.sampled_from(versions)), "PodGroup", name, spec))
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        spec = {"schedulingPolicy": draw(st.sampled_from(policies))}
        if draw(st.booleans()):
            spec["parentCompositePodGroupName"] = draw(st.sampled_from(names))
        found.append(native("v1alpha3", "CompositePodGroup", name, spec))
    for name in draw(st.lists(st.sampled_from(names), unique=True)):
        groups = [{"name": "w", "policy": draw(st.sampled_from(policies))}]
        queue = {"scheduling.volcano.sh/queue-name": "q"} if draw(st.booleans()) else {}
        found.append(native("v1alpha1", "Workload", name, {"podGroups": groups}, queue))
    for i in range(draw(st.integers(0, 6))):
        group = draw(st.sampled_from(names))
        inside: dict[str, Any] = {"schedulingGroup": {"podGroupName": group}}
        if draw(st.booleans()):
            inside = {"workloadRef": {"name": group, "podGroup": "w", "podGroupReplicaKey": "0"}}
        on = draw(st.sampled_from(["", "n0"]))
        found.append(pod(f"p{i}", on=on, schedulerName=draw(st.sampled_from(["muster", "other"])), **inside))
    return found


def native(
    version: str, kind: str, name: str, spec: dict[str, Any], labels: dict[str, str] | None = None
) -> Manifest:
    return manifest(f"scheduling.k8s.io/{version}", kind, name, labels=labels, spec=spec)


@given(native_objects(), st.data())
@examples(300)
def test_following_native_groups_is_reading_afresh(manifests: list[Manifest], data: st.DataObject) -> None:
    state, there = read([]), dict[tuple[str, str], Object]()
    objects = [decode(one) for one in manifests]
    for one in data.draw(st.permutations([*objects, *data.draw(st.lists(st.sampled_from(objects)))])):
        at = (type(one).__name__, key(one))
        if at in there and data.draw(st.booleans()):
            state.remove(*at)
            del there[at]
        else:
            state.upsert(*at, one)
            there[at] = one
        if data.draw(st.booleans()):
            state.refresh()
    assert followed(state) == followed(read(list(there.values())))


def followed(state: State) -> dict[str, Any]:
    """What a cycle reads, with the sub-groups; the phase of a job remembers what was, on purpose."""
    found = picture(state)
    found["jobs"] = {k: (*job[:7], *job[8:]) for k, job in found["jobs"].items()}
    found["groups"] = {k: (job.group.spec, job.disrupted_whole) for k, job in state.jobs.items() if job.native}
    return found


def read(objects: list[Object]) -> State:
    tables: dict[str, dict[str, Object]] = {}
    for one in objects:
        tables.setdefault(type(one).__name__, {})[key(one)] = one
    state = State()
    state.load(tables)
    return state


