"""State follows objects as they come, change and go."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from msgspec.structs import replace

from builders.manifests import group, node, pod, queue, state_of, typed
from builders.queued_jobs import made, task
from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.resources import used_of
from muster.engine.pod_rules.node_selectors import Required
from muster.model.core import Pod
from muster.model.meta import OwnerReference, key


def owned(name: str, created: str, on: str = "", **spec: object) -> Pod:
    one = typed(pod(name, on=on, cpu=1, **spec))
    one.metadata.creation_timestamp = created
    one.metadata.owner_references = [OwnerReference(kind="Job", name="owner", uid="u", controller=True)]
    return one


def test_a_queue_that_names_a_new_resource_gives_it_a_row_at_once() -> None:
    state = state_of(node("n1"), pod("a", on="n1", cpu=1))
    state.upsert("Queue", "q", typed(queue("q", capability={"rare.io/thing": 1})))
    state.remove("Pod", "default/a")
    assert len(state.nodes.rows) == 4 * state.axis.size + 2
    assert sum(used_of(state.nodes).values()) == 0


def test_pods_follow_their_priority_class() -> None:
    state = state_of(pod("a", priorityClassName="high"))
    assert task(state, "default/a").priority == 1
    high = made("scheduling.k8s.io/v1", "PriorityClass", {"name": "high"}, value=9)
    state.upsert("PriorityClass", "high", high)
    assert task(state, "default/a").priority == 9
    state.remove("PriorityClass", "high")
    assert task(state, "default/a").priority == 1


def test_a_group_that_was_made_anew_has_the_new_age() -> None:
    state = state_of(queue("q"), group("g", "q", phase="Inqueue", created="2026-01-01T00:00:00Z"))
    state.upsert("PodGroup", "default/g", typed(group("g", "q", phase="Inqueue", created="2026-01-02T00:00:00Z")))
    assert state.jobs["default/g"].created == 1767312000.0


def test_the_oldest_pod_of_an_owner_speaks_for_its_group_in_memory() -> None:
    old = owned("z", "2026-01-01T00:00:00Z", priorityClassName="high")
    new = owned("a", "2026-01-02T00:00:00Z")
    for pods in ((old, new), (new, old)):
        state = state_of(node("n1"), *pods)
        state.refresh()
        job = state.jobs["default/podgroup-u"]
        assert job.created == 1767225600.0
        assert job.group.spec.priority_class_name == "high"


def test_a_group_in_memory_runs_as_soon_as_one_of_its_pods_does_until_a_cycle_finds_that_none_does() -> None:
    waits = owned("a", "2026-01-01T00:00:00Z")
    state = state_of(node("n1"), waits, owned("b", "2026-01-02T00:00:00Z", "n1"))
    state.refresh()
    assert state.jobs["default/podgroup-u"].phase == "Running"
    state.remove("Pod", "default/b")
    state.refresh()
    assert state.jobs["default/podgroup-u"].phase == "Running"
    Scheduler(Config(("allocate",), ())).cycle(state, 0.0)
    assert state.jobs["default/podgroup-u"].phase == "Pending"


def test_a_group_in_memory_stays_admitted_while_its_pods_wait() -> None:
    state = state_of(node("n1"), owned("a", "2026-01-01T00:00:00Z"))
    state.jobs["default/podgroup-u"].phase = "Inqueue"
    state.upsert("Pod", "default/b", owned("b", "2026-01-02T00:00:00Z"))
    state.refresh()
    assert state.jobs["default/podgroup-u"].phase == "Inqueue"


@pytest.mark.parametrize(
    ("note", "label", "may_go"),
    [
        (None, None, True), ("true", None, True), ("T", None, True), ("1", "false", True), ("false", "true", False),
        ("yes", None, False), ("", "true", False), (None, "false", False), (None, "true", True), (None, "", False),
    ],
)  # fmt: skip
def test_whether_a_pod_may_be_evicted_is_its_annotation_else_its_label(
    note: str | None, label: str | None, may_go: bool
) -> None:
    key = "volcano.sh/preemptable"
    meta: dict[str, object] = {"name": "p", "namespace": "default"}
    meta |= {} if note is None else {"annotations": {key: note}}
    meta |= {} if label is None else {"labels": {key: label}}
    state = state_of(made("v1", "Pod", meta, spec={"containers": [{"name": "main"}]}))
    assert task(state, "p").preemptable is may_go


def test_what_is_kept_about_a_shape_goes_with_its_last_pod() -> None:
    """Each pod has a request, a selector and an affinity of its own, as over a long time."""
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    state, scheduler = state_of(node("n1", cpu=100), queue("default")), Scheduler(Config())
    required = Required()
    for i in range(1, 20):
        state.upsert("Pod", f"default/p{i}", typed(pod(f"p{i}", cpu=i, nodeSelector={"a": str(i)}, affinity=rule)))
        scheduler.cycle(state, float(i))
        state.upsert("Pod", f"default/p{i}", typed(pod(f"p{i}", on="n1", cpu=i, affinity=rule)))
        required.of(task(state, f"default/p{i}").shape, state.nodes)
        if i > 3:
            state.remove("Pod", f"default/p{i - 3}")
    gc.collect()
    assert len(state.shapes) == len(list(state.shapes)) == len(state.shapes.with_affinity) == 3
    assert len(required._by_shape) == 3
    assert len(required._by_part) == 1
    assert len({shape.id for shape in state.shapes}) == 3
    state.upsert("Pod", "default/q", typed(pod("q", cpu=19, affinity=rule)))
    assert task(state, "default/q").shape is task(state, "default/p19").shape


@pytest.mark.parametrize("where", ["", "n1"])
@pytest.mark.parametrize("changes", [{"cpu": 2}, {"nodeSelector": {"a": "b"}}, {"restartPolicy": "Never"}])
def test_a_spec_that_differs_from_the_spec_before_it_has_another_shape(changes: dict[str, Any], where: str) -> None:
    pods = [typed(pod(name, "g", on=where, **(changes if name == "b" else {}))) for name in "abc"]
    state = state_of(node("n1"), queue("q"), typed(group("g", "q")), *pods)
    first, second, last = (one.shape for one in state.tasks.values())
    assert last is first
    assert second is not first
    assert second.spec == replace(pods[1].spec, node_name=second.spec.node_name)


@pytest.mark.parametrize("changes", [
    {"annotations": {"volcano.sh/task-spec": "worker"}},
    {"annotations": {"volcano.sh/preemptable": "false"}},
    {"annotations": {"scheduling.k8s.io/group-name": "other"}},
    {"labels": {"volcano.sh/task-spec": "worker"}},
    {"namespace": "team"},
])  # fmt: skip
def test_a_pod_that_differs_from_the_pod_before_it_is_read_by_itself(changes: dict[str, Any]) -> None:
    first, second, last = (typed(pod(name, "g", **(changes if name == "b" else {}))) for name in "abc")
    groups = [typed(group(name, "q")) for name in ("g", "other")]
    together, one_by_one = state_of(queue("q"), *groups, first, second, last), state_of(queue("q"), *groups)
    for one in (last, second, first):
        one_by_one.upsert("Pod", key(one), one)
    for name, read in together.tasks.items():
        alone = one_by_one.tasks[name]
        assert (read.role, read.preemptable, read.namespace) == (alone.role, alone.preemptable, alone.namespace)
        assert (read.job and read.job.key) == (alone.job and alone.job.key)
    assert together.set_aside == one_by_one.set_aside
