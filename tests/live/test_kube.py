"""muster.kube against the real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from live.api import Api, place, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import muster_pod
from muster.kube import Client, Election, Informers, InformerState, Recorder, Wanted, Writes, load
from muster.kube.informer import Pace
from muster.kube.store import KubeStore
from muster.kube.writes import FENCE
from muster.model.core import Node, Pod
from muster.model.crd import PEERS
from muster.model.meta import Condition, ObjectMeta
from muster.model.scheduling import PodGroup, PodGroupSpec, Queue
from muster.store import Conflict, Severity, errors

R = TypeVar("R")


def live(plane: ControlPlane, story: Callable[[Client], Awaitable[R]], kubeconfig: Path | None = None) -> R:
    """Play a story with a client of the control plane."""

    async def play() -> R:
        async with Client(load(str(kubeconfig or plane.kubeconfig))) as client, asyncio.timeout(90):
            return await story(client)

    return asyncio.run(play())


async def eventually(what: Callable[[], object], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.02)


def ignore(text: str) -> None:
    pass


@pytest.fixture(scope="module")
def own_plane() -> Iterator[ControlPlane]:
    """etcd and an API server of its own, to be maltreated."""
    with ControlPlane(parts=("etcd", "kube-apiserver")) as plane:
        yield plane


def test_pages_and_events_give_the_cluster_as_it_is(control_plane: ControlPlane, api: Api, namespace: str) -> None:
    for i in range(25):
        api.create(muster_pod(namespace, f"p{i:02}"))

    async def story(client: Client) -> None:
        kinds = [Wanted(Pod, namespace=namespace), Node]
        async with Informers(client, kinds, ignore, pace=Pace(page=7)) as informers:
            assert await informers.synced(20)
            pods = informers.of(Pod)
            assert sorted(pods) == [f"{namespace}/p{i:02}" for i in range(25)]
            stream = informers.stream([Pod], replay=False)
            await asyncio.to_thread(api.create, muster_pod(namespace, "late"))
            await asyncio.to_thread(api.delete, f"/api/v1/namespaces/{namespace}/pods/p00")
            await eventually(lambda: f"{namespace}/late" in pods and f"{namespace}/p00" not in pods)
            reported = [(delta.change.value, delta.key.split("/")[1]) for delta in stream.take()]
            assert ("ADDED", "late") in reported and ("DELETED", "p00") in reported

    live(control_plane, story)


def test_what_was_deleted_while_nobody_looked_is_reported(own_plane: ControlPlane) -> None:
    api = own_plane.api
    for i in range(12):
        api.create(muster_pod("default", f"p{i:02}"))

    async def story(client: Client) -> None:
        informers = Informers(client, [Pod], ignore, pace=Pace(page=5))
        stream = informers.stream()
        async with informers:
            assert await informers.synced(20)
            stream.take()
        for i in range(6):
            await asyncio.to_thread(api.delete, f"/api/v1/namespaces/default/pods/p{i:02}", {"gracePeriodSeconds": 0})
        await asyncio.to_thread(api.create, muster_pod("default", "new"))
        # Its memory of events is gone with it; what etcd kept must not matter.
        own_plane.kill("kube-apiserver")
        own_plane.run("kube-apiserver")
        await asyncio.to_thread(own_plane.wait_ready, "kube-apiserver")
        async with informers:
            await eventually(lambda: "default/new" in informers.of(Pod))
            await eventually(lambda: len(informers.of(Pod)) == 7)
        reported = sorted((delta.change.value, delta.key.split("/")[1]) for delta in stream.take())
        assert reported == [("ADDED", "new"), *(("DELETED", f"p{i:02}") for i in range(6))]

    live(own_plane, story)


def test_a_restart_of_the_api_server_is_survived_by_watches_and_writes(own_plane: ControlPlane) -> None:
    api = own_plane.api
    before = {one["metadata"]["name"] for one in api.list("/api/v1/pods")}

    async def story(client: Client) -> None:
        async with Informers(client, [Pod], ignore) as informers:
            assert await informers.synced(20)
            own_plane.kill("kube-apiserver")
            write = asyncio.create_task(Writes(client).annotate(Pod, "default/p11", {"written": "meanwhile"}))
            await asyncio.sleep(0.5)
            own_plane.run("kube-apiserver")
            await asyncio.to_thread(own_plane.wait_ready, "kube-apiserver")
            try:
                await write
            except errors.ApiError:  # it may also have given up by then; it must not hang
                await Writes(client).annotate(Pod, "default/p11", {"written": "meanwhile"})
            await asyncio.to_thread(api.create, muster_pod("default", "after-restart"))
            await eventually(lambda: "default/after-restart" in informers.of(Pod))
            assert informers.of(Pod)["default/p11"].metadata.annotations["written"] == "meanwhile"
            assert {key.split("/")[1] for key in informers.of(Pod)} == {*before, "after-restart"}
            assert set(informers.states().values()) == {InformerState.SYNCED}

    live(own_plane, story)


def test_a_binding_brings_the_annotations_and_is_given_once(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    first, second = (node["metadata"]["name"] for node in make_nodes(2, prefix="bind"))
    made = api.create(muster_pod(namespace, "a"))
    key, uid = f"{namespace}/a", made["metadata"]["uid"]

    async def story(client: Client) -> None:
        writes = Writes(client)
        with pytest.raises(errors.Conflict):
            await writes.bind(key, first, uid="00000000-0000-0000-0000-000000000000")
        await writes.bind(key, first, {"chips": "0,1"}, uid=uid)
        await writes.bind(key, first, {"chips": "0,1"}, uid=uid)  # an answer lost and asked again
        with pytest.raises(errors.Conflict):
            await writes.bind(key, second, uid=uid)
        with pytest.raises(errors.NotFound):
            await writes.bind(f"{namespace}/none", first, uid=uid)

    live(control_plane, story)
    bound = api.get(place(made))
    assert (bound["spec"]["nodeName"], bound["metadata"]["annotations"]["chips"]) == (first, "0,1")


def test_an_eviction_keeps_to_the_budget_and_to_the_uid(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    node = make_nodes(1, prefix="evict")[0]["metadata"]["name"]
    pods = [api.create(muster_pod(namespace, name, labels={"app": "x"})) for name in ("a", "b")]
    for one in pods:
        api.bind(one, node)
    for one in pods:
        until("running", lambda one=one: api.get(place(one))["status"]["phase"] == "Running")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all-but-one", "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    api.create(budget)
    until("the budget", lambda: api.get(place(budget)).get("status", {}).get("disruptionsAllowed") == 1)
    uids = {one["metadata"]["name"]: one["metadata"]["uid"] for one in pods}

    async def story(client: Client) -> None:
        writes = Writes(client)
        with pytest.raises(errors.Conflict):
            await writes.evict(f"{namespace}/a", uid="00000000-0000-0000-0000-000000000000", dry_run=True)
        await writes.evict(f"{namespace}/a", uid=uids["a"], dry_run=True)
        await writes.evict(f"{namespace}/b", uid=uids["b"], dry_run=True)
        assert not await asyncio.to_thread(lambda: "deletionTimestamp" in api.get(place(pods[0]))["metadata"])
        await writes.evict(f"{namespace}/a", uid=uids["a"])
        with pytest.raises(errors.BudgetRefused, match="all-but-one"):
            await writes.evict(f"{namespace}/b", uid=uids["b"], dry_run=True)
        with pytest.raises(errors.BudgetRefused):
            await writes.evict(f"{namespace}/b", uid=uids["b"])

    live(control_plane, story)


def test_a_condition_is_put_beside_the_others_and_only_on_that_pod(
    control_plane: ControlPlane, api: Api, namespace: str
) -> None:
    made = api.create(muster_pod(namespace, "a"))
    others = {"conditions": [{"type": "Theirs", "status": "True"}]}
    api.call("PATCH", f"{place(made)}/status", {"status": others}, "application/strategic-merge-patch+json")
    key, uid = f"{namespace}/a", made["metadata"]["uid"]

    async def story(client: Client) -> None:
        writes = Writes(client)
        condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")
        await writes.pod_condition(key, condition, uid=uid, nominated="n9")
        with pytest.raises(errors.Conflict):
            await writes.pod_condition(key, condition, uid="00000000-0000-0000-0000-000000000000")
        found = await writes.get(Pod, key)
        assert {one.type for one in found.status.conditions} >= {"Theirs", "PodScheduled"}
        assert found.status.nominated_node_name == "n9"
        assert not (await writes.pod_condition(key, condition, uid=uid, nominated="")).status.nominated_node_name

    live(control_plane, story)


def test_a_binding_of_a_pod_that_another_leader_has_fenced_is_refused(
    control_plane: ControlPlane, api: Api, namespace: str
) -> None:
    made = api.create(muster_pod(namespace, "a"))
    key, uid, version = f"{namespace}/a", made["metadata"]["uid"], made["metadata"]["resourceVersion"]

    async def story(client: Client) -> None:
        writes = Writes(client)
        fence = {"metadata": {"uid": uid, "annotations": {FENCE: "another.2"}}}
        await writes.patch(Pod, key, fence, sub="status")
        with pytest.raises(errors.Conflict):
            await writes.bind(key, "n1", uid=uid, version=version)
        assert not (await writes.get(Pod, key)).spec.node_name
        # The version alone is no hindrance: the pod was changed by nobody who leads.
        await writes.bind(key, "n1", uid=uid, version=version, fence="another.2")
        assert (await writes.get(Pod, key)).spec.node_name == "n1"

    live(control_plane, story)


@pytest.fixture
def volcano(control_plane: ControlPlane) -> None:
    """Volcano's definitions, established; the API server makes the first object of a new one wait."""
    texts = [json.dumps(one.plain()) for one in PEERS if one.group == "scheduling.volcano.sh"]
    for text in texts:
        done = control_plane.kubectl("apply", "--server-side", "-f", "-", given=text)
        assert done.returncode == 0, done.stderr
    for name in ("queues", "podgroups"):
        until(name, lambda name=name: control_plane.kubectl("get", f"{name}.scheduling.volcano.sh").returncode == 0)


