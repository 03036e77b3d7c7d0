"""No requirement of an object is silently ignored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from builders.files import manifests, replica_set, scheduler, write
from builders.manifests import Manifest, group, manifest, node, pod, queue
from builders.node_groups import REQUIRED as POLICY
from muster.cli import main
from muster.config import DEFAULT
from muster.cycle.registry import PLUGINS, plugin_class
from muster.cycle.requirements import PROVIDERS
from muster.engine.core.hooks import Plugin
from muster.model.finding import Finding
from muster.sim.validate import validate_cluster

HARD, SOFT = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
CHIPS = "huawei.com/Ascend910"
LEVEL = {"kai.scheduler/topology": "dc", "kai.scheduler/topology-required-placement": "rack"}
LEVEL_PREFERRED = {"kai.scheduler/topology": "dc", "kai.scheduler/topology-preferred-placement": "rack"}
LEVEL_ALONE = {"kai.scheduler/topology-required-placement": "rack"}
ELSEWHERE = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}


def without(plugin: str, text: str = DEFAULT) -> str:
    assert f"  - name: {plugin}\n" in text
    return text.replace(f"  - name: {plugin}\n", "")


def affinity(**lists: list[str]) -> Manifest:
    return queue("q", affinity={"nodeGroupAffinity": lists})


def chips() -> Manifest:
    return pod("p", containers=[{"name": "c", "resources": {"requests": {"cpu": "1", CHIPS: 1}}}])


def ignored(configuration: str, *documents: Manifest) -> list[Finding]:
    found = validate_cluster(scheduler(configuration), manifests(node("n1", cpu=4), *documents), ("muster", "volcano"))
    return [finding for finding in found if finding.code in ("no-plugin", "unsupported")]


CASES = [
    ("nodegroup", affinity(**{HARD: ["a", "b"]}), "Queue q", "requires node group a or b", "error"),
    ("nodegroup", affinity(**{SOFT: ["a"]}), "Queue q", "prefers node group a", "notice"),
    ("nodegroup", queue("q", affinity={"nodeGroupAntiAffinity": {HARD: ["c"]}}), "Queue q", "must not use", "error"),
    ("nodegroup", queue("q", affinity={"nodeGroupAntiAffinity": {SOFT: ["c"]}}), "Queue q", "avoids", "notice"),
    ("nodegroup", group("g", annotations={"muster.io/one-node-group": "true"}), "PodGroup default/g",
     "one node group", "error"),
    ("topology", group("g", annotations=LEVEL), "PodGroup default/g",
     "requires the level rack of topology dc", "error"),
    ("topology", group("g", annotations=LEVEL_ALONE), "PodGroup default/g",
     "names a topology level in an annotation", "error"),
    ("topology", group("g", annotations=LEVEL_PREFERRED), "PodGroup default/g", "prefers the level rack", "notice"),
    ("topology", group("g", topologyConstraint={"topology": "dc", "requiredTopologyLevel": "rack"}),
     "PodGroup default/g", "requires the level rack of topology dc", "error"),
    ("topology", group("g", networkTopology={"mode": "hard"}), "PodGroup default/g", "mode hard", "error"),
    ("topology", group("g", networkTopology={"mode": "soft"}), "PodGroup default/g", "mode soft", "notice"),
    ("topology",
     group("g", subGroups=[{"name": "w", "topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "r"}}]),
     "PodGroup default/g", "sub-group w: requires the level r of topology dc", "error"),
    ("gang", group("g", subGroups=[{"name": "w", "minMember": 2}]), "PodGroup default/g", "has sub-groups", "error"),
    ("gang", group("g", minMember=2), "PodGroup default/g", "has a minMember above 1", "notice"),
    ("topology910", chips(), "Pod default/p", f"requests {CHIPS}", "error"),
    ("propagation", pod("p", labels={POLICY: "pp"}), "Pod default/p", "requires PropagationPolicy pp", "error"),
    ("propagation", manifest("apps/v1", "Deployment", "web", labels={POLICY: "pp"}, spec={"replicas": 0}),
     "Deployment default/web", "requires PropagationPolicy pp", "error"),
    ("predicates", pod("p", nodeSelector={"disk": "ssd"}), "Pod default/p", "has a nodeSelector", "error"),
    ("predicates", pod("p", affinity={"podAntiAffinity": {HARD: [ELSEWHERE]}}), "Pod default/p",
     "has a required pod anti-affinity", "error"),
]  # fmt: skip


@pytest.mark.parametrize(("plugin", "document", "about", "text", "severity"), CASES)
def test_a_requirement_without_its_plugin_is_reported(
    plugin: str, document: Manifest, about: str, text: str, severity: str
) -> None:
    (finding,) = ignored(without(plugin), document)
    assert (finding.severity, finding.object, finding.code) == (severity, about, "no-plugin")
    assert text in finding.message and f"the plugin {plugin} is not configured" in finding.message
    assert f"`- name: {plugin}`" in finding.fix and finding.line is not None
    assert ignored(DEFAULT, document) == []


def test_a_switch_that_turns_the_plugin_off_counts_as_no_plugin() -> None:
    off = DEFAULT.replace("name: nodegroup\n", "name: nodegroup\n    enablePredicate: false\n")
    (finding,) = ignored(off, affinity(**{HARD: ["a"], SOFT: ["b"]}))
    assert "enablePredicate of the plugin nodegroup is off" in finding.message


def test_resource_claims_of_native_groups_are_not_supported() -> None:
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "gpu"}]}
    (finding,) = ignored(DEFAULT, manifest("scheduling.k8s.io/v1alpha2", "PodGroup", "g", spec=spec))
    assert (finding.severity, finding.code) == ("error", "unsupported")
    assert finding.object == "PodGroup.scheduling.k8s.io default/g" and "claims are ignored" in finding.message


def test_equal_requirements_are_one_finding_at_the_place_of_their_workload() -> None:
    (finding,) = ignored(without("topology910"), replica_set("r", 3, chips()))
    assert finding.message.endswith("(and 2 more like it)")
    assert finding.line == 4


def test_the_list_of_providers_is_complete() -> None:
    assert set(PROVIDERS) == {
        name
        for name in PLUGINS
        if plugin_class(name).required_by.__func__ is not Plugin.required_by.__func__  # type: ignore[attr-defined]
    }


# --- as the commands show it


@pytest.mark.parametrize("command", [["simulate"], ["explain", "default/p"]])
def test_simulate_and_explain_warn_and_go_on(tmp_path: Path, command: list[str]) -> None:
    documents = [
        node("n1", cpu=4),
        affinity(**{HARD: ["a"]}),
        pod("p", annotations={"scheduling.volcano.sh/queue-name": "q"}),
    ]
    options = write(tmp_path, documents, without("nodegroup"))
    result = CliRunner().invoke(main, [*command, *options, "-o", "json"])
    assert result.exit_code == 0
    reported = json.loads(result.stdout)
    (warning,) = reported["warnings"] if command[0] == "explain" else reported["summary"]["warnings"]
    assert warning.startswith("Queue q: requires node group a, but the plugin nodegroup is not configured")
    assert f"warning: {warning}\n" in result.stderr
    table = CliRunner().invoke(main, [*command, *options])
    assert table.exit_code == 0 and table.output.startswith(f"warning: {warning}\n")


def test_a_preference_is_no_warning_but_is_in_the_log(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4), affinity(**{SOFT: ["a"]}), pod("p")], without("nodegroup"))
    quiet = CliRunner().invoke(main, ["simulate", *options, "-o", "json"])
    assert json.loads(quiet.stdout)["summary"]["warnings"] == [] and quiet.stderr == ""
    reported = CliRunner().invoke(main, ["simulate", *options, "-v", "1"])
    assert "notice: Queue q: prefers node group a, but" in reported.stderr


def test_validate_exits_with_1(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4), affinity(**{HARD: ["a"]})], without("nodegroup"))
    assert CliRunner().invoke(main, ["validate", *options]).exit_code == 1
