"""Reads a ```yaml block of a document as muster would: manifests, configurations, entries of a tier, other files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml

from muster.cli.install.parts import PARTS, read_values
from muster.cluster.manifests import read
from muster.cycle.configure import configure
from muster.cycle.scheduler import Scheduler
from muster.sim.replay.node_events import read_node_events
from muster.sim.sweep.grid import read_grid
from muster.workloads.description import read_table

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"


def problems(text: str, where: str) -> list[str]:
    """Returns the errors in a block; [] if muster would use it."""
    if text.startswith("# /etc/"):
        return []  # a file of the API server
    documents = [value for value in yaml.safe_load_all(text) if value is not None]
    first = documents[0]
    if all(isinstance(value, dict) and "kind" in value for value in documents):
        return _errors(read([(where, text.encode())]).errors)
    if isinstance(first, list):
        return _entries(first, text, where)
    if {"actions", "tiers"} & first.keys():
        return _configuration(text, where)
    if "applications" in first:
        meta = {"name": "groupmanagement-config", "namespace": "muster-system"}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"config.yaml": text}}
        return _errors(read([(where, config)]).errors)
    if "kinds" in first:
        return _errors(read_table(text, where)[1])
    if "traces" in first:
        return _grid(text)
    read_values(first, list(PARTS.values()))
    return []


def _entries(first: list[Any], text: str, where: str) -> list[str]:
    """Entries of a tier, or events of `replay --node-events`."""
    if "name" in first[0]:
        return _configuration(yaml.safe_dump({"actions": "allocate", "tiers": [{"plugins": first}]}), where)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        read_node_events(file.name, {value for entry in first for value in entry.values()})
    return []


def _configuration(text: str, where: str) -> list[str]:
    config, findings = configure(text, where)
    assert config.actions and config.plugins()
    return _errors([*findings, *Scheduler(config).findings()])


def _grid(text: str) -> list[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=EXAMPLES / "sweep") as file:
        file.write(text)
        file.flush()
        read_grid(file.name)
    return []


def _errors(findings: list[Any]) -> list[str]:
    return [f"{finding.object}: {finding.message}" for finding in findings if finding.severity == "error"]
