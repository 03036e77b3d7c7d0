"""Native groups as jobs: which object is which job, and what a tree of groups requests."""

from __future__ import annotations

from typing import Any

from builders.manifests import Manifest, manifest, node, pod, state_of
from muster.engine.core.hooks import Reason
from muster.engine.core.native_groups import COMPOSITES, GROUPS, job_of, object_of, record_of
from muster.engine.core.state import State
from muster.engine.core.subgroups import sub_group_tree


def native(kind: str, name: str, version: str = "v1alpha3", **spec: Any) -> Manifest:
    return manifest(f"scheduling.k8s.io/{version}", kind, name, spec=spec)


def gang(name: str, minimum: int, parent: str = "") -> Manifest:
    above = {"parentCompositePodGroupName": parent} if parent else {}
    return native("PodGroup", name, schedulingPolicy={"gang": {"minCount": minimum}}, **above)


def composite(name: str, minimum: int, parent: str = "") -> Manifest:
    above = {"parentCompositePodGroupName": parent} if parent else {}
    return native("CompositePodGroup", name, schedulingPolicy={"gang": {"minGroupCount": minimum}}, **above)


def member(name: str, group: str) -> Manifest:
    return pod(name, schedulerName="muster", schedulingGroup={"podGroupName": group})


def state(*manifests: Manifest) -> State:
    made = state_of(node("n1"), *manifests)
    made.refresh()
    return made


def test_the_job_of_a_group_is_called_by_the_kind_of_its_object() -> None:
    jobs = state(gang("g", 2), composite("c", 1), gang("x", 1, "c")).jobs
    assert {job.shown for job in jobs.values()} == {"default/g", "default/c"}
    assert {object_of(key) for key in jobs} == {(GROUPS, "default/g"), (COMPOSITES, "default/c")}


def test_a_tree_is_one_job_that_needs_its_cheapest_groups() -> None:
    found = state(composite("c", 2), gang("x", 4, "c"), gang("y", 1, "c"), gang("z", 2, "c"), member("p", "z"))
    job = found.jobs[f"default/c;{COMPOSITES}"]
    assert job.min_available == 3
    tree = sub_group_tree(job)
    assert tree is not None and tree.least == 2
    parts = {part.name: (part.minimum, len(part.own)) for part in tree.children}
    assert parts == {"x": (4, 0), "y": (1, 0), "z": (2, 1)}


def test_a_composite_group_without_groups_is_never_complete() -> None:
    tree = sub_group_tree(state(composite("c", 1), composite("d", 1, "c")).jobs[f"default/c;{COMPOSITES}"])
    assert tree is not None and tree.shortfall() > 0


def test_a_chain_of_parents_that_ends_nowhere_is_a_reason_to_wait() -> None:
    objects = state(gang("x", 1, "gone"), composite("a", 1, "b"), composite("b", 1, "a"), gang("y", 1, "a")).objects
    missing, cycle = job_of("default/x", objects), job_of("default/y", objects)
    assert isinstance(missing, Reason) and "default/gone" in missing.message()
    assert isinstance(cycle, Reason) and cycle.code == "group-cycle"


def test_the_number_of_a_priority_counts_before_its_class() -> None:
    both = native("PodGroup", "g", schedulingPolicy={"basic": {}}, priority=7, priorityClassName="high")
    found = state(both, manifest("scheduling.k8s.io/v1", "PriorityClass", "high", value=100))
    job = found.jobs[f"default/g;{GROUPS}"]
    assert (job.priority, job.has_priority_class) == (7, True)


def test_pods_that_differ_only_in_their_group_have_one_shape() -> None:
    found = state(gang("g", 1), gang("h", 1), member("p", "g"), member("q", "h"))
    assert len(found.shapes) == 1


def test_a_change_of_the_status_is_no_change_of_the_job() -> None:
    found = state(gang("g", 1), member("p", "g"))
    job = found.jobs[f"default/g;{GROUPS}"]
    before = job.generation
    group = found.objects[GROUPS]["default/g"]
    found.upsert(GROUPS, "default/g", group)
    found.refresh()
    assert job.generation == before


def test_the_record_of_a_group_below_another_is_none() -> None:
    objects = state(composite("c", 1), gang("x", 1, "c")).objects
    assert record_of(f"default/x;{GROUPS}", objects) is None
