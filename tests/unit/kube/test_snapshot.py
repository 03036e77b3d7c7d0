"""A snapshot: what simulate reads, and nothing that is nobody's business."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from fakes.faulty_api import FaultyApi, listed, refuse, reply, run, stored_pod
from muster.cluster.manifests import Manifests, read
from muster.kube.snapshot import Taken, snapshot
from muster.store import errors
from muster.workloads.table import KindTable

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


def named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}, **more}


def take(plan: Any) -> tuple[bytes, Taken, FaultyApi]:
    async def story(api: FaultyApi) -> tuple[bytes, Taken, FaultyApi]:
        api.plan("GET", PODS, reply(listed([stored_pod("b", 2), stored_pod("a", 1, node="n1")], 5)))
        api.plan("GET", NODES, reply(listed([named("n1", status={"allocatable": {"cpu": "4"}})], 5)))
        plan(api)
        taken = Taken()
        async with api.client(tries=1) as client:
            further = KindTable().all_types()
            lines = [line async for line in snapshot(client, taken, api.report.append, further=further)]
        return b"".join(lines), taken, api

    return run(story)


def nothing_more(api: FaultyApi) -> None:
    pass


def as_read(text: bytes) -> Manifests:
    return read([("snapshot.ndjson.gz", gzip.compress(text))])


def test_it_is_read_back_as_it_was() -> None:
    text, taken, _ = take(nothing_more)
    manifests = as_read(text)
    assert manifests.findings == []
    assert list(manifests.objects["Pod"]) == ["ns/a", "ns/b"]
    assert list(manifests.objects["Node"]) == ["n1"]
    assert taken.counts == {"Pod": 2, "Node": 1}


def test_it_only_reads_and_never_asks_for_secrets_or_configmaps() -> None:
    _, _, api = take(nothing_more)
    assert {one.method for one in api.asked} == {"GET"}
    assert not [one.path for one in api.asked if "secret" in one.path or "configmap" in one.path]


def test_what_containers_run_stays_where_it_is() -> None:
    container = {
        "name": "c", "image": "i", "command": ["login"], "args": ["--password=hush"],
        "env": [{"name": "TOKEN", "value": "hush"}], "resources": {"requests": {"cpu": "1"}},
    }  # fmt: skip
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "hush", "kept": "yes"}
    template = {"spec": {"containers": [container], "initContainers": [container]}}

    def plan(api: FaultyApi) -> None:
        mine = stored_pod("a", 1, containers=[container], initContainers=[container])
        mine["metadata"]["annotations"] = applied
        api.plan("GET", PODS, reply(listed([mine], 5)))
        for path, spec in {
            "/apis/apps/v1/deployments": {"template": template},
            "/apis/batch/v1/cronjobs": {"jobTemplate": {"spec": {"template": template}}},
            "/apis/batch.volcano.sh/v1alpha1/jobs": {"tasks": [{"template": template}, {"template": template}]},
            "/apis/ray.io/v1/rayclusters": {"headGroupSpec": {"rayStartParams": {"a": "hush"}, "template": template}},
        }.items():
            api.plan("GET", path, reply(listed([{**stored_pod("w", 2), "spec": spec}], 5)))

    text, taken, _ = take(plan)
    assert taken.counts["CronJob"] == taken.counts["Deployment"] == 1
    assert b"hush" not in text and b"login" not in text
    assert text.count(b'"cpu":"1"') == 12
    assert b'"kept":"yes"' in text


def test_a_kind_that_may_not_be_read_is_left_out_and_reported() -> None:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", "/api/v1/persistentvolumes", refuse(403, "Forbidden", "you cannot list them"))

    _, taken, api = take(plan)
    assert taken.forbidden == ["persistentvolumes"]
    assert any("you cannot list them" in line for line in api.report)


def test_without_pods_there_is_no_snapshot() -> None:
    with pytest.raises(errors.Forbidden):
        take(lambda api: api.plan("GET", PODS, refuse(403, "Forbidden", "you cannot list them")))


def test_of_two_topologies_of_one_name_one_is_taken() -> None:
    def plan(api: FaultyApi) -> None:
        for group in ("kueue.x-k8s.io", "kai.scheduler"):
            api.plan("GET", f"/apis/{group}/v1alpha1/topologies", reply(listed([named("t")], 5)))

    text, taken, _ = take(plan)
    assert taken.counts["Topology"] == 1
    assert as_read(text).objects["Topology"]["t"].api_version == "kueue.x-k8s.io/v1alpha1"


def test_the_same_cluster_gives_the_same_bytes() -> None:
    assert take(nothing_more)[0] == take(nothing_more)[0]