@pytest.mark.usefixtures("volcano")
def test_statuses_and_annotations_of_pod_groups_are_written_under_conditions(
    control_plane: ControlPlane, namespace: str
) -> None:
    key = f"{namespace}/g"

    async def story(client: Client) -> None:
        writes = Writes(client)
        group = PodGroup(metadata=ObjectMeta(name="g", namespace=namespace), spec=PodGroupSpec(min_member=3))
        made = await writes.create(group)
        uid, version = made.metadata.uid, made.metadata.resource_version
        with pytest.raises(errors.AlreadyExists):
            await writes.create(group)
        marked = await writes.annotate(PodGroup, key, {"journal": "x"}, uid=uid, version=version)
        assert marked.metadata.annotations == {"journal": "x"}
        with pytest.raises(errors.Conflict):
            await writes.annotate(PodGroup, key, {"journal": "y"}, version=version)
        with pytest.raises(errors.Conflict):
            await writes.annotate(PodGroup, key, {"journal": "y"}, uid="00000000-0000-0000-0000-000000000000")
        running = await writes.patch_status(PodGroup, key, {"phase": "Running", "running": 3}, uid=uid)
        assert (running.status.phase, running.spec.min_member) == ("Running", 3)
        bare = await writes.annotate(PodGroup, key, {"journal": None})
        assert bare.metadata.annotations == {}

    live(control_plane, story)


