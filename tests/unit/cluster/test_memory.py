"""The store in memory: versions, conflicts, watches, deletion."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders.manifests import Manifest, node, pod, typed
from muster.cluster.memory import HISTORY_EVENTS, MemoryStore, VirtualClock
from muster.model.core import Node, Pod
from muster.model.meta import Object, key
from muster.store import AlreadyExists, ApiError, Change, Conflict, Gone, NotFound, WatchEvent


def store(*objects: Object | Manifest) -> MemoryStore:
    return MemoryStore(VirtualClock(1000.0), [typed(obj) for obj in objects])


def test_what_is_created_gets_uid_namespace_time_and_version() -> None:
    made = store().create(typed(pod("a")))
    meta = made.metadata
    assert (meta.uid, meta.namespace, meta.resource_version) == ("default/a", "default", "1")
    assert meta.creation_timestamp == "1970-01-01T00:16:40Z"


def test_an_object_made_anew_under_its_old_name_is_another_one() -> None:
    s = store(pod("a"))
    s.delete(Pod, "default/a")
    assert s.create(typed(pod("a"))).metadata.uid == "default/a.2"


def test_a_name_is_given_once() -> None:
    with pytest.raises(AlreadyExists):
        store(pod("a")).create(typed(pod("a")))


def test_what_is_not_there_is_not_found() -> None:
    s = store()
    for attempt in (
        lambda: s.get(Pod, "default/a"),
        lambda: s.delete(Pod, "default/a"),
        lambda: s.bind("default/a", "n"),
        lambda: s.update(typed(pod("a"))),
    ):
        with pytest.raises(NotFound):
            attempt()


def test_a_stale_version_is_a_conflict() -> None:
    s = store(node("n"))
    first = s.get(Node, "n")
    s.patch(Node, "n", {"metadata": {"labels": {"zone": "a"}}})
    with pytest.raises(Conflict):
        s.update(replace(first, spec=replace(first.spec, unschedulable=True)))
    fresh = s.get(Node, "n")
    s.update(replace(fresh, spec=replace(fresh.spec, unschedulable=True)))
    assert s.get(Node, "n").metadata.labels == {"zone": "a"}


def test_an_update_that_changes_nothing_is_no_event() -> None:
    s = store(node("n"))
    before = s.version
    s.update(s.get(Node, "n"))
    s.patch(Node, "n", {"metadata": {"labels": {}}})
    assert s.version == before


def test_status_and_the_rest_are_written_apart() -> None:
    s = store(pod("a", phase=""))
    s.patch(Pod, "default/a", {"status": {"phase": "Failed"}, "spec": {"priority": 3}})
    assert (s.get(Pod, "default/a").status.phase, s.get(Pod, "default/a").spec.priority) == ("", 3)
    s.patch(Pod, "default/a", {"status": {"phase": "Failed"}, "spec": {"priority": 4}}, status=True)
    assert (s.get(Pod, "default/a").status.phase, s.get(Pod, "default/a").spec.priority) == ("Failed", 3)


def test_a_null_in_a_patch_takes_away() -> None:
    s = store(node("n", labels={"zone": "a", "rack": "r"}))
    s.patch(Node, "n", {"metadata": {"labels": {"zone": None}}})
    assert s.get(Node, "n").metadata.labels == {"rack": "r"}


def test_generation_grows_with_the_spec_only() -> None:
    s = store(node("n"))
    s.patch(Node, "n", {"metadata": {"labels": {"zone": "a"}}})
    assert s.get(Node, "n").metadata.generation == 0
    s.patch(Node, "n", {"spec": {"unschedulable": True}})
    assert s.get(Node, "n").metadata.generation == 1


def test_a_pod_is_bound_once_and_with_its_annotations() -> None:
    s = store(pod("a"))
    s.bind("default/a", "n", {"chips": "0,1"})
    bound = s.get(Pod, "default/a")
    assert (bound.spec.node_name, bound.metadata.annotations) == ("n", {"chips": "0,1"})
    assert [(c.type, c.status) for c in bound.status.conditions] == [("PodScheduled", "True")]
    with pytest.raises(Conflict, match="already"):
        s.bind("default/a", "m")


def test_another_uid_is_another_pod() -> None:
    with pytest.raises(Conflict, match="another object"):
        store(pod("a")).bind("default/a", "n", uid="default/a.2")


def test_a_pod_on_a_node_is_given_its_grace_and_one_without_goes_at_once() -> None:
    s = store(pod("on", on="n", phase=""), pod("off"))
    s.delete(Pod, "default/on")
    s.delete(Pod, "default/off")
    left = s.list(Pod).items
    assert [p.metadata.name for p in left] == ["on"]
    assert left[0].metadata.deletion_timestamp == "1970-01-01T00:17:10Z"
    with pytest.raises(Conflict, match="being deleted"):
        pending = store(pod("x", meta={"deletionTimestamp": "1970-01-01T00:17:10Z"}))
        pending.bind("default/x", "n")


def test_a_second_deletion_can_only_shorten_the_grace() -> None:
    s = store(pod("a", on="n", phase=""))
    s.delete(Pod, "default/a", grace=20)
    s.delete(Pod, "default/a", grace=60)
    assert s.get(Pod, "default/a").metadata.deletion_grace_period_seconds == 20
    s.delete(Pod, "default/a", grace=0)
    assert s.list(Pod).items == []


def test_an_evicted_pod_says_for_whom_and_why() -> None:
    s = store(pod("a", on="n", phase="Running"))
    s.evict("default/a", by="default/b", rule="preempt")
    meta = s.get(Pod, "default/a").metadata
    assert meta.annotations == {"muster.io/evicted-by": "default/b", "muster.io/evicted-rule": "preempt"}
    assert meta.deletion_timestamp is not None


def test_a_watch_sees_only_the_kinds_it_asked_for() -> None:
    s = store()
    watch = s.watch("0", (Node,))
    s.create(typed(pod("a")))
    s.create(typed(node("n")))
    s.delete(Node, "n")
    assert [(e.change, e.key) for e in watch.take()] == [(Change.ADDED, "n"), (Change.DELETED, "n")]
    assert watch.take() == []
    watch.close()
    s.create(typed(node("m")))
    assert watch.take() == []


def test_a_watch_from_too_far_back_is_refused() -> None:
    s = store(node("n"))
    for i in range(HISTORY_EVENTS):
        s.patch(Node, "n", {"metadata": {"labels": {"i": str(i)}}})
    with pytest.raises(Gone):
        s.watch("0")
    assert len(s.watch("1").take()) == HISTORY_EVENTS


def test_the_order_of_the_input_does_not_matter() -> None:
    a, b = store(pod("a"), node("n"), pod("b")), store(pod("b"), pod("a"), node("n"))
    assert a.everything() == b.everything()


NAMES = st.sampled_from(["a", "b", "c"])
WRITES = st.lists(
    st.tuples(st.sampled_from(["create", "label", "status", "bind", "evict", "delete", "delete now"]), NAMES),
    max_size=40,
)


def _write(s: MemoryStore, what: str, name: str, step: int) -> None:
    at = f"default/{name}"
    match what:
        case "create":
            s.create(typed(pod(name)))
        case "label":
            s.patch(Pod, at, {"metadata": {"labels": {"step": str(step)}}})
        case "status":
            s.patch(Pod, at, {"status": {"message": str(step % 2)}}, status=True)
        case "bind":
            s.bind(at, "n")
        case "evict":
            s.evict(at, by="default/x", rule="reclaim")
        case "delete":
            s.delete(Pod, at)
        case "delete now":
            s.delete(Pod, at, grace=0)


@given(WRITES, st.integers(min_value=0, max_value=40))
def test_whoever_lists_and_applies_all_events_has_what_a_fresh_list_has(writes: list[tuple[str, str]], at: int) -> None:
    s = store(pod("a"), node("n"))
    copy: dict[str, Pod] = {}
    events: list[WatchEvent] = []
    watch = None
    for step, (what, name) in enumerate([*writes[:at], ("list", ""), *writes[at:]]):
        if what == "list":
            listing = s.list(Pod)
            copy = {key(p): p for p in listing.items}
            watch = s.watch(listing.resource_version, (Pod,))
            continue
        try:
            _write(s, what, name, step)
        except ApiError:
            continue
    assert watch is not None
    events = watch.take()
    for event in events:
        assert isinstance(event.object, Pod)
        assert event.object.metadata.resource_version == event.resource_version
        if event.change == Change.DELETED:
            del copy[event.key]
        else:
            assert (event.key in copy) == (event.change == Change.MODIFIED)
            copy[event.key] = event.object
    assert copy == {key(p): p for p in s.list(Pod).items}
    versions = [int(e.resource_version) for e in s.watch("0").take()]
    assert versions == sorted(set(versions))
    assert [int(e.resource_version) for e in events] == sorted({int(e.resource_version) for e in events})
