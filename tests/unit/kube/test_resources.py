"""Paths of the REST API."""

from __future__ import annotations

import pytest

from muster.kube.resources import SOURCES, resource_of
from muster.model.core import Node, Pod
from muster.model.kinds import KINDS
from muster.model.scheduling import PodGroup
from muster.model.topology import Topology


def test_paths_of_collections_objects_and_subresources() -> None:
    pods, groups = resource_of(Pod), resource_of(PodGroup)
    assert pods.path() == "/api/v1/pods"
    assert pods.path(namespace="ns") == "/api/v1/namespaces/ns/pods"
    assert pods.path("ns/a", sub="binding") == "/api/v1/namespaces/ns/pods/a/binding"
    assert groups.path("ns/g") == "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g"
    assert resource_of(Node).path("n1") == "/api/v1/nodes/n1"


def test_a_name_cannot_lead_elsewhere() -> None:
    assert resource_of(Pod).path("ns/../../nodes") == "/api/v1/namespaces/ns/pods/..%2F..%2Fnodes"


def test_every_kind_of_the_model_has_its_place() -> None:
    assert {kind.__name__ for kind in SOURCES} == set(KINDS)


def test_a_kind_of_several_groups_is_distinguished_by_its_apiversion() -> None:
    assert resource_of(Topology, "kai.scheduler/v1alpha1").name == "topologies.kai.scheduler"
    with pytest.raises(ValueError, match="not served"):
        resource_of(Topology, "v1")
