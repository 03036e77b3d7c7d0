"""Reads the inputs that a grid names: configurations, traces and clusters, each with a hash of what it consists of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import to_builtins
from msgspec.structs import replace as msgspec_replace

from muster.engine.core.state import Objects
from muster.model.core import Node
from muster.model.finding import Finding, InputError, in_order
from muster.model.meta import ObjectMeta
from muster.sim.inputs import ConfigText, default_config, load_config, read_cluster, usable_cluster
from muster.sim.replay.node_events import NodeEvent, read_node_events
from muster.sim.sweep.grid import ClusterSource, ConfigurationSource, Grid, TraceSource
from muster.sim.traces import Trace, make_trace, read_trace
from muster.sim.traces.nodes import read_nodes

__all__ = ["ClusterInput", "ConfigurationInput", "Inputs", "TraceInput", "digest", "read_inputs"]

NODE_NAME = "node-{:05d}"
MAX_BAD_ROWS = 10  # of each trace are reported one by one
DEFAULT_PODS = 110  # of a kubelet


@dataclass(frozen=True, slots=True)
class ConfigurationInput:
    """A configuration with its text."""

    name: str
    digest: str
    text: ConfigText


@dataclass(frozen=True, slots=True)
class TraceInput:
    """A trace that was read, or the parameters of the generator."""

    source: TraceSource
    digest: str
    trace: Trace | None

    @property
    def name(self) -> str:
        return self.source.name

    def with_seed(self, seed: int | None) -> Trace:
        """Returns the trace of a seed: generated, a random part of the jobs, or with exchanged submission times."""
        if self.trace is None:
            assert self.source.make is not None
            return make_trace(self.source.make, seed or 0)
        trace = self.trace
        random = np.random.RandomState(seed)  # its numbers are the same in every version of NumPy
        if self.source.sample is not None:
            jobs = len(trace)
            chosen = random.permutation(jobs)[: max(1, round(self.source.sample * jobs))]
            trace = trace.select(np.sort(chosen).astype(np.int64))
        if self.source.shuffle:
            order = random.permutation(len(trace))
            trace = replace(trace, submit=trace.submit[order]).select(np.arange(len(trace), dtype=np.int64))
        return trace


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """The objects of a cluster: its nodes, and queues and other objects of manifests."""

    name: str
    digest: str
    objects: Objects
    node_events: tuple[NodeEvent, ...] = ()
    now: float | None = None
    """The time of a snapshot with pods: the trace starts then."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of all cells, by name."""

    configurations: Mapping[str, ConfigurationInput]
    traces: Mapping[str, TraceInput]
    clusters: Mapping[str, ClusterInput]
    options: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()

    @property
    def options_digest(self) -> str:
        return digest(dict(self.options))


def digest(*parts: object) -> str:
    """Returns a hash of plain values and bytes."""
    whole = sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode()
        whole.update(sha256(content).digest())
    return whole.hexdigest()


def read_inputs(grid: Grid) -> Inputs:
    """Reads everything that the grid names; raises InputError with all findings if something cannot be used."""
    reading = _Reading(grid)
    inputs = reading.inputs()
    if any(finding.severity == "error" for finding in inputs.findings):
        raise InputError(f"the inputs of {grid.file} cannot be used", inputs.findings)
    return inputs


