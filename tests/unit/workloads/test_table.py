"""Tables of descriptions: reading, adding, and what is wrong with them."""

from __future__ import annotations

from muster.workloads.description import read_table
from muster.workloads.table import KindTable, shipped

FARM = """\
kinds:
- kind: Farm
  apiVersions: [farms.example.com/v1]
  podSets: [{template: spec.pod, count: spec.rows}]
"""


def test_the_shipped_table_is_valid_and_describes_every_kind_once() -> None:
    names = [one.name for one in shipped()]
    assert len(names) == len(set(names))
    assert not KindTable().check()
    assert {"RayCluster.ray.io", "JobSet.jobset.x-k8s.io", "MPIJob.kubeflow.org", "Job"} <= set(names)


def test_an_entry_has_paths_only_where_they_are_plain() -> None:
    (farm,), findings = read_table(FARM, "k.yaml")
    assert not findings
    assert (farm.template_path, farm.replicas_path) == (("spec", "pod"), ("spec", "rows"))
    assert farm.source == "k.yaml:2"
    ray = next(one for one in shipped() if one.kind == "RayCluster")
    assert (ray.template_path, ray.replicas_path) == ((), ())


def test_lines_count_from_the_start_of_the_file() -> None:
    (farm,), _ = read_table(FARM, "cluster.yaml", 5)
    assert farm.source == "cluster.yaml:7"
    _, (finding,) = read_table("kinds:\n- kind: Farm\n  apiVersions: [f.io/v1]\n  gang: 1\n", "cluster.yaml", 5)
    assert (finding.line, finding.message) == (9, "gang: there is no such field")


def test_the_first_of_two_descriptions_stays() -> None:
    table = KindTable()
    (farm,), _ = read_table(FARM, "one.yaml")
    (other,), _ = read_table(FARM, "two.yaml")
    assert not table.add([farm])
    (finding,) = table.add([other])
    assert (finding.file, finding.line) == ("two.yaml", 2)
    assert "also at one.yaml:2" in finding.message
    assert table.get("Farm.farms.example.com") is farm


def test_a_kind_that_creates_itself_is_a_cycle_and_its_type_is_finite() -> None:
    table = KindTable()
    text = "kinds:\n- kind: A\n  apiVersions: [x.io/v1]\n  creates: {apiVersion: x.io/v1, kind: A, spec: spec}\n"
    (one,), _ = read_table(text, "k.yaml")
    table.add([one])
    assert [finding.message for finding in table.check()] == ["the kinds create each other: A → A"]
    assert table.types()["x.io/v1", "A"].makes[0].makes == ()


def test_booleans_and_numbers_are_expressions() -> None:
    text = "kinds:\n- {kind: A, apiVersions: [x.io/v1], minMember: 2, podSets: [{template: spec.t, late: true}]}\n"
    (one,), findings = read_table(text, "k.yaml")
    assert not findings
    assert one.min_member is not None and one.min_member.find({}) == 2
    assert one.pod_sets[0].late is not None and one.pod_sets[0].late.find({}) is True