@pytest.mark.usefixtures("volcano")
def test_a_controller_works_through_the_store(control_plane: ControlPlane, namespace: str) -> None:
    def work(store: KubeStore) -> None:
        from msgspec.structs import replace

        name = f"q-{namespace}"
        made = store.create(Queue(metadata=ObjectMeta(name=name)))
        heavier = store.update(replace(made, spec=replace(made.spec, weight=7)))
        with pytest.raises(Conflict):
            store.update(replace(made, spec=replace(made.spec, weight=8)))
        store.update_status(replace(heavier, status=replace(heavier.status, state="Open", running=2)))
        found = store.get(Queue, name)
        assert (found.spec.weight, found.status.running) == (7, 2)
        store.delete(Queue, name, uid=made.metadata.uid)

    async def story(client: Client) -> None:
        async with Informers(client, [Queue], ignore) as informers:
            assert await informers.synced(20)
            store = KubeStore(informers, Writes(client), Recorder(client, "muster", "live"))
            await asyncio.to_thread(work, store)
            await eventually(lambda: f"q-{namespace}" not in informers.of(Queue))

    live(control_plane, story)


def test_events_are_counted_on_the_object(control_plane: ControlPlane, api: Api, namespace: str) -> None:
    made = api.create(muster_pod(namespace, "a"))
    meta = ObjectMeta(name="a", namespace=namespace, uid=made["metadata"]["uid"])

    async def story(client: Client) -> None:
        recorder = Recorder(client, "muster", "live")
        task = asyncio.create_task(recorder.run())
        for times in (1, 2):
            recorder.record(Pod(metadata=meta), Severity.WARNING, "FailedScheduling", "0/3 nodes are available")
            await eventually(lambda times=times: recorder.sent == times)
        task.cancel()

    live(control_plane, story)
    (found,) = api.list(f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name=a")
    assert (found["count"], found["reason"], found["type"]) == (2, "FailedScheduling", "Warning")
    assert "FailedScheduling" in control_plane.kubectl("describe", "pod", "a", "-n", namespace).stdout


def test_leadership_goes_over_and_the_gate_shuts(control_plane: ControlPlane, namespace: str) -> None:
    key = f"{namespace}/muster"
    times: dict[str, Any] = {"duration": 2.0, "renew_deadline": 1.2, "retry": 0.2}

    async def story(client: Client) -> None:
        a, b = Election(client, key, "a", **times), Election(client, key, "b", **times)
        first = asyncio.create_task(a.run())
        await asyncio.wait_for(a.writable(), 10)
        second = asyncio.create_task(b.run())
        await asyncio.sleep(1.0)
        assert a.may_write() and not b.leading()
        first.cancel()  # as if it hung
        gated = Client(client.access, gate=a.may_write)
        both = False
        async with gated:
            while not b.may_write():
                both = both or (a.may_write() and b.leading())
                await asyncio.sleep(0.02)
            with pytest.raises(errors.GateClosed):
                await Writes(gated).annotate(Pod, f"{namespace}/any", {"a": "b"})
        assert not both and b.term == a.term + 1
        second.cancel()
        await b.release()
        c = Election(client, key, "c", **times)
        await c.step()
        assert c.may_write()

    live(control_plane, story)
