"""Ten thousand pods come and go while they are scheduled: afterwards the accounts are what the API server says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path

import pytest

from builders.manifests import group
from live.api import Api, Plain, collection, place, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, all_placed, assert_sound, gang, muster_pod
from live.test_scheduler_faults import nothing_is_bound_twice
from muster.kube import Client, load
from muster.model.quantity import milli

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("crds")]

WAVES, GANGS, MEMBERS, ALONE = 10, 8, 25, 800
NOW = {"gracePeriodSeconds": 0}


def wave(namespace: str, number: int) -> tuple[list[Plain], list[Plain]]:
    """Groups, and a thousand pods."""
    labels = {"wave": f"w{number}"}
    groups = [group(f"w{number}-g{i}", "default", namespace=namespace, minMember=MEMBERS) for i in range(GANGS)]
    pods = [
        muster_pod(namespace, f"w{number}-g{i}-{j}", f"w{number}-g{i}", "100m", labels=labels)
        for i in range(GANGS) for j in range(MEMBERS)
    ]  # fmt: skip
    pods += [muster_pod(namespace, f"w{number}-{i}", cpu="100m", labels=labels) for i in range(ALONE)]
    return groups, pods


async def churn(client: Client, namespace: str) -> int:
    """Make wave after wave; while one is made, the last one is deleted: some pods by name, then all that is left."""
    dice = random.Random(7)
    made = 0
    before: tuple[list[Plain], list[Plain]] = ([], [])
    for number in range(WAVES):
        groups, pods = wave(namespace, number)
        async with asyncio.TaskGroup() as work:
            work.create_task(_make(client, [*groups, *pods]))
            work.create_task(_delete(client, namespace, number - 1, *before, dice))
        made += len(pods)
        before = (groups, pods)
    await _delete(client, namespace, WAVES - 1, *before, dice)
    return made


async def _at_once(slots: int, calls: Iterable[Coroutine[None, None, object]]) -> None:
    """No more at once than are answered quickly: the scheduler's calls come in between."""
    free = asyncio.Semaphore(slots)

    async def one(call: Coroutine[None, None, object]) -> None:
        async with free:
            await call

    async with asyncio.TaskGroup() as work:
        for call in calls:
            work.create_task(one(call))


async def _make(client: Client, objects: Sequence[Plain]) -> None:
    await _at_once(40, (client.request("POST", collection(obj), body=obj) for obj in objects))


async def _delete(
    client: Client, namespace: str, number: int, groups: Sequence[Plain], pods: Sequence[Plain], dice: random.Random
) -> None:
    some = dice.sample(pods, len(pods) // 10)
    await _at_once(8, (client.request("DELETE", place(obj), body=NOW) for obj in some))
    if pods:
        all_of_them = f"/api/v1/namespaces/{namespace}/pods"
        await client.request("DELETE", all_of_them, params={"labelSelector": f"wave=w{number}"}, body=NOW, seconds=60)
    for obj in groups:
        await client.request("DELETE", place(obj))


def held(api: Api, namespace: str) -> int:
    """Thousandths of a cpu that pods with a node request."""
    pods = api.list(f"/api/v1/namespaces/{namespace}/pods")
    bound = [one for one in pods if one["spec"].get("nodeName")]
    return sum(milli(c["resources"]["requests"]["cpu"]) for one in bound for c in one["spec"]["containers"])


def test_ten_thousand_pods_created_and_deleted_while_scheduling(
    api: Api, namespace: str, make_nodes: MakeNodes, control_plane: ControlPlane, scheduler_kubeconfig: Path
) -> None:
    make_nodes(20, resources={"pods": "200"})

    async def play() -> int:
        async with Client(load(str(control_plane.kubeconfig))) as client:
            return await churn(client, namespace)

    with Scheduler(scheduler_kubeconfig) as muster:
        with nothing_is_bound_twice(api, namespace):
            assert asyncio.run(play()) == WAVES * 1000
            names = gang(api, namespace, "last", 70)
            all_placed(api, namespace, names, 60)
        # It did not stand aside until all was over.
        assert muster.metric("muster_binds_total") > WAVES * 1000 / 4
        until("nothing assumed", lambda: muster.metric("muster_assumed_pods") == 0, 60)
        assert_sound(api, namespace)
        assert held(api, namespace) == 70_000
        until("its accounts", lambda: muster.metric("volcano_queue_allocated_milli_cpu") == 70_000, 30)
        assert muster.metric("muster_pending_pods") == 0
        assert muster.metric("muster_cache_drift") == 0
        assert muster.metric("muster_faults_total") == 0
