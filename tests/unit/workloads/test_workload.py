"""What a description finds in an object."""

from __future__ import annotations

from typing import Any

import pytest

from muster.model.custom import ConfiguredApplication
from muster.model.kinds import decode_as
from muster.workloads.table import KindTable
from muster.workloads.workload import Workload, description_of, read_workload

TEMPLATE = {"spec": {"containers": [{"name": "c"}]}}


def workload(api_version: str, kind: str, spec: dict[str, Any], **metadata: Any) -> Workload:
    cls = KindTable().types()[api_version, kind]
    obj = decode_as(cls, {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a", **metadata}, "spec": spec})
    assert isinstance(obj, ConfiguredApplication)
    description = description_of(cls)
    assert description is not None
    return read_workload(obj, description)


def ray(**group: Any) -> Workload:
    workers = [{"groupName": "w", "template": TEMPLATE, **group}]
    return workload("ray.io/v1", "RayCluster", {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": workers})


@pytest.mark.parametrize(
    ("group", "count", "minimum"),
    [
        ({}, 0, 0),
        ({"replicas": 3}, 3, 3),
        ({"replicas": 3, "minReplicas": 1}, 3, 1),
        ({"replicas": 1, "minReplicas": 2}, 2, 2),
        ({"replicas": 5, "maxReplicas": 2}, 2, 2),
        ({"replicas": 2, "numOfHosts": 4}, 8, 8),
        ({"replicas": 2, "suspend": True}, 0, 0),
    ],
)
def test_workers_of_a_ray_cluster(group: dict[str, Any], count: int, minimum: int) -> None:
    found = ray(**group)
    assert not found.faults
    assert (found.pod_sets[1].count, found.pod_sets[1].minimum) == (count, minimum)
    assert found.min_member == 1 + minimum


def test_a_minimum_below_the_sum_takes_away_those_of_the_pod_sets() -> None:
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 3, "template": TEMPLATE}}}
    found = workload("kubeflow.org/v1", "PyTorchJob", spec, annotations={"kai.scheduler/batch-min-member": "2"})
    assert (found.min_member, found.pod_sets[0].minimum) == (2, 0)


@pytest.mark.parametrize("replicas", [1.5, -1, "3", True, 2**31, float("inf"), float("nan")])
def test_what_is_no_number_of_pods_is_a_fault(replicas: object) -> None:
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": replicas, "template": TEMPLATE}}}
    found = workload("kubeflow.org/v1", "PyTorchJob", spec)
    assert any("which is not a number of pods" in fault.message for fault in found.faults)


def test_too_many_pods_are_a_fault_and_none_is_created() -> None:
    found = ray(replicas=10**9)
    assert [fault.path for fault in found.faults if "1,000,000,001 pods" in fault.message] == ["podSets"]
    assert not found.pod_sets


def test_the_same_object_is_read_once() -> None:
    cls = KindTable().types()["ray.io/v1", "RayCluster"]
    obj = decode_as(cls, {"metadata": {"name": "a"}, "spec": {"headGroupSpec": {"template": TEMPLATE}}})
    assert isinstance(obj, ConfiguredApplication)
    description = description_of(cls)
    assert description is not None
    assert read_workload(obj, description) is read_workload(obj, description)


def test_a_child_has_the_labels_of_its_creator() -> None:
    found = workload("ray.io/v1", "RayJob", {"rayClusterSpec": {"x": 1}}, labels={"team": "a"})
    assert found.child is not None
    assert (found.child["kind"], found.child["metadata"]["labels"]) == ("RayCluster", {"team": "a"})
    assert workload("ray.io/v1", "RayJob", {}).child is None
