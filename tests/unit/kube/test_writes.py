"""What is sent, and what is made of the answers."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.faulty_api import FaultyApi, hang_up, raw, refuse, reply, run, stored_pod
from muster.kube import Writes
from muster.kube.writes import FENCE
from muster.model.core import Pod
from muster.model.meta import Condition, ObjectMeta
from muster.model.scheduling import PodGroup, Queue
from muster.store import errors

PLACE = "/api/v1/namespaces/ns/pods/a"
TAKEN = refuse(409, "Conflict", "pod a is already assigned to node")


def sent(story: Any) -> tuple[Any, list[Any]]:
    """What the story returns, and what the server was asked."""

    async def play(api: FaultyApi) -> tuple[Any, list[Any]]:
        async with api.client(tries=3) as client:
            return await story(api, Writes(client)), api.asked

    return run(play)


def test_a_binding_carries_the_uid_and_the_annotations() -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("POST", f"{PLACE}/binding", reply({"kind": "Status"}, 201))
        await writes.bind("ns/a", "n1", {"chips": "0,1"}, uid="u")

    _, asked = sent(story)
    assert asked[0].body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a", "namespace": "ns", "uid": "u", "annotations": {"chips": "0,1"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def test_a_binding_whose_answer_was_lost_is_found_done() -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("POST", f"{PLACE}/binding", hang_up(), TAKEN)
        api.plan("GET", PLACE, reply(stored_pod("a", 3, uid="u", node="n1")))
        await writes.bind("ns/a", "n1", uid="u")

    _, asked = sent(story)
    assert [one.method for one in asked] == ["POST", "POST", "GET"]


@pytest.mark.parametrize("annotations", [{}, {"journal": "of an earlier call"}])
def test_a_pod_that_was_bound_to_the_node_without_the_annotations_is_a_conflict(annotations: dict[str, str]) -> None:
    found = stored_pod("a", 3, uid="u", node="n1")
    found["metadata"]["annotations"] = annotations

    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("POST", f"{PLACE}/binding", TAKEN)
        api.plan("GET", PLACE, reply(found))
        with pytest.raises(errors.Conflict, match="already assigned"):
            await writes.bind("ns/a", "n1", {"journal": "of this call"}, uid="u", version="3")

    sent(story)


@pytest.mark.parametrize(
    "found", [stored_pod("a", 3, uid="u", node="n2"), stored_pod("a", 3, uid="other", node="n1"), stored_pod("a", 3)]
)
def test_a_pod_that_went_elsewhere_is_a_conflict(found: Any) -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("POST", f"{PLACE}/binding", TAKEN)
        api.plan("GET", PLACE, reply(found))
        with pytest.raises(errors.Conflict, match="already assigned"):
            await writes.bind("ns/a", "n1", uid="u")

    sent(story)


def fenced(version: int, by: str, **more: Any) -> Any:
    found = stored_pod("a", version, uid="u", **more)
    found["metadata"]["annotations"] = {FENCE: by}
    return found


def test_a_pod_that_changed_since_it_was_decided_on_is_bound_all_the_same() -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("POST", f"{PLACE}/binding", TAKEN, reply({"kind": "Status"}, 201))
        api.plan("GET", PLACE, reply(fenced(4, "me.1")))
        await writes.bind("ns/a", "n1", uid="u", version="3", fence="me.1")

    _, asked = sent(story)
    versions = [one.body["metadata"]["resourceVersion"] for one in asked if one.method == "POST"]
    assert versions == ["3", "4"]


@pytest.mark.parametrize("found", [fenced(4, "another.2"), fenced(4, "me.1", node="n2"), fenced(3, "me.1")])
def test_a_pod_that_another_leader_has_fenced_or_bound_is_not_bound(found: Any) -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("POST", f"{PLACE}/binding", TAKEN)
        api.plan("GET", PLACE, reply(found))
        with pytest.raises(errors.Conflict):
            await writes.bind("ns/a", "n1", uid="u", version="3", fence="me.1")

    _, asked = sent(story)
    assert [one.method for one in asked] == ["POST", "GET"]


def test_a_pod_that_changes_all_the_time_is_a_conflict_in_the_end() -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("POST", f"{PLACE}/binding", TAKEN)
        api.plan("GET", PLACE, *(reply(fenced(n, "")) for n in range(4, 20)))
        with pytest.raises(errors.Conflict):
            await writes.bind("ns/a", "n1", uid="u", version="3")

    _, asked = sent(story)
    assert [one.method for one in asked] == ["POST", "GET"] * 4


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_eviction_names_the_uid_it_means(dry_run: bool) -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("POST", f"{PLACE}/eviction", reply({"kind": "Status"}, 201))
        await writes.evict("ns/a", uid="u", dry_run=dry_run, grace=5)

    _, asked = sent(story)
    options = {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 5}
    assert asked[0].body["deleteOptions"] == ({**options, "dryRun": ["All"]} if dry_run else options)
    assert asked[0].query == ({"dryRun": "All"} if dry_run else {})


def test_a_pods_condition_is_merged_by_type_and_only_into_that_pod() -> None:
    condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/3 nodes")

    async def story(api: FaultyApi, writes: Writes) -> Pod:
        api.plan("PATCH", f"{PLACE}/status", reply(stored_pod("a", 4)))
        return await writes.pod_condition("ns/a", condition, uid="u", nominated="")

    made, asked = sent(story)
    assert made.metadata.resource_version == "4"
    assert asked[0].headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert asked[0].body["metadata"] == {"uid": "u"}
    assert asked[0].body["status"]["conditions"][0]["type"] == "PodScheduled"
    assert asked[0].body["status"]["nominatedNodeName"] is None


def test_status_and_annotations_are_merged_under_conditions() -> None:
    place = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g"

    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("PATCH", f"{place}/status", reply({"metadata": {"name": "g"}}))
        api.plan("PATCH", place, reply({"metadata": {"name": "g"}}))
        await writes.patch_status(PodGroup, "ns/g", {"phase": "Running"}, uid="u", version="7")
        await writes.annotate(PodGroup, "ns/g", {"journal": "x", "old": None}, uid="u")

    _, asked = sent(story)
    assert asked[0].body == {"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"phase": "Running"}}
    assert asked[1].body == {"metadata": {"uid": "u", "annotations": {"journal": "x", "old": None}}}
    assert {one.headers["Content-Type"] for one in asked} == {"application/merge-patch+json"}


def test_a_patch_of_an_object_with_another_uid_is_a_conflict() -> None:
    details = {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid", "message": "field is immutable"}]}

    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("PATCH", PLACE, refuse(422, "Invalid", "metadata.uid: field is immutable", details=details))
        with pytest.raises(errors.Conflict):
            await writes.annotate(Pod, "ns/a", {"x": "y"}, uid="other")

    sent(story)


def test_an_object_is_made_with_its_apiversion_and_kind_and_not_twice() -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("POST", "/apis/scheduling.volcano.sh/v1beta1/queues", hang_up())
        with pytest.raises(errors.Unreachable):
            await writes.create(Queue(metadata=ObjectMeta(name="q")))

    _, asked = sent(story)
    assert len(asked) == 1
    assert (asked[0].body["apiVersion"], asked[0].body["kind"]) == ("scheduling.volcano.sh/v1beta1", "Queue")


def test_a_deletion_can_name_the_uid() -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("DELETE", PLACE, reply({"kind": "Status"}))
        await writes.delete(Pod, "ns/a", grace=0, uid="u")

    _, asked = sent(story)
    assert asked[0].body["preconditions"] == {"uid": "u"}
    assert asked[0].body["gracePeriodSeconds"] == 0


def test_an_answer_that_is_no_object_is_an_error() -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("GET", PLACE, raw(b"not json"))
        with pytest.raises(errors.BadAnswer, match="no Pod"):
            await writes.get(Pod, "ns/a")

    sent(story)


def test_a_key_without_its_namespace_is_not_sent_anywhere() -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        with pytest.raises(ValueError, match="no namespace"):
            await writes.get(Pod, "a")

    assert sent(story)[1] == []


GROUP = "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g"
SERVED = "/apis/scheduling.volcano.sh/v1beta1"
NOT_FOUND = refuse(404, "NotFound", 'podgroups.scheduling.volcano.sh "g" not found')


def test_a_status_that_is_no_subresource_is_written_with_the_object() -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("PATCH", f"{GROUP}/status", NOT_FOUND)
        api.plan("GET", SERVED, reply({"resources": [{"name": "podgroups"}, {"name": "queues/status"}]}))
        api.plan("PATCH", GROUP, reply({"metadata": {"name": "g", "namespace": "ns"}, "status": {"phase": "Running"}}))
        for _ in range(2):
            made = await writes.patch_status(PodGroup, "ns/g", {"phase": "Running"}, uid="u")
            assert made.status.phase == "Running"

    _, asked = sent(story)
    assert [one.path for one in asked] == [f"{GROUP}/status", SERVED, GROUP, GROUP]
    assert asked[-1].body == {"metadata": {"uid": "u"}, "status": {"phase": "Running"}}


def test_a_status_of_an_object_that_is_gone_is_not_found() -> None:
    async def story(api: FaultyApi, writes: Writes) -> None:
        api.plan("PATCH", f"{GROUP}/status", NOT_FOUND)
        api.plan("GET", SERVED, reply({"resources": [{"name": "podgroups"}, {"name": "podgroups/status"}]}))
        with pytest.raises(errors.NotFound):
            await writes.patch_status(PodGroup, "ns/g", {"phase": "Running"}, uid="u")

    _, asked = sent(story)
    assert [one.path for one in asked] == [f"{GROUP}/status", SERVED]
