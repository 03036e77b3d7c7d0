"""Nodes that join and leave during a replay."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from muster.cluster.embedded import EmbeddedCluster
from muster.config.names import suggest
from muster.engine.core.allocatable import allocatable_of
from muster.model.core import Node, Pod
from muster.model.finding import Finding, InputError
from muster.model.yamltext import Document, YamlError, load_all
from muster.sim.durations import seconds_of
from muster.sim.inputs import file_text
from muster.sim.replay.cluster_use import Sampler
from muster.sim.replay.trace_jobs import TraceJobs


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A node joins or leaves. A node whose first event is that it joins is not there at the start."""

    at: float  # seconds of the trace
    node: str
    joins: bool


class NodeEvents:
    """A part of the embedded cluster that adds and removes nodes. The pods of a node that leaves are lost with it."""

    def __init__(
        self, cluster: EmbeddedCluster, nodes: Mapping[str, Node], events: Sequence[NodeEvent], jobs: TraceJobs,
        sampler: Sampler, offset: float,
    ) -> None:  # fmt: skip
        self._store, self._clock, self._jobs, self._sampler = cluster.store, cluster.clock, jobs, sampler
        self._nodes, self._offset = nodes, offset
        self._events = sorted(events, key=lambda event: (event.at, event.node, event.joins))
        self._next = 0
        for node in self._store.of(Node).values():
            self._count(node, 1)

    def run(self) -> bool:
        before = self._store.version
        now = self._clock.now()
        while self._next < len(self._events) and self._events[self._next].at + self._offset <= now:
            event = self._events[self._next]
            self._next += 1
            if event.joins and event.node not in self._store.of(Node):
                self._jobs.lost_nodes.discard(event.node)
                self._count(self._store.create(self._nodes[event.node]), 1)
            elif not event.joins and event.node in self._store.of(Node):
                self._leave(event.node)
        return self._store.version != before

    def next_time(self) -> float | None:
        return self._events[self._next].at + self._offset if self._next < len(self._events) else None

    def _leave(self, name: str) -> None:
        self._jobs.lost_nodes.add(name)
        self._count(self._store.of(Node)[name], -1)
        self._store.remove(Node, name)
        # Kubernetes: the garbage collector of pods removes the pods of a node that does not exist.
        for key in sorted(key for key, pod in self._store.of(Pod).items() if pod.spec.node_name == name):
            self._store.remove(Pod, key)

    def _count(self, node: Node, sign: int) -> None:
        has = allocatable_of(node)
        self._sampler.capacity += [sign * has.get(name, 0) for name in self._sampler.resources]


def absent_at_start(events: Sequence[NodeEvent]) -> frozenset[str]:
    """Returns the nodes whose first event is that they join."""
    first: dict[str, bool] = {}
    for event in sorted(events, key=lambda event: event.at):
        first.setdefault(event.node, event.joins)
    return frozenset(name for name, joins in first.items() if joins)


# --- the file of --node-events


def read_node_events(path: str, nodes: Collection[str]) -> list[NodeEvent]:
    """Reads a YAML list of `{at: 2h, leave: node}` and `{at: 3h, join: node}`. Raises InputError with all mistakes."""
    events: list[NodeEvent] = []
    findings: list[Finding] = []
    try:
        documents = load_all(file_text(path), path)
    except YamlError as fault:
        finding = Finding("error", path, fault.line, "", "syntax", fault.message)
        raise InputError(f"{path} cannot be used", [finding]) from None
    for document in documents:
        for index, found in _events(document, nodes):
            if isinstance(found, NodeEvent):
                events.append(found)
            else:
                line = document.line_of([] if index is None else [index])
                where = "" if index is None else f"events[{index}]"
                findings.append(Finding("error", path, line, where, "node-event", *found))
    if findings:
        raise InputError(f"{path} cannot be used", findings)
    return events


_FORM = "write a list of entries like {at: 2h, leave: node-1} or {at: 3h, join: node-1}"


def _events(document: Document, nodes: Collection[str]) -> Iterator[tuple[int | None, NodeEvent | tuple[str, str]]]:
    """Yields the events of a document, or what is wrong with them and how to mend it."""
    if not isinstance(document.value, list):
        yield None, ("is not a list", _FORM)
        return
    for index, entry in enumerate(document.value):
        what = [key for key in ("join", "leave") if isinstance(entry, Mapping) and key in entry]
        if not isinstance(entry, Mapping) or len(what) != 1 or set(entry) != {"at", *what}:
            yield index, ("must have `at` and either `join` or `leave`", _FORM)
            continue
        name = entry[what[0]]
        try:
            at = seconds_of(entry["at"])
        except ValueError as fault:
            yield index, (f"at: {fault}", "")
            continue
        if name not in nodes:
            yield index, (f"there is no node {name}", suggest(str(name), nodes))
            continue
        yield index, NodeEvent(at, name, joins=what[0] == "join")
