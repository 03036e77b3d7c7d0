"""The live scheduler on clusters that serve other versions of native groups, or none: a small API server stands in."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import muster
from builders.manifests import Manifest, manifest, node, pod
from fakes.stored_api import Plain, StoredApi
from live.api import until
from live.muster_process import Scheduler
from muster.cli import main

GROUP = "scheduling.k8s.io"
LONG = pytest.mark.long  # each starts a scheduler


def resource(version: str, plural: str = "podgroups") -> str:
    return f"{GROUP}/{version}/{plural}"


@contextmanager
def running(tmp_path: Path, *served: str, cpu: int = 4, arguments: tuple[str, ...] = ()) -> Iterator[StoredApi]:
    with StoredApi(served, tmp_path) as api:
        api.put("v1/nodes", node("n1", cpu=cpu, ready=True))
        with Scheduler(api.kubeconfig, *arguments) as scheduler:
            api.scheduler = scheduler  # type: ignore[attr-defined]
            yield api


def native(version: str, name: str, kind: str = "PodGroup", **spec: Any) -> Manifest:
    return manifest(f"{GROUP}/{version}", kind, name, meta={"generation": 7}, spec=spec)


def member(name: str, **inside: Any) -> Manifest:
    return pod(name, schedulerName="muster", **inside)


def bound(api: StoredApi) -> set[str]:
    return {one["metadata"]["name"] for one in api.all("v1/pods") if one["spec"].get("nodeName")}


def condition(api: StoredApi, where: str, name: str, type_: str) -> Plain:
    found = api.get(where, f"default/{name}").get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == type_), {})


@pytest.mark.parametrize(
    "version", ["v1beta1", pytest.param("v1alpha3", marks=LONG), pytest.param("v1alpha2", marks=LONG)]
)
def test_a_gang_of_each_version_waits_and_starts_and_gets_its_condition(version: str, tmp_path: Path) -> None:
    type_ = "PodGroupScheduled" if version == "v1alpha2" else "PodGroupInitiallyScheduled"
    where = resource(version)
    with running(tmp_path, where, cpu=2) as api:
        api.put(where, native(version, "g", schedulingPolicy={"gang": {"minCount": 3}}))
        for i in range(3):
            api.put("v1/pods", member(f"p-{i}", schedulingGroup={"podGroupName": "g"}))
        until("Unschedulable", lambda: condition(api, where, "g", type_).get("status") == "False", 20)
        waits = condition(api, where, "g", type_)
        assert (waits["reason"], waits["observedGeneration"]) == ("Unschedulable", 7)
        assert bound(api) == set()
        api.put("v1/nodes", node("n2", cpu=2, ready=True))
        until("all bound", lambda: len(bound(api)) == 3, 20)
        until("Scheduled", lambda: condition(api, where, "g", type_).get("status") == "True", 20)
        assert condition(api, where, "g", type_)["reason"] == "Scheduled"


@LONG
def test_the_newest_version_that_is_served_is_read(tmp_path: Path) -> None:
    with running(tmp_path, resource("v1beta1"), resource("v1alpha3")) as api:
        api.put(resource("v1beta1"), native("v1beta1", "g", schedulingPolicy={"basic": {}}))
        api.put("v1/pods", member("p", schedulingGroup={"podGroupName": "g"}))
        until("bound", lambda: bound(api) == {"p"}, 20)
        scheduled = "PodGroupInitiallyScheduled"
        until("the condition", lambda: condition(api, resource("v1beta1"), "g", scheduled).get("status") == "True", 20)


def test_a_workload_of_v1alpha1_has_a_gang_per_replica_key(tmp_path: Path) -> None:
    where = resource("v1alpha1", "workloads")
    with running(tmp_path, where, cpu=3) as api:
        for key in "ab":
            for i in range(2):
                ref = {"name": "w", "podGroup": "g", "podGroupReplicaKey": key}
                api.put("v1/pods", member(f"{key}-{i}", workloadRef=ref))
        groups = [{"name": "g", "policy": {"gang": {"minCount": 2}}}]
        api.put(where, native("v1alpha1", "w", "Workload", podGroups=groups))
        until("one gang", lambda: len(bound(api)) == 2, 20)
        assert bound(api) in ({"a-0", "a-1"}, {"b-0", "b-1"})


def test_a_tree_of_groups_starts_enough_of_them(tmp_path: Path) -> None:
    groups, composites = resource("v1alpha3"), resource("v1alpha3", "compositepodgroups")
    with running(tmp_path, groups, composites, cpu=5) as api:
        policy = {"gang": {"minGroupCount": 2}}
        api.put(composites, native("v1alpha3", "c", "CompositePodGroup", schedulingPolicy=policy))
        for name in "xyz":
            gang = {"gang": {"minCount": 2}}
            api.put(groups, native("v1alpha3", name, schedulingPolicy=gang, parentCompositePodGroupName="c"))
            for i in range(2):
                api.put("v1/pods", member(f"{name}-{i}", schedulingGroup={"podGroupName": name}))
        until("two groups", lambda: len(bound(api)) == 4, 20)
        assert len({name[0] for name in bound(api)}) == 2
        type_ = "CompositePodGroupInitiallyScheduled"
        until("the condition", lambda: condition(api, composites, "c", type_).get("status") == "True", 20)
        assert condition(api, composites, "c", type_)["observedGeneration"] == 7


@LONG
def test_a_condition_that_was_true_initially_stays_true(tmp_path: Path) -> None:
    where, type_ = resource("v1beta1"), "PodGroupInitiallyScheduled"
    with running(tmp_path, where, cpu=2) as api:
        api.put(where, native("v1beta1", "g", schedulingPolicy={"gang": {"minCount": 2}}))
        for i in range(2):
            api.put("v1/pods", member(f"p-{i}", schedulingGroup={"podGroupName": "g"}))
        until("True", lambda: condition(api, where, "g", type_).get("status") == "True", 20)
        api.put("v1/pods", member("p-0", schedulingGroup={"podGroupName": "g"}), "DELETED")
        api.put("v1/pods", member("big", cpu=1))
        until("another pod has its place", lambda: "big" in bound(api), 20)
        api.put("v1/pods", member("p-2", schedulingGroup={"podGroupName": "g"}))
        until("it waits", lambda: api.get("v1/pods", "default/p-2")["status"].get("conditions"), 20)
        assert condition(api, where, "g", type_)["status"] == "True"


@LONG
def test_a_cluster_without_native_groups_gets_one_line_about_them(tmp_path: Path) -> None:
    with running(tmp_path) as api:
        api.put("v1/pods", member("p"))
        until("bound", lambda: bound(api) == {"p"}, 20)
        log = api.scheduler.log_file.read_text()  # type: ignore[attr-defined]
        absent = [line for line in log.splitlines() if GROUP in line and "not known" in line]
        assert len([line for line in absent if "priorityclasses" not in line]) == 1


def test_a_snapshot_has_the_groups_in_the_version_that_is_served(tmp_path: Path) -> None:
    with StoredApi([resource("v1alpha2"), resource("v1alpha2", "workloads")], tmp_path) as api:
        api.put("v1/nodes", node("n1", cpu=2, ready=True))
        api.put(resource("v1alpha2"), native("v1alpha2", "g", schedulingPolicy={"gang": {"minCount": 3}}))
        for i in range(3):
            api.put("v1/pods", member(f"p-{i}", schedulingGroup={"podGroupName": "g"}))
        taken = tmp_path / "snapshot.ndjson"
        result = CliRunner().invoke(main, ["snapshot", str(taken), "--kubeconfig", str(api.kubeconfig)])
        assert result.exit_code == 0, result.output
    assert b'"scheduling.k8s.io/v1alpha2"' in gzip.decompress(taken.read_bytes())
    assert muster.simulate(taken).binds == {}