class _Reading:
    """The inputs of one grid being read; the digest of a file is computed once."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.findings: list[Finding] = list(grid.findings)
        self.digests: dict[str, str] = {}
        self.gpu_resource = str(grid.options.get("gpu_resource", "nvidia.com/gpu"))

    def inputs(self) -> Inputs:
        configurations = [self.configuration(one) for one in self.grid.configurations]
        traces = [self.trace(one) for one in self.grid.traces]
        clusters = [self.cluster(one) for one in self.grid.clusters]
        return Inputs(
            {one.name: one for one in configurations if one is not None},
            {one.name: one for one in traces if one is not None},
            {one.name: one for one in clusters if one is not None},
            self.grid.options,
            tuple(in_order(self.findings)),
        )

    def fault(self, line: int, about: str, error: InputError) -> None:
        """Reports what makes an input unusable, at its own place or at that of the grid."""
        if not any(finding.severity == "error" for finding in error.findings):
            self.findings.append(Finding("error", self.grid.file, line, about, "input", error.message))
        self.findings.extend(error.findings)

    def file_digests(self, paths: Iterable[str]) -> list[str]:
        """Returns a hash of each file, or of all files in a folder of manifests."""
        for path in paths:
            if path not in self.digests:
                try:
                    self.digests[path] = _content_digest(Path(path))
                except OSError as error:
                    raise InputError(f"{path} cannot be read: {error.strerror}") from None
        return [self.digests[path] for path in paths]

    def configuration(self, source: ConfigurationSource) -> ConfigurationInput | None:
        try:
            if source.path:
                [content] = self.file_digests([source.path])
                text = ConfigText(Path(source.path).read_bytes().decode("utf-8-sig"), source.path)
            else:
                text = default_config()
                content = digest(text.text.encode())
            loaded = load_config(text)
        except InputError as error:
            self.fault(source.line, f"configuration {source.name}", error)
            return None
        except UnicodeDecodeError:
            fault = Finding("error", source.path, None, "", "file", "is not UTF-8 text", "save the file as UTF-8")
            self.findings.append(fault)
            return None
        self.findings.extend(loaded.findings)
        return ConfigurationInput(source.name, content, text)

    def trace(self, source: TraceSource) -> TraceInput | None:
        variant = [source.format, dict(source.columns), source.sample, source.shuffle]
        try:
            if source.make is not None:
                make_trace(source.make, self.grid.seeds[0])  # raises InputError if the recipe is wrong
                return TraceInput(source, digest("make", to_builtins(source.make, str_keys=True)), None)
            content = digest("trace", *self.file_digests(source.paths), variant)
            trace = read_trace(
                source.paths, format=source.format, columns=source.columns or None, strict=source.strict
            )
        except InputError as error:
            self.fault(source.line, f"trace {source.name}", error)
            return None
        # Bad rows are left out, as in `muster replay`.
        self.findings.extend(replace(finding, severity="warning") for finding in trace.findings[:MAX_BAD_ROWS])
        about = f"trace {source.name}"
        if trace.bad_rows:
            message = f"{trace.bad_rows:,} bad rows are left out; {len(trace):,} jobs are read"
            self.findings.append(Finding("warning", self.grid.file, source.line, about, "input", message))
        if not len(trace):
            self.fault(source.line, about, InputError("there are no jobs in it"))
        return TraceInput(source, content, trace)

    def cluster(self, source: ClusterSource) -> ClusterInput | None:
        try:
            template = [source.template] if isinstance(source.template, str) and source.template else []
            manifests = [*source.manifests, *self.grid.manifests]
            content = digest(
                "cluster", self.file_digests(source.nodes), self.file_digests(template), self.file_digests(manifests),
                None if template or not source.template else source.template, source.count,
                self.file_digests([source.node_events] if source.node_events else []), self.gpu_resource,
            )  # fmt: skip
            objects: dict[str, dict[str, Any]] = {}
            now = None
            if manifests:
                found = usable_cluster(manifests)
                self.findings.extend(found.findings)
                objects = {kind: dict(table) for kind, table in found.objects.items()}
                now = found.latest if objects.get("Pod") else None
            table = objects.setdefault("Node", {})
            table.update((node.metadata.name, node) for node in self.nodes(source))
            if not table:
                raise InputError("there are no nodes in it")
            events = read_node_events(source.node_events, table) if source.node_events else []
        except InputError as error:
            self.fault(source.line, f"cluster {source.name}", error)
            return None
        return ClusterInput(source.name, content, objects, tuple(events), now)

    def nodes(self, source: ClusterSource) -> list[Node]:
        """Reads the lists of nodes, or makes the copies of the template."""
        if source.nodes:
            return read_nodes(source.nodes, self.gpu_resource)
        if not source.template:
            return []
        if isinstance(source.template, str):
            found = usable_cluster([source.template])
            where = source.template
        else:
            found = read_cluster([_node_manifest(source.template)])
            where = f"{self.grid.file}:{source.line}"
            if found.errors:
                message = "; ".join(finding.message for finding in found.errors)
                raise InputError(f"the template is no valid node: {message}")
        templates = list(found.of(Node).values())
        if len(templates) != 1:
            raise InputError(f"{where}: a template is one Node, but there are {len(templates)}")
        return [_copy(templates[0], NODE_NAME.format(i)) for i in range(1, source.count + 1)]


def _content_digest(path: Path) -> str:
    if path.is_dir():
        below = sorted(file for file in path.rglob("*") if file.is_file())
        return digest([[str(file.relative_to(path)), _content_digest(file)] for file in below])
    with open(path, "rb") as stream:
        return file_digest(stream, "sha256").hexdigest()


def _node_manifest(template: Mapping[str, Any]) -> dict[str, Any]:
    allocatable = {"pods": DEFAULT_PODS, **template["allocatable"]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "template", "labels": template.get("labels", {})},
        "spec": {"taints": template.get("taints", [])},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def _copy(node: Node, name: str) -> Node:
    labels = {**node.metadata.labels, "kubernetes.io/hostname": name}
    return msgspec_replace(node, metadata=ObjectMeta(name=name, labels=labels, annotations=node.metadata.annotations))
