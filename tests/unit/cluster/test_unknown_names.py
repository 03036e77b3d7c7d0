"""Fields and kinds that are not known: how grave it is, and what to write."""

from __future__ import annotations

from typing import Any

import pytest

from muster.cluster.unknown_names import (
    OTHERS,
    fields_of,
    missing_kind,
    place_of,
    unknown_fields,
    unknown_kind,
    unknown_names,
)
from muster.model.batch import CronJob, Deployment, StatefulSet
from muster.model.core import Node, Pod
from muster.model.meta import Object
from muster.model.scheduling import Queue


def paths(cls: type[Object], value: dict[str, Any]) -> list[str]:
    return [unknown.path for unknown, _ in unknown_names(cls, value)]


def test_the_fields_that_muster_does_not_read_are_listed_apart_from_those_it_reads() -> None:
    for cls, others in OTHERS.items():
        assert not set(others.split()) & set(cls.__struct_encode_fields__), cls  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "spec",
    [
        {"serviceAccount": "a", "hostPID": True, "hostname": "h", "dnsPolicy": "None", "securityContext": {"x": 1}},
        {"containers": [{"name": "c", "volumeMounts": [], "livenessProbe": {}, "envFrom": [], "stdin": True}]},
        {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "x", "items": []}}]},
        {"volumes": [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {}}}], "ephemeralContainers": [{"a": 1}]},
        {"nodeSelector": {"anything": "x"}, "overhead": {"cpu": 1}, "containers": None, "tolerations": [None]},
    ],
)
def test_valid_fields_are_not_reported(spec: dict[str, Any]) -> None:
    assert paths(Pod, {"apiVersion": "v1", "kind": "Pod", "metadata": {"managedFields": []}, "spec": spec}) == []


@pytest.mark.parametrize(
    ("cls", "value", "found"),
    [
        (Pod, {"spec": {"nodeselector": {}}}, ["spec.nodeselector"]),
        (Pod, {"sepc": {}}, ["sepc"]),
        (Pod, {"metadata": {"lables": {}}}, ["metadata.lables"]),
        (
            Pod,
            {"spec": {"containers": [{}, {"resources": {"request": {}}}], "tolerations": [{"operater": "Exists"}]}},
            ["spec.tolerations[0].operater", "spec.containers[1].resources.request"],
        ),
        (Node, {"status": {"allocateable": {}}, "spec": {"taint": []}}, ["spec.taint", "status.allocateable"]),
        (Deployment, {"spec": {"template": {"spec": {"toleration": []}}}}, ["spec.template.spec.toleration"]),
        (
            CronJob,
            {"spec": {"jobTemplate": {"spec": {"paralelism": 1, "template": {"spec": {"affinty": {}}}}}}},
            ["spec.jobTemplate.spec.paralelism", "spec.jobTemplate.spec.template.spec.affinty"],
        ),
        (
            StatefulSet,
            {"spec": {"volumeClaimTemplates": [{"spec": {"storageClass": "x"}}]}},
            ["spec.volumeClaimTemplates[0].spec.storageClass"],
        ),
    ],
)
def test_unknown_names_are_found_with_their_path(cls: type[Object], value: dict[str, Any], found: list[str]) -> None:
    assert paths(cls, value) == found


def test_the_status_is_only_looked_at_for_nodes() -> None:
    assert paths(Pod, {"status": {"phas": "Running"}}) == []
    assert "status" not in [name for name, _, _ in fields_of(Pod).inner]


def test_the_place_of_a_misplaced_field_is_the_one_nearest_to_the_top() -> None:
    assert place_of(Pod, "tolerations") == "spec"
    assert place_of(Deployment, "tolerations") == "spec.template.spec"
    assert place_of(Pod, "hostPort") == "spec.containers[].ports[]"
    assert place_of(Pod, "nonsense") is None


@pytest.mark.parametrize(
    ("spec", "severity", "fix"),
    [
        ({"nodeselector": {}}, "error", "did you mean nodeSelector?"),
        ({"toleration": []}, "error", "did you mean tolerations?"),
        ({"dnsPolcy": ""}, "warning", "did you mean dnsPolicy?"),
        ({"foo": 1}, "warning", "remove it, or look up where it belongs"),
        ({"requests": {}}, "error", "requests is a field of spec.resources: move it there"),
        ({"containers": [{"resources": {"cpu": 1}}]}, "error", "write cpu under requests or limits"),
        ({"containers": [{"limits": {}}]}, "error", "limits is a field of spec.containers[0].resources: move it there"),
        ({"containers": [{"tolerations": []}]}, "error", "tolerations is a field of spec: move it there"),
    ],
)
def test_an_unknown_field_of_a_pod(spec: dict[str, Any], severity: str, fix: str) -> None:
    (found,) = unknown_fields(Pod, {"spec": spec})
    assert (found.severity, found.fix) == (severity, fix)


def test_a_field_of_a_custom_resource_is_always_an_error() -> None:
    (found,) = unknown_fields(Queue, {"spec": {"wieght": 1}})
    assert (found.severity, found.path, found.fix) == ("error", "spec.wieght", "did you mean weight?")


@pytest.mark.parametrize(
    ("version", "kind", "severity", "fix"),
    [
        ("apps/v1", "Deployent", "error", "did you mean Deployment?"),
        ("v1", "pod", "error", "did you mean Pod?"),
        ("v1", "Pdo", "error", "did you mean Pod?"),
        ("v1", "Note", "error", "did you mean Node?"),
        ("batch/v1", "Jop", "error", "did you mean Job?"),
        ("scheduling.volcano.sh/v1beta1", "PodGroups", "error", "did you mean PodGroup?"),
        ("v1", "Deployment", "error", "write apiVersion: apps/v1"),
        ("app/v1", "Deployment", "error", "write apiVersion: apps/v1"),
        ("apps/v1beta2", "Deployment", "warning", "write it as apps/v1"),
        ("extensions/v1beta1", "DaemonSet", "warning", "write it as apps/v1"),
        ("policy/v2", "PodDisruptionBudget", "warning", "write it as policy/v1"),
        ("batch.volcano.sh/v1", "Job", "warning", "write it as batch.volcano.sh/v1alpha1"),
        ("batch.volcano.sh/v1alpha1", "Jobs", "error", "did you mean Job?"),
        ("apps.kubeedge.io/v1alpha1", "NodeGroup", "warning", "write it as groupmanagement.kubeedge.io/v1alpha1"),
    ],
)
def test_a_kind_that_is_misspelt(version: str, kind: str, severity: str, fix: str) -> None:
    found = unknown_kind(version, kind)
    assert found is not None
    assert (found.severity, found.fix) == (severity, fix)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("v1", "Service"),
        ("v1", "PodTemplate"),
        ("bus.volcano.sh/v1alpha1", "Command"),
        ("kueue.x-k8s.io/v1beta1", "Cohort"),
        ("apps.kruise.io/v1beta1", "StatefulSet"),
        ("karpenter.sh/v1", "NodePool"),
        ("networking.k8s.io/v1", "Ingress"),
    ],
)
def test_kinds_of_others_are_skipped(version: str, kind: str) -> None:
    assert unknown_kind(version, kind) is None


def test_a_misspelt_key_in_place_of_kind_is_named() -> None:
    assert missing_kind(["Kind", "metadata"]) == "write kind in place of Kind"
    assert missing_kind(["kind", "apiversion"]) == "write apiVersion in place of apiversion"
    assert missing_kind(["metadata", "spec"]) == "write apiVersion and kind in it"
