"""The cache keeps assumptions until the cluster shows the outcome, and removes them exactly."""

from __future__ import annotations

from msgspec.structs import replace

from builders.manifests import node, typed
from builders.scheduler_objects import cluster_of, waiting
from muster.engine.core.hooks import Effect
from muster.engine.core.jobs import Status
from muster.engine.core.plan import Eviction, Plan
from muster.model.core import Node, Pod
from muster.model.meta import Condition
from muster.scheduler.cache import CONFIRM_TIMEOUT_S, Cache
from muster.scheduler.cluster_metrics import drift, overfull
from muster.scheduler.inbox import CallResult, Observed
from muster.scheduler.queueing_hints import Hint


class Ticks:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def made(*pods: Pod) -> tuple[Cache, Ticks]:
    ticks = Ticks()
    cache = Cache(("muster",), ticks)
    cluster = cluster_of(node("n1", cpu="4"), node("n2", cpu="4"), *pods)
    cache.load(cluster.store.everything())
    return cache, ticks


def free(cache: Cache, name: str) -> int:
    """Idle cpu of a node, thousandths."""
    nodes = cache.state.nodes
    return int(nodes.rows[nodes.axis.rows["cpu"], nodes.rank[name]])


def pod_of(cache: Cache, name: str) -> Pod:
    return cache.state.tasks[f"d/{name}"].pod


def on(pod: Pod, where: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=where))


def observe(cache: Cache, pod: Pod | None, name: str = "a", *, looked: bool = False) -> Hint:
    cache.put(Observed("Pod", f"d/{name}", pod, looked))
    return cache.apply_messages()


def test_a_node_is_overfull_if_its_pods_request_more_than_it_offers() -> None:
    full, _ = made(waiting("a", on="n1", cpu="4"))
    assert overfull(full.state) == []
    over, _ = made(waiting("a", on="n1", cpu="4"), waiting("b", on="n1", cpu="1"), waiting("c", on="n2"))
    assert overfull(over.state) == ["n1"]


def test_an_assumed_pod_uses_capacity_until_the_watch_shows_it() -> None:
    cache, _ = made(waiting("a"))
    real = pod_of(cache, "a")
    cache.assume(Plan(binds={"d/a": "n1"}))
    assert free(cache, "n1") == 3000
    assert cache.state.tasks["d/a"].status == Status.BOUND
    assert observe(cache, on(real, "n1")) == Hint.IGNORE
    assert cache.assumed == {} and free(cache, "n1") == 3000
    assert drift(cache.state) == 0


def test_other_changes_of_an_assumed_pod_do_not_undo_it() -> None:
    cache, _ = made(waiting("a"))
    changed = replace(pod_of(cache, "a"))
    changed.status = replace(changed.status, conditions=[Condition(type="PodScheduled", status="False")])
    cache.assume(Plan(binds={"d/a": "n1"}))
    observe(cache, changed)
    assert free(cache, "n1") == 3000 and "d/a" in cache.assumed


def test_a_failed_binding_frees_the_capacity() -> None:
    cache, _ = made(waiting("a"))
    cache.assume(Plan(binds={"d/a": "n1"}))
    cache.put(CallResult("d/a", "uid-a", "n1", False))
    assert cache.apply_messages() == Hint.SCHEDULE_NOW
    assert free(cache, "n1") == 4000
    assert cache.state.tasks["d/a"].status == Status.PENDING
    assert drift(cache.state) == 0


def test_another_scheduler_bound_it_to_another_node() -> None:
    cache, _ = made(waiting("a"))
    real = pod_of(cache, "a")
    cache.assume(Plan(binds={"d/a": "n1"}))
    observe(cache, on(real, "n2"))
    assert (free(cache, "n1"), free(cache, "n2")) == (4000, 3000)
    cache.put(CallResult("d/a", "uid-a", "n1", False))  # our 409 comes after the watch
    cache.apply_messages()
    assert (free(cache, "n1"), free(cache, "n2")) == (4000, 3000)


def test_a_pod_deleted_while_it_is_bound_leaves_nothing() -> None:
    cache, _ = made(waiting("a"))
    cache.assume(Plan(binds={"d/a": "n1"}))
    observe(cache, None)
    cache.put(CallResult("d/a", "uid-a", "n1", True))
    cache.apply_messages()
    assert cache.assumed == {} and free(cache, "n1") == 4000 and drift(cache.state) == 0


def test_a_recreated_pod_is_another_pod() -> None:
    cache, _ = made(waiting("a"))
    cache.assume(Plan(binds={"d/a": "n1"}))
    recreated = waiting("a")
    recreated.metadata.uid = "another"
    assert observe(cache, recreated) is not Hint.IGNORE
    assert free(cache, "n1") == 4000 and cache.state.tasks["d/a"].status == Status.PENDING


