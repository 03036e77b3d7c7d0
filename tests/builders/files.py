"""Manifests and configurations as files, for tests of simulate, explain and validate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from builders.manifests import Manifest, manifest, node, pod, priority_class
from muster.cluster.manifests import Manifests, read
from muster.cycle.configure import configure
from muster.cycle.scheduler import Scheduler

PREEMPTING = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: nodeorder
"""
PACKING = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: binpack\n'
SPREADING = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: nodeorder\n'


def replica_set(name: str, replicas: int, template: Manifest) -> Manifest:
    labels = {"app": name}
    made = {"metadata": {**template["metadata"], "labels": labels}, "spec": template["spec"]}
    del made["metadata"]["name"]
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": made}
    return manifest("apps/v1", "ReplicaSet", name, spec=spec)


def text(*documents: Manifest) -> str:
    """The documents as a file: each begins on a line of its own."""
    return "".join(f"---\n{json.dumps(document)}\n" for document in documents)


def manifests(*documents: Manifest) -> Manifests:
    found = read([("cluster.yaml", text(*documents).encode())])
    assert not found.errors
    return found


def scheduler(configuration: str = PREEMPTING) -> Scheduler:
    config, findings = configure(configuration, "scheduler.yaml")
    assert [finding for finding in findings if finding.severity == "error"] == []
    return Scheduler(config)


def full_cluster() -> list[Manifest]:
    """One node, full with two pods of a ReplicaSet, and a pod of high priority that waits."""
    low = pod("low", priorityClassName="low")
    running = [pod(f"low-{i}", on="n1", labels={"app": "low"}, priorityClassName="low") for i in (1, 2)]
    classes = [priority_class("high", 1000), priority_class("low", 1)]
    return [node("n1", cpu=2), *classes, replica_set("low", 2, low), *running, pod("boss", priorityClassName="high")]


def write(folder: Path, documents: Sequence[Manifest], configuration: str = "") -> list[str]:
    """The manifests (and a configuration) as files; the options that name them."""
    (folder / "cluster.yaml").write_text(text(*documents))
    options = ["-f", str(folder / "cluster.yaml")]
    if configuration:
        (folder / "scheduler.yaml").write_text(configuration)
        options += ["-c", str(folder / "scheduler.yaml")]
    return options
