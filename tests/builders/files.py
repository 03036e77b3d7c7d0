"""Manifests and configurations as files, for tests of simulate, explain and validate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from builders import manifests as objects
from muster.cluster.manifests import Manifests, read
from muster.cycle.configure import configure
from muster.cycle.scheduler import Scheduler

Document = dict[str, Any]

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


def node(name: str, cpu: int = 4, labels: dict[str, str] | None = None, **amounts: str) -> Document:
    return objects.node(name, cpu=cpu, labels=labels, resources=amounts)


def pod(name: str, cpu: str = "1", on: str = "", **more: Any) -> Document:
    return objects.pod(name, on=on, requests={"cpu": cpu}, **more)


def pod_group(name: str, **spec: Any) -> Document:
    return objects.group(name, **spec)


def queue(name: str, state: str = "", **spec: Any) -> Document:
    return objects.queue(name, state=state, **spec)


def priority_class(name: str, value: int) -> Document:
    return thing("scheduling.k8s.io/v1", "PriorityClass", name, value=value)


def replica_set(name: str, replicas: int, template: Document) -> Document:
    labels = {"app": name}
    made = {"metadata": {**template["metadata"], "labels": labels}, "spec": template["spec"]}
    del made["metadata"]["name"]
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": made}
    return thing("apps/v1", "ReplicaSet", name, spec=spec)


thing = objects.manifest


def text(*documents: Document) -> str:
    """The documents as a file: each begins on a line of its own."""
    return "".join(f"---\n{json.dumps(document)}\n" for document in documents)


def manifests(*documents: Document) -> Manifests:
    found = read([("cluster.yaml", text(*documents).encode())])
    assert not found.errors
    return found


def scheduler(configuration: str = PREEMPTING) -> Scheduler:
    config, findings = configure(configuration, "scheduler.yaml")
    assert [finding for finding in findings if finding.severity == "error"] == []
    return Scheduler(config)


def full_cluster() -> list[Document]:
    """One node, full with two pods of a ReplicaSet, and a pod of high priority that waits."""
    low = pod("low", priorityClassName="low")
    running = [pod(f"low-{i}", on="n1", labels={"app": "low"}, priorityClassName="low") for i in (1, 2)]
    classes = [priority_class("high", 1000), priority_class("low", 1)]
    return [node("n1", cpu=2), *classes, replica_set("low", 2, low), *running, pod("boss", priorityClassName="high")]


def write(folder: Path, documents: Sequence[Document], configuration: str = "") -> list[str]:
    """The manifests (and a configuration) as files; the options that name them."""
    (folder / "cluster.yaml").write_text(text(*documents))
    options = ["-f", str(folder / "cluster.yaml")]
    if configuration:
        (folder / "scheduler.yaml").write_text(configuration)
        options += ["-c", str(folder / "scheduler.yaml")]
    return options