def test_an_assumption_survives_the_deletion_and_return_of_its_node() -> None:
    cache, _ = made(waiting("a"))
    cache.assume(Plan(binds={"d/a": "n1"}))
    cache.put(Observed("Node", "n1", None))
    assert cache.apply_messages() == Hint.SCHEDULE_NOW
    cache.state.refresh()
    assert cache.state.nodes.names == ["n2"] and free(cache, "n2") == 4000
    cache.put(Observed("Node", "n1", typed(node("n1", cpu="4"))))
    cache.apply_messages()
    cache.state.refresh()
    assert free(cache, "n1") == 3000 and drift(cache.state) == 0


def test_annotations_that_go_with_the_binding_are_assumed_too() -> None:
    cache, _ = made(waiting("a"))
    effects = {"d/a": [Effect("annotations", "d/a", {"chips": "0,1"})]}
    cache.assume(Plan(binds={"d/a": "n1"}, effects=effects))
    assert pod_of(cache, "a").metadata.annotations["chips"] == "0,1"


def test_an_eviction_is_assumed_until_the_watch_shows_the_pod_terminating() -> None:
    cache, _ = made(waiting("a", on="n1"))
    real = pod_of(cache, "a")
    cache.assume(Plan(evictions=[Eviction("d/a", "n1", "d/b", "preempt")]))
    assert cache.state.tasks["d/a"].status == Status.RELEASING
    observe(cache, real)
    assert cache.state.tasks["d/a"].status == Status.RELEASING
    terminating = replace(real, metadata=replace(real.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    observe(cache, terminating)
    assert cache.assumed == {}
    observe(cache, None)
    assert free(cache, "n1") == 4000 and drift(cache.state) == 0


def test_a_pod_is_read_if_the_watch_does_not_show_an_accepted_call() -> None:
    cache, ticks = made(waiting("a"))
    real = pod_of(cache, "a")
    cache.assume(Plan(binds={"d/a": "n1"}))
    cache.put(CallResult("d/a", "uid-a", "n1", True))
    cache.apply_messages()
    assert cache.overdue(ticks.now) == {}
    ticks.now += CONFIRM_TIMEOUT_S
    assert cache.overdue(ticks.now) == {"d/a": "uid-a"}
    observe(cache, real, looked=True)
    assert cache.assumed == {} and free(cache, "n1") == 4000


def test_an_outdated_watch_event_does_not_unbind_a_pod() -> None:
    cache, _ = made(waiting("a"))
    real = pod_of(cache, "a")
    observe(cache, on(real, "n1"), looked=True)
    assert observe(cache, real) == Hint.IGNORE
    assert free(cache, "n1") == 3000


def test_a_heartbeat_needs_no_cycle_and_invalidates_nothing() -> None:
    cache, _ = made(waiting("a"))
    version = cache.state.nodes.version
    same = typed(node("n1", cpu="4"))
    assert isinstance(same, Node)
    old = cache.state.nodes.objects[0]
    same.metadata = replace(old.metadata, resource_version="99")
    beat = Condition(type="Ready", status="True", last_heartbeat_time="2026-01-01T00:00:00Z")
    same.status = replace(old.status, conditions=[*old.status.conditions])
    cache.put(Observed("Node", "n1", same))
    assert cache.apply_messages() == Hint.IGNORE and cache.state.nodes.version == version
    same = replace(same, status=replace(same.status, conditions=[beat]))
    cache.put(Observed("Node", "n1", same))
    assert cache.apply_messages() == Hint.SCHEDULE_NOW


def test_the_answer_to_a_get_is_ignored_if_the_watch_has_shown_more_by_then() -> None:
    pod = waiting("a", on="n1", cpu="1")
    pod.metadata.resource_version = "7"
    cache, _ = made(pod)
    old = replace(waiting("a", cpu="1"), metadata=replace(pod.metadata, resource_version="6"))
    cache.put(Observed("Pod", "d/a", old, polled=True, uid="uid-a"))
    cache.apply_messages()
    assert pod_of(cache, "a").spec.node_name == "n1"
    cache.put(Observed("Pod", "d/a", None, polled=True, uid="an earlier pod of this name"))
    cache.apply_messages()
    assert pod_of(cache, "a").spec.node_name == "n1"
    observe(cache, None)
    cache.put(Observed("Pod", "d/a", pod, polled=True, uid="uid-a"))
    cache.apply_messages()
    assert "d/a" not in cache.state.tasks and free(cache, "n1") == 4000
