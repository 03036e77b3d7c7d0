"""Behaviour as folders: each case under tests/cases is manifests, a configuration and what is expected of muster.

expect.json says what is checked; tests/cases/README.md has its keys.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from muster.cli import main

CASES = Path(__file__).parent / "cases"
ROWS = re.findall(r"^\| (`.+?) \|", (CASES / "README.md").read_text("utf-8"), re.MULTILINE)
KEYS = {key for row in ROWS for key in re.findall(r"`(\w+)`", row)}
Answer = dict[str, Any]


def every_case() -> list[str]:
    return sorted(str(path.parent.relative_to(CASES)) for path in CASES.glob("*/*/expect.json"))


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def muster(folder: Path, *arguments: str) -> Result:
    with inside(folder):
        return CliRunner().invoke(main, [*arguments, "-o", "json"])


def answer(folder: Path, *arguments: str, shows: Sequence[str] = ()) -> Answer:
    result = muster(folder, *arguments)
    assert result.exit_code == 0, result.stderr
    for text in shows:
        assert text in result.stderr
    found = json.loads(result.stdout)
    assert isinstance(found, dict | list)  # a list: `override` of several templates
    return found


def configuration(folder: Path) -> list[str]:
    return ["-c", "scheduler.yaml"] if (folder / "scheduler.yaml").exists() else []


@pytest.mark.parametrize("case", every_case())
def test_case(case: str) -> None:
    folder = CASES / case
    expected = json.loads((folder / "expect.json").read_text())
    assert expected.keys() <= KEYS, "a misspelt key would check nothing"
    command = expected.get("command", "simulate")
    {"simulate": simulate, "explain": explain, "override": override, "validate": validate}[command](folder, expected)


def simulate(folder: Path, expected: Answer) -> None:
    arguments = expected.get("args") or ["--cycles", "1"]
    shows = expected.get("stderr", [])
    got = answer(folder, "simulate", *configuration(folder), "-f", "cluster.yaml", *arguments, shows=shows)
    binds, pending, pipelined = got["binds"], got["pending"], got["pipelined"]
    for pod, nodes in expected.get("binds", {}).items():
        allowed = [nodes] if isinstance(nodes, str) else nodes
        assert binds.get(pod) in allowed, f"{pod}: {binds.get(pod)}, {pending.get(pod)}"
    if expected.get("binds_exact"):
        assert binds.keys() == expected["binds"].keys()
    if "bound" in expected:
        assert len(binds) == expected["bound"], sorted(binds)
    for pod in expected.get("pending", []):
        assert pod not in binds
        assert pipelined.get(pod) or pending.get(pod), f"{pod} waits without a reason"
    for pod, text in expected.get("says", {}).items():
        assert text in pending.get(pod, ""), f"{pod}: {pending.get(pod)}"
    for text in expected.get("warns", []):
        assert any(text in warning for warning in got["summary"]["warnings"]), got["summary"]["warnings"]
    check_groups(folder, expected, binds)
    check_evictions(expected, got["evicts"])
    for pod, claimer in expected.get("evicted_for", {}).items():
        assert {one["pod"]: one["for"] for one in got["evictions"]}.get(pod) == claimer
    check_devices(expected, got)


def check_groups(folder: Path, expected: Answer, binds: dict[str, str]) -> None:
    objects = [o for o in yaml.load_all((folder / "cluster.yaml").read_text(), yaml.CSafeLoader) if o]
    members: dict[str, list[str]] = {}
    labels: dict[str, dict[str, str]] = {}
    for obj in objects:
        meta = obj["metadata"]
        if obj["kind"] == "Pod":
            group = (meta.get("annotations") or {}).get("scheduling.k8s.io/group-name", "")
            members.setdefault(group, []).append(f"{meta.get('namespace', 'default')}/{meta['name']}")
        elif obj["kind"] == "Node":
            labels[meta["name"]] = meta.get("labels") or {}
    for group, count in expected.get("bound_count", {}).items():
        assert len([pod for pod in members.get(group, []) if pod in binds]) == count, group
    together = expected.get("same_domain", [])
    for rule in [together] if isinstance(together, dict) else together:
        domains = {pod: labels[binds[pod]].get(rule["label"]) for pod in rule["pods"] if pod in binds}
        assert domains.keys() == set(rule["pods"])
        assert len(set(domains.values())) == 1 and None not in domains.values(), domains


def check_evictions(expected: Answer, evicts: list[str]) -> None:
    if "evicts" in expected:
        assert sorted(evicts) == sorted(expected["evicts"])
    assert len(evicts) == expected.get("evict_count", len(evicts)), evicts
    for choice in expected.get("evict_any_of", []):
        assert set(choice) & set(evicts), evicts


def check_devices(expected: Answer, got: Answer) -> None:
    devices = got["devices"]
    for pod, allowed in expected.get("devices", {}).items():
        assert sorted(devices.get(pod, [])) in [sorted(ids) for ids in allowed], f"{pod}: {devices.get(pod)}"
    for pod, shares in expected.get("shares", {}).items():
        assert got["shares"].get(pod) == shares, f"{pod}: {got['shares'].get(pod)}"
    for figure, value in expected.get("gpu_fragmentation", {}).items():
        assert got["summary"]["gpu_fragmentation"][figure] == pytest.approx(value, rel=0, abs=1e-6), figure
    if expected.get("devices_disjoint"):
        handed = [(got["binds"].get(pod), chip) for pod, chips in devices.items() for chip in chips]
        assert len(handed) == len(set(handed))


def explain(folder: Path, expected: Answer) -> None:
    arguments = [*expected.get("args", []), *configuration(folder), "-f", "cluster.yaml"]
    got = answer(folder, "explain", *arguments, shows=expected.get("stderr", []))
    nodes = got["nodes"]
    check_options(expected, got)
    near = expected.get("tolerance", 1e-6)
    for node, scores in expected.get("scores", {}).items():
        for plugin, score in scores.items():
            assert nodes[node]["scores"][plugin] == pytest.approx(score, rel=0, abs=near)
    for node, plugins in expected.get("terms", {}).items():
        for plugin, terms in plugins.items():
            assert nodes[node]["terms"][plugin] == pytest.approx(terms, rel=0, abs=near), node
    for node, text in expected.get("reasons", {}).items():
        assert text in [reason["text"] for reason in nodes[node]["reasons"]], node
    for node, feasible in expected.get("feasible", {}).items():
        assert nodes[node]["feasible"] is feasible, node


def check_options(expected: Answer, got: Answer) -> None:
    options = {option["where"]: option for option in got["evictions"]}
    for where, wanted in expected.get("evictions", {}).items():
        option = options[where]
        option["victims"] = sorted(victim["pod"] for victim in option["victims"])
        option["protected"] = {one["pod"]: one["text"] for one in option["protected"]}
        assert_within(wanted, option, where)
    if "evicted" in expected:
        assert_within(expected["evicted"], got["evicted"], "evicted")


def override(folder: Path, expected: Answer) -> None:
    arguments = ["override", "--policy", "policy.yaml", *expected.get("args", []), "-f", "workload.yaml"]
    if expected.get("fails"):
        result = muster(folder, *arguments)
        assert result.exit_code != 0
        assert "Traceback" not in result.stderr
        for text in expected.get("stderr", []):
            assert text in result.stderr
    else:
        assert_within(expected["output"], answer(folder, *arguments), "")


def validate(folder: Path, expected: Answer) -> None:
    result = muster(folder, "validate", *configuration(folder), "-f", "cluster.yaml", *expected.get("args", []))
    assert result.exit_code == expected["exit"], result.stderr
    found = json.loads(result.stdout)["findings"]
    assert len(found) == len(expected["findings"]), found
    for finding in expected["findings"]:
        message = finding.pop("message", "")
        assert any(finding.items() <= one.items() and message in one["message"] for one in found), (finding, found)


def assert_within(part: Any, whole: Any, path: str) -> None:
    """Objects by subset, lists by position."""
    if isinstance(part, dict):
        assert isinstance(whole, dict) and part.keys() <= whole.keys(), f"{path}: {whole!r}"
        for key, value in part.items():
            assert_within(value, whole[key], f"{path}.{key}")
    elif isinstance(part, list):
        assert isinstance(whole, list) and len(part) == len(whole), f"{path}: {whole!r}"
        for i, (one, other) in enumerate(zip(part, whole, strict=True)):
            assert_within(one, other, f"{path}[{i}]")
    else:
        assert part == whole, path
