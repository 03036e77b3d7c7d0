"""Volcano's files work unchanged: their arguments, their ConfigMaps; and other files are recognised."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli import main
from muster.config.source import key_of_configuration
from muster.config.volcano_only import SERVED_BY, VOLCANO_ACTIONS, VOLCANO_ARGUMENTS, VOLCANO_PLUGINS
from muster.cycle.configure import configure
from muster.cycle.registry import ACTIONS, PLUGINS

# As Volcano's documentation has it, every argument of every plugin that muster has.
DOCUMENTED = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: sla
    arguments: {sla-waiting-time: 1h}
- plugins:
  - name: overcommit
    arguments: {overcommit-factor: 1.5}
  - name: drf
  - name: predicates
    arguments:
      predicate.NodeAffinityEnable: true
      predicate.NodePortsEnable: true
      predicate.TaintTolerationEnable: true
      predicate.PodAffinityEnable: true
      predicate.NodeVolumeLimitsEnable: true
      predicate.VolumeZoneEnable: true
      predicate.PodTopologySpreadEnable: true
      predicate.VolumeBindingEnable: true
      predicate.DynamicResourceAllocationEnable: false
      predicate.CacheEnable: true
      predicate.ProportionalEnable: true
      predicate.resources: nvidia.com/gpu
      predicate.resources.nvidia.com/gpu.cpu: 4
  - name: capacity
    enableHierarchy: true
    arguments: {ancestorReclaimLevel: 1}
  - name: nodeorder
    arguments:
      leastrequested.weight: 1
      mostrequested.weight: 0
      balancedresource.weight: 1
      nodeaffinity.weight: 2
      podaffinity.weight: 2
      tainttoleration.weight: 3
      imagelocality.weight: 1
      podtopologyspread.weight: 2
      selectorspread.weight: 0
      volumebinding.weight: 1
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.cpu: 5
      binpack.memory: 1
      binpack.resources: nvidia.com/gpu
      binpack.resources.nvidia.com/gpu: 2
  - name: nodegroup
    arguments: {strict: true, enablePreferredOrder: false}
  - name: pdb
  - name: network-topology-aware
    arguments:
      weight: 10
      hypernode.binpack.cpu: 5
      hypernode.binpack.memory: 1
      hypernode.binpack.resources: nvidia.com/gpu
      hypernode.binpack.resources.nvidia.com/gpu: 2
      hypernode.binpack.normal-pod.enable: true
      hypernode.binpack.normal-pod.fading: 0.8
  - name: resource-strategy-fit
    arguments:
      resourceStrategyFitWeight: 10
      resources: {nvidia.com/gpu: {type: MostAllocated, weight: 2}}
      sra: {enable: true, resources: nvidia.com/gpu, weight: 10, resourceWeight: {nvidia.com/gpu: 1}}
      proportional: {enable: false, resources: nvidia.com/gpu, resourceProportion: {nvidia.com/gpu.cpu: 4}}
configurations:
- name: allocate
  arguments: {predicateErrorCacheEnable: true}
- name: preempt
  arguments:
    enableTopologyAwarePreemption: true
    topologyAwarePreemptWorkerNum: 16
    minCandidateNodesPercentage: 10
    minCandidateNodesAbsolute: 1
    maxCandidateNodesAbsolute: 100
metrics:
  type: prometheus
  address: http://metrics:9090
  interval: 30s
"""
CONFIGURATION = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n"


def config_map(name: str, **data: str) -> str:
    lines = ["---", "apiVersion: v1", "kind: ConfigMap", f"metadata: {{name: {name}}}", "data:"]
    for key, text in data.items():
        lines += [f"  {key.replace('_', '.')}: |", *(f"    {line}" for line in text.splitlines())]
    return "\n".join(lines) + "\n"


def test_every_documented_argument_is_accepted_with_a_warning_where_it_has_no_effect() -> None:
    config, findings = configure(DOCUMENTED, "s.yaml")
    assert {f.severity for f in findings} == {"warning", "notice"}
    idle = {f.message.split()[2] for f in findings if f.code == "foreign-argument"}
    assert len(findings) == len(idle) + 1  # and that network-topology-aware is served by topology
    assert {"predicate.CacheEnable", "selectorspread.weight", "hypernode.binpack.cpu"} <= idle
    assert {"maxCandidateNodesAbsolute", "predicate.resources.nvidia.com/gpu.cpu"} <= idle
    assert all(f.fix and f.line for f in findings)
    for owner in (*config.plugins(), *config.configurations.values()):
        arguments = getattr(owner, "arguments", owner)
        assert not idle & set(arguments)


