"""The cache: what was decided holds until the cluster shows otherwise, and taking it back is exact."""

from __future__ import annotations

from msgspec.structs import replace

from builders.scheduler_objects import cluster_of, waiting
from builders.small_cluster import node
from muster.engine.core.hooks import Effect
from muster.engine.core.jobs import Status
from muster.engine.core.plan import Eviction, Plan
from muster.model.core import Node, Pod
from muster.model.meta import Condition
from muster.scheduler.cache import CONFIRM, Cache
from muster.scheduler.figures import drift, overfull
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


def seen(cache: Cache, pod: Pod | None, name: str = "a", *, looked: bool = False) -> Hint:
    cache.put(Observed("Pod", f"d/{name}", pod, looked))
    return cache.take_in()


def test_a_node_is_overfull_if_its_pods_request_more_than_it_offers() -> None:
    full, _ = made(waiting("a", on="n1", cpu="4"))
    assert overfull(full.state) == []
    over, _ = made(waiting("a", on="n1", cpu="4"), waiting("b", on="n1", cpu="1"), waiting("c", on="n2"))
    assert overfull(over.state) == ["n1"]


def test_an_assumed_pod_takes_its_room_until_the_watch_shows_it() -> None:
    cache, _ = made(waiting("a"))
    real = pod_of(cache, "a")
    cache.assume(Plan(binds={"d/a": "n1"}))
    assert free(cache, "n1") == 3000
    assert cache.state.tasks["d/a"].status == Status.BOUND
    assert seen(cache, on(real, "n1")) == Hint.IGNORE
    assert cache.assumed == {} and free(cache, "n1") == 3000
    assert drift(cache.state) == 0


def test_other_changes_of_an_assumed_pod_do_not_undo_it() -> None:
    cache, _ = made(waiting("a"))
    told = replace(pod_of(cache, "a"))
    told.status = replace(told.status, conditions=[Condition(type="PodScheduled", status="False")])
    cache.assume(Plan(binds={"d/a": "n1"}))
    seen(cache, told)
    assert free(cache, "n1") == 3000 and "d/a" in cache.assumed


def test_a_failed_binding_gives_the_room_back() -> None:
    cache, _ = made(waiting("a"))
    cache.assume(Plan(binds={"d/a": "n1"}))
    cache.put(CallResult("d/a", "uid-a", "n1", False))
    assert cache.take_in() == Hint.SCHEDULE_NOW
    assert free(cache, "n1") == 4000
    assert cache.state.tasks["d/a"].status == Status.PENDING
    assert drift(cache.state) == 0


def test_somebody_else_bound_it_elsewhere() -> None:
    cache, _ = made(waiting("a"))
    real = pod_of(cache, "a")
    cache.assume(Plan(binds={"d/a": "n1"}))
    seen(cache, on(real, "n2"))
    assert (free(cache, "n1"), free(cache, "n2")) == (4000, 3000)
    cache.put(CallResult("d/a", "uid-a", "n1", False))  # our 409 comes after the watch
    cache.take_in()
    assert (free(cache, "n1"), free(cache, "n2")) == (4000, 3000)


def test_a_pod_deleted_while_it_is_bound_leaves_nothing() -> None:
    cache, _ = made(waiting("a"))
    cache.assume(Plan(binds={"d/a": "n1"}))
    seen(cache, None)
    cache.put(CallResult("d/a", "uid-a", "n1", True))
    cache.take_in()
    assert cache.assumed == {} and free(cache, "n1") == 4000 and drift(cache.state) == 0


def test_a_pod_made_anew_under_its_name_is_another_one() -> None:
    cache, _ = made(waiting("a"))
    cache.assume(Plan(binds={"d/a": "n1"}))
    anew = waiting("a")
    anew.metadata.uid = "another"
    assert seen(cache, anew) is not Hint.IGNORE
    assert free(cache, "n1") == 4000 and cache.state.tasks["d/a"].status == Status.PENDING


def test_a_node_that_vanishes_takes_the_assumption_with_it_and_gives_it_back_when_it_returns() -> None:
    cache, _ = made(waiting("a"))
    cache.assume(Plan(binds={"d/a": "n1"}))
    cache.put(Observed("Node", "n1", None))
    assert cache.take_in() == Hint.SCHEDULE_NOW
    cache.state.refresh()
    assert cache.state.nodes.names == ["n2"] and free(cache, "n2") == 4000
    cache.put(Observed("Node", "n1", node("n1", cpu="4")))
    cache.take_in()
    cache.state.refresh()
    assert free(cache, "n1") == 3000 and drift(cache.state) == 0


def test_annotations_that_go_with_the_binding_are_assumed_too() -> None:
    cache, _ = made(waiting("a"))
    effects = {"d/a": [Effect("annotations", "d/a", {"chips": "0,1"})]}
    cache.assume(Plan(binds={"d/a": "n1"}, effects=effects))
    assert pod_of(cache, "a").metadata.annotations["chips"] == "0,1"


def test_an_eviction_holds_until_the_pod_is_seen_to_go() -> None:
    cache, _ = made(waiting("a", on="n1"))
    real = pod_of(cache, "a")
    cache.assume(Plan(evictions=[Eviction("d/a", "n1", "d/b", "preempt")]))
    assert cache.state.tasks["d/a"].status == Status.RELEASING
    seen(cache, real)
    assert cache.state.tasks["d/a"].status == Status.RELEASING
    leaving = replace(real, metadata=replace(real.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))
    seen(cache, leaving)
    assert cache.assumed == {}
    seen(cache, None)
    assert free(cache, "n1") == 4000 and drift(cache.state) == 0


def test_a_call_that_was_accepted_and_never_shown_is_asked_after() -> None:
    cache, ticks = made(waiting("a"))
    real = pod_of(cache, "a")
    cache.assume(Plan(binds={"d/a": "n1"}))
    cache.put(CallResult("d/a", "uid-a", "n1", True))
    cache.take_in()
    assert cache.overdue(ticks.now) == {}
    ticks.now += CONFIRM
    assert cache.overdue(ticks.now) == {"d/a": "uid-a"}
    seen(cache, real, looked=True)
    assert cache.assumed == {} and free(cache, "n1") == 4000


def test_an_old_word_of_the_watch_does_not_take_a_pod_off_its_node() -> None:
    cache, _ = made(waiting("a"))
    real = pod_of(cache, "a")
    seen(cache, on(real, "n1"), looked=True)
    assert seen(cache, real) == Hint.IGNORE
    assert free(cache, "n1") == 3000


def test_a_heartbeat_bears_on_nothing_and_voids_nothing() -> None:
    cache, _ = made(waiting("a"))
    version = cache.state.nodes.version
    same = node("n1", cpu="4")
    assert isinstance(same, Node)
    old = cache.state.nodes.objects[0]
    same.metadata = replace(old.metadata, resource_version="99")
    beat = Condition(type="Ready", status="True", last_heartbeat_time="2026-01-01T00:00:00Z")
    same.status = replace(old.status, conditions=[*old.status.conditions])
    cache.put(Observed("Node", "n1", same))
    assert cache.take_in() == Hint.IGNORE and cache.state.nodes.version == version
    same = replace(same, status=replace(same.status, conditions=[beat]))
    cache.put(Observed("Node", "n1", same))
    assert cache.take_in() == Hint.SCHEDULE_NOW
