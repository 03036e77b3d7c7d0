"""In a cluster whose definitions of Queue and PodGroup are Volcano's own, which differ from ours in two ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from live.api import Api, until
from live.conftest import MakeNodes, served
from live.muster_process import Scheduler, all_placed, gang, group, queue

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VOLCANO = "scheduling.volcano.sh"


@pytest.fixture
def volcanos_definitions(api: Api, crds: None) -> Iterator[None]:
    ours = {kind: api.get(f"{DEFINITIONS}/{kind}.{VOLCANO}")["spec"]["versions"] for kind in ("podgroups", "queues")}
    # Volcano: the status of a PodGroup is no subresource, and that of a Queue always has allocated.
    (groups,), (queues,) = ours["podgroups"], ours["queues"]
    settle(api, "podgroups", [{name: part for name, part in groups.items() if name != "subresources"}])
    status = queues["schema"]["openAPIV3Schema"]["properties"]["status"]
    schema = queues["schema"]["openAPIV3Schema"]
    properties = {**schema["properties"], "status": {**status, "required": ["allocated"]}}
    settle(api, "queues", [{**queues, "schema": {"openAPIV3Schema": {**schema, "properties": properties}}}])
    yield
    for kind, versions in ours.items():
        settle(api, kind, versions)


def settle(api: Api, kind: str, versions: list[Any]) -> None:
    """Change the definition, and wait until the API server acts by it."""
    api.merge(f"{DEFINITIONS}/{kind}.{VOLCANO}", {"spec": {"versions": versions}})
    until(f"{kind} to be served", lambda: served(api, f"/apis/{VOLCANO}/v1beta1/{kind}"))
    wanted = "subresources" in versions[0]
    path = f"{kind}/status"
    until(path, lambda: (path in resources(api)) == wanted)


def resources(api: Api) -> list[str]:
    return [resource["name"] for resource in api.get(f"/apis/{VOLCANO}/v1beta1")["resources"]]


def test_the_status_of_groups_and_queues_is_written_all_the_same(
    volcanos_definitions: None, scheduler_kubeconfig: Path, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    api.create(queue("live-volcanos"))
    path = f"/apis/{VOLCANO}/v1beta1/queues/live-volcanos"
    with Scheduler(scheduler_kubeconfig) as scheduler:
        until("an empty queue's state", lambda: api.get(path).get("status", {}).get("state") == "Open")
        all_placed(api, namespace, gang(api, namespace, "g", 2, queue="live-volcanos"))
        until("the phase", lambda: group(api, namespace, "g").get("status", {}).get("phase") == "Running")
        until("what is allocated", lambda: api.get(path)["status"].get("allocated", {}).get("cpu") == "2")
        assert scheduler.metric("muster_status_write_failures_total") == 0
    api.delete(path)
