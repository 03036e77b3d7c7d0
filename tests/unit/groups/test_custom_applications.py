"""The ConfigMap that names further kinds of applications."""

from __future__ import annotations

import pytest

from muster.groups.applications import application_of, owner_kind, replicas_of, templates_of
from muster.groups.custom_applications import BadConfiguration, read_custom_applications
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.kinds import decode_as
from muster.model.meta import Object, OwnerReference

CLONE_SETS = "applications:\n- {group: apps.kruise.io, version: v1alpha1, kind: CloneSet}\n"


def clone_set(text: str = CLONE_SETS) -> type[CustomApplication]:
    return read_custom_applications(text)[0].type("clonesets")


def test_a_kind_is_read_with_its_defaults() -> None:
    (one,) = read_custom_applications(CLONE_SETS)
    assert (one.name, one.pod_template_path, one.plural) == ("CloneSet.apps.kruise.io", "spec.template", "")
    assert read_custom_applications("") == read_custom_applications("applications: []") == []


def test_objects_of_a_configured_kind_have_a_number_and_a_template_where_the_paths_say() -> None:
    text = CLONE_SETS.replace("}", ", replicasPath: /spec/scale/size, podTemplatePath: spec.pod}")
    spec = {"scale": {"size": 4}, "pod": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    made = decode_as(clone_set(text), {"metadata": {"name": "x"}, "spec": spec})
    assert replicas_of(made) == 4
    (template,) = templates_of(made)
    assert template.spec.containers[0].image == "i"
    without = decode_as(clone_set(CLONE_SETS.replace("}", ', replicasPath: ""}')), {"metadata": {"name": "x"}})
    assert replicas_of(without) is None and not templates_of(without)
    assert replicas_of(decode_as(clone_set(), {"metadata": {"name": "x"}})) == 1


def test_a_kind_of_another_group_is_not_taken_for_kubernetes_own() -> None:
    assert owner_kind(OwnerReference(api_version="apps/v1", kind="StatefulSet")) == "StatefulSet"
    assert owner_kind(OwnerReference(api_version="apps.kruise.io/v1beta1", kind="StatefulSet")) == (
        "StatefulSet.apps.kruise.io"
    )


def test_a_pod_finds_its_configured_owner_and_only_while_it_is_configured() -> None:
    top = decode_as(clone_set(), {"metadata": {"name": "x", "namespace": "ns", "uid": "u"}, "spec": {"replicas": 3}})
    reference = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "x", "uid": "u"}
    meta = {"name": "p", "namespace": "ns", "ownerReferences": [{**reference, "controller": True}]}
    pod = decode_as(Pod, {"metadata": meta})

    def lookup(kind: str, key: str) -> Object | None:
        assert (kind, key) == ("CloneSet.apps.kruise.io", "ns/x")
        return top

    found = application_of(pod, lookup, {"CloneSet.apps.kruise.io"})
    assert found.object is top and found.unit == ("CloneSet.apps.kruise.io", "ns/x") and found.replicas == 3
    assert application_of(pod, lookup).object is pod


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("applications: [", "config.yaml"),
        ("applications: 7", "array"),
        ("applications: [{group: g.io, version: v1}]", "applications[0]"),
        ("applications: [{group: g.io, version: v1, kind: K, path: x}]", "path"),
        ("applications: [{group: g.io, version: v1, kind: 7}]", "applications[0]"),
        ("applications: [{group: g.io, version: v1, kind: K, replicasPath: status.n}]", "replicasPath"),
        ("applications: [{group: g.io, version: v1, kind: K, podTemplatePath: ''}]", "podTemplatePath"),
        ("applications: [{group: g.io, version: v1, kind: K}, {group: g.io, version: v2, kind: K}]", "named twice"),
        ("a: 1\n---\nb: 2", "documents"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(BadConfiguration) as fault:
        read_custom_applications(text)
    assert message in str(fault.value)
