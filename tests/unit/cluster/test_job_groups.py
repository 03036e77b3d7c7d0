"""Which Jobs become gangs, and what their groups request."""

from __future__ import annotations

from typing import Any

import pytest

from builders.manifests import Manifest, manifest, pod, tables
from muster.cluster.job_groups import GATE, with_job_groups
from muster.engine.core.native_groups import GROUPS
from muster.model.batch import Job
from muster.model.native import NativePodGroup

ON = {GATE: True}


def job(name: str = "j", parallelism: int = 3, completions: int = 3, mode: str = "Indexed", **spec: Any) -> Manifest:
    inside = {"parallelism": parallelism, "completions": completions, "completionMode": mode, **spec}
    template = {"spec": {"containers": [{"name": "c"}], **inside.pop("pods", {})}}
    return manifest("batch/v1", "Job", name, meta={"uid": f"u-{name}"}, spec={**inside, "template": template})


def groups_of(*manifests: Manifest, gates: dict[str, bool] | None = None) -> dict[str, NativePodGroup]:
    made = with_job_groups(tables(manifests), gates or {})
    found = {key: one for key, one in made.get(GROUPS, {}).items() if isinstance(one, NativePodGroup)}
    for key, one in made["Job"].items():
        assert isinstance(one, Job)
        named = one.spec.template.spec.scheduling_group
        assert (named is not None) == (key in found)
    return found


def owned(kind: str) -> Manifest:
    owner = [{"apiVersion": "batch/v1", "kind": "Job", "name": "other", "uid": "u"}]
    spec = {"schedulingPolicy": {"basic": {}}} if kind == "PodGroup" else {}
    return manifest("scheduling.k8s.io/v1alpha2", kind, "other", meta={"ownerReferences": owner}, spec=spec)


def test_an_indexed_job_becomes_a_gang_with_the_gate_only() -> None:
    assert groups_of(job()) == {}
    (group,) = groups_of(job(), gates=ON).values()
    assert group.spec.gang is not None and group.spec.gang.min_count == 3
    assert group.metadata.owner_references[0].name == "j" and group.version == "v1alpha2"


@pytest.mark.parametrize("kind", ["Workload", "PodGroup"])
def test_a_snapshot_with_a_group_of_a_job_shows_that_the_gate_is_on(kind: str) -> None:
    assert "default/j" in groups_of(job(), job("other", 1), owned(kind))
    assert "default/j" not in groups_of(job(), job("other", 1), owned(kind), gates={GATE: False})


@pytest.mark.parametrize(
    "other",
    [
        job(parallelism=1, completions=1),
        job(parallelism=2),
        job(mode="NonIndexed"),
    ],
)
def test_other_jobs_do_not(other: Manifest) -> None:
    assert groups_of(other, gates=ON) == {}


def test_a_job_with_pods_is_left_as_it_is() -> None:
    owner = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-j", "controller": True}]
    assert groups_of(job(), pod("j-0", meta={"ownerReferences": owner}), gates=ON) == {}


def test_spec_scheduling_says_what_the_group_asks_for() -> None:
    scheduling = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "disruptionMode": {"all": {}},
    }
    (group,) = groups_of(job(mode="NonIndexed", scheduling=scheduling)).values()
    assert group.spec.gang is not None and group.spec.gang.min_count == 2
    assert (group.spec.topology_key, group.spec.disrupted_whole, group.version) == ("rack", True, "v1beta1")
