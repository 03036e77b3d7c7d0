"""Names in objects of core kinds that Kubernetes does not know."""

from __future__ import annotations

from typing import Any

import pytest

from muster.model.batch import CronJob, Deployment, StatefulSet
from muster.model.core import Node, Pod
from muster.model.fields import OTHERS, fields_of, place_of, unknown_names
from muster.model.meta import Object


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
