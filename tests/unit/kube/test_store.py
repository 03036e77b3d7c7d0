"""The Store on a live cluster: what controllers read is what they wrote, and nothing of an object is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from fakes.faulty_api import FaultyApi, listed, refuse, reply, run, stored_pod, stream_events
from muster.kube import Informers, Recorder, Writes
from muster.kube.store import KubeStore
from muster.model.core import Pod
from muster.model.merge_patch import difference
from muster.model.meta import ObjectMeta
from muster.model.scheduling import Queue
from muster.store import Change, Conflict, NotFound, Store, errors

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def stored_queue(version: int, weight: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": "q", "uid": "u", "resourceVersion": str(version)}, "spec": {"weight": weight}}


def controller(work: Callable[[Store, FaultyApi], Any]) -> Any:
    """Run `work` as a controller does, in a thread beside the event loop."""

    async def story(api: FaultyApi) -> Any:
        api.plan("GET", "/api/v1/pods", reply(listed([stored_pod("b", 2), stored_pod("a", 1)], 5)))
        api.plan("WATCH", "/api/v1/pods", stream_events(then="silence"))
        api.plan("GET", QUEUES, reply(listed([stored_queue(3)], 5)))
        api.plan("WATCH", QUEUES, stream_events(then="silence"))
        async with api.client() as client, Informers(client, [Pod, Queue], api.report.append) as informers:
            await informers.synced(5)
            store = KubeStore(informers, Writes(client), Recorder(client, "muster", "0"))
            return await asyncio.to_thread(work, store, api)

    return run(story)


def test_objects_are_listed_in_the_order_of_their_keys() -> None:
    def work(store: Store, api: FaultyApi) -> Any:
        return [p.metadata.name for p in store.list(Pod).items], store.list(Pod, "other").items

    assert controller(work) == (["a", "b"], [])


def test_what_is_not_there_is_not_found() -> None:
    def work(store: Store, api: FaultyApi) -> None:
        with pytest.raises(NotFound):
            store.get(Pod, "ns/none")

    controller(work)


def test_a_controller_reads_what_it_wrote_and_gets_its_event() -> None:
    def work(store: Store, api: FaultyApi) -> Any:
        watch = store.watch("", [Queue])
        api.plan("PATCH", f"{QUEUES}/q", reply(stored_queue(9, weight=4)))
        store.patch(Queue, "q", {"spec": {"weight": 4}})
        read = store.get(Queue, "q").spec.weight
        events = [(e.change, e.key, e.resource_version) for e in watch.take()]
        watch.close()
        return read, events

    assert controller(work) == (4, [(Change.ADDED, "q", "3"), (Change.MODIFIED, "q", "9")])


def test_an_update_sends_only_what_is_different_and_only_to_that_version() -> None:
    def work(store: Store, api: FaultyApi) -> Any:
        from msgspec.structs import replace

        old = store.get(Queue, "q")
        api.plan("PATCH", f"{QUEUES}/q", reply(stored_queue(9, weight=4)))
        store.update(replace(old, spec=replace(old.spec, weight=4)))
        store.update(store.get(Queue, "q"))
        return [one.body for one in api.asked if one.method == "PATCH"]

    assert controller(work) == [{"metadata": {"resourceVersion": "3", "uid": "u"}, "spec": {"weight": 4}}]


def test_an_update_from_an_older_version_is_a_conflict() -> None:
    def work(store: Store, api: FaultyApi) -> None:
        from msgspec.structs import replace

        old = store.get(Queue, "q")
        with pytest.raises(Conflict, match="resourceVersion is now 3, not 2"):
            store.update(replace(old, metadata=replace(old.metadata, resource_version="2")))

    controller(work)


def test_removed_fields_are_deleted_and_equal_fields_are_not_sent() -> None:
    old = {"a": 1, "b": {"c": 1, "d": 2}, "same": {"x": [1]}, "list": [1]}
    new = {"b": {"c": 1, "d": 3}, "same": {"x": [1]}, "list": [1, 2]}
    assert difference(old, new, whole=False) == {"a": None, "b": {"d": 3}, "list": [1, 2]}


def test_a_list_of_which_only_a_part_is_known_is_not_replaced() -> None:
    old = {"spec": {"containers": [{"name": "c", "image": "one"}]}}
    new = {"spec": {"containers": [{"name": "c", "image": "two"}]}}
    with pytest.raises(ValueError, match=r"spec\.containers"):
        difference(old, new, whole=False)
    assert difference(old, new, whole=True) == new


def test_images_are_changed_by_the_containers_names_and_only_on_that_pod() -> None:
    def work(store: Store, api: FaultyApi) -> Any:
        images = {"containers": [{"name": "c", "image": "old"}], "initContainers": [{"name": "i", "image": "same"}]}
        known = stored_pod("new", 6) | {"spec": images}
        api.plan("POST", "/api/v1/namespaces/ns/pods", reply(known))
        made = store.create(Pod(metadata=ObjectMeta(name="new", namespace="ns")))
        api.plan("PATCH", "/api/v1/namespaces/ns/pods/new", reply(known))
        store.set_images("ns/new", {"c": "local/c:1", "i": "same", "other": "x"}, uid=made.metadata.uid)
        store.set_images("ns/new", {"i": "same"})
        return made.metadata.uid, [one for one in api.asked if one.method == "PATCH"]

    uid, patches = controller(work)
    (patch,) = patches
    assert patch.body == {"metadata": {"uid": uid}, "spec": {"containers": [{"name": "c", "image": "local/c:1"}]}}


@pytest.mark.parametrize("kept", [False, True])
def test_a_pod_that_a_budget_keeps_carries_no_note_of_its_eviction(kept: bool) -> None:
    details = {"causes": [{"reason": "DisruptionBudget", "message": "needs 3 healthy pods"}]}

    def work(store: Store, api: FaultyApi) -> Any:
        place = "/api/v1/namespaces/ns/pods/a"
        no = refuse(429, "TooManyRequests", "Cannot evict.", details=details)
        yes = reply({"kind": "Status"}, 201)
        api.plan("POST", f"{place}/eviction", no if kept else yes, yes)
        api.plan("PATCH", place, reply(stored_pod("a", 6)))
        with suppress(errors.BudgetRefused):
            store.evict("ns/a", by="PropagationPolicy ns/pp", rule="redundant", uid="u-a")
        return [(asked.method, asked.query.get("dryRun", "")) for asked in api.asked if asked.method != "GET"]

    tried = ("POST", "All")
    assert controller(work) == ([tried] if kept else [tried, ("PATCH", ""), ("POST", "")])