def test_the_table_of_arguments_without_effect_names_what_muster_has() -> None:
    assert VOLCANO_ARGUMENTS.keys() <= {*PLUGINS, *ACTIONS, *SERVED_BY}
    for owner, arguments in VOLCANO_ARGUMENTS.items():
        assert not set(arguments) & set(ACTIONS.get(owner, ()))


def test_a_misspelt_argument_of_network_topology_aware_is_an_error() -> None:
    plugin = "- name: network-topology-aware\n    arguments: {hypernod.binpack.cpu: 1}\n"
    _, findings = configure(f"actions: allocate\ntiers:\n- plugins:\n  {plugin}", "s.yaml")
    assert ("error", "unknown-argument") in [(f.severity, f.code) for f in findings]


@pytest.mark.parametrize("text", [CONFIGURATION.replace("allocate", "zzz"), CONFIGURATION + "  - name: zzz\n"])
def test_the_names_listed_in_errors_are_those_that_muster_has(text: str) -> None:
    (finding,) = configure(text, "s.yaml")[1]
    listed = finding.fix.removeprefix("known: ").split(", ")
    assert set(listed) in ({*PLUGINS}, {*ACTIONS})
    assert not {*VOLCANO_PLUGINS, *VOLCANO_ACTIONS} & set(listed)


# --- which ConfigMap


def test_of_several_config_maps_the_one_with_actions_is_used() -> None:
    admission = config_map("volcano-admission-configmap", **{"volcano-admission_conf": "resourceGroups: []\n"})
    dashboard = config_map("dashboard", **{"settings_json": '{"a": 1}'})
    scheduler = config_map("volcano-scheduler-configmap", **{"volcano-scheduler_conf": CONFIGURATION})
    for text in (admission + dashboard + scheduler, scheduler + admission):
        config, findings = configure(text, "release.yaml")
        assert [f for f in findings if f.severity == "error"] == []
        assert config.actions == ("allocate",)


def test_of_several_keys_the_one_with_actions_is_used() -> None:
    text = config_map("c", a_conf="colour: red\n", scheduler_yaml="actions: enqueue\n", z_conf=CONFIGURATION)
    config, _ = configure(text, "s.yaml")
    assert config.actions == ("allocate",)
    assert key_of_configuration({"a.conf": "x", "scheduler.yaml": CONFIGURATION}) == "scheduler.yaml"
    assert key_of_configuration({"b.conf": "x", "a.conf": "y", "c": "z"}) == "a.conf"
    assert key_of_configuration({"c": "z"}) == ""


def test_a_list_of_config_maps_is_looked_through_and_lines_are_right() -> None:
    misspelt = CONFIGURATION.replace("gang", "gong")
    body = "".join(f"        {line}\n" for line in misspelt.splitlines())
    text = f"kind: List\nitems:\n- kind: Service\n- kind: ConfigMap\n  data:\n      x.conf: |\n{body}"
    (finding,) = configure(text, "s.yaml")[1]
    assert (finding.line, finding.fix) == (10, "did you mean gang?")


def test_a_config_map_without_a_configuration_says_what_it_has() -> None:
    (finding,) = configure(config_map("c", colours="red\n"), "s.yaml")[1]
    assert finding.code == "config-unreadable" and finding.message.endswith("it has colours")


# --- which file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n", "this is a Deployment manifest"),
        ("kind: Node\n---\nkind: Pod\n", "this is a Node manifest"),
        ("kind: OverridePolicy\n", "this is an OverridePolicy manifest"),
        ("kind: List\nitems: [{kind: Node}]\n", "this is a List manifest"),
    ],
)
def test_a_manifest_in_place_of_the_configuration_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(text)
    (tmp_path / "cluster.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
    result = CliRunner().invoke(main, ["simulate", "-c", str(path), "-f", str(tmp_path / "cluster.yaml")])
    assert result.exit_code == 2
    assert f"{path}:1: error: {message}, not a configuration: give it with -f\n" in result.stderr


def test_the_configuration_of_kube_scheduler_is_named() -> None:
    (finding,) = configure("kind: KubeSchedulerConfiguration\nprofiles: []\n", "s.yaml")[1]
    assert "kube-scheduler" in finding.message
