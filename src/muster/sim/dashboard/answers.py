"""The answers of the JSON API: typed, so that the OpenAPI description is generated from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field, json

from muster.engine.core.jobs import Job
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.quantity import display
from muster.plugins.nodegroup.group_classes import LABEL
from muster.sim.report.decisions import causes
from muster.sim.result import Result

MAX_PODS = 1000
"""Pods that are named for one cause; `count` has the number of all."""


class Answer(Struct, forbid_unknown_fields=True):
    """A JSON object of the API."""


class Figures(Answer):
    """How many pods and nodes there are."""

    pods: int
    bound: int
    """Pods on nodes, whoever bound them."""
    pending: int
    evicted: int
    nodes: int


class Status(Answer):
    """What is shown, since when, and by which configuration."""

    version: int
    """Grows with every change of what is shown."""
    kind: str
    """cluster, manifests or replay"""
    title: str
    time: float
    """Of the cluster's clock, in seconds since the epoch."""
    cycles: int
    settled: bool
    figures: Figures
    configuration: str
    configurations: list[str]
    """The configurations that can be chosen to decide again."""
    warnings: list[str]


class Cause(Answer):
    """Pods that wait for reasons that differ only in numbers and in their own names; at most 1000 are named."""

    reason: str
    """That of the most pods."""
    count: int
    pods: list[str]
    queues: list[str]


class Waiting(Answer):
    causes: list[Cause]


class QueueAnswer(Answer):
    """A queue with its amounts by resource, as Kubernetes writes quantities."""

    name: str
    parent: str
    weight: int
    open: bool
    allocated: dict[str, str]
    deserved: dict[str, str]
    guarantee: dict[str, str]
    capability: dict[str, str]
    waiting: int
    """Pods that need a node."""


class Queues(Answer):
    queues: list[QueueAnswer]


class Gang(Answer):
    name: str
    queue: str
    phase: str
    minimum: int
    pods: int
    placed: int


class Gangs(Answer):
    gangs: list[Gang]


class Amount(Answer):
    used: str
    allocatable: str


class NodeAnswer(Answer):
    name: str
    group: str
    pods: int
    unschedulable: bool
    resources: dict[str, Amount]


class Nodes(Answer):
    nodes: list[NodeAnswer]


class GroupAnswer(Answer):
    """A NodeGroup."""

    name: str
    nodes: list[str]
    ready: int


class Groups(Answer):
    groups: list[GroupAnswer]


class Share(Answer):
    """The pods of an application in a node group."""

    group: str
    desired: int
    current: int
    ready: int


class Application(Answer):
    kind: str
    name: str
    replicas: int
    misplaced: int
    pending: int
    groups: list[Share]
    warnings: list[str]


class Policy(Answer):
    """A PropagationPolicy or an OverridePolicy with the applications that are bound to it."""

    kind: str
    name: str
    applications: list[Application]


class Policies(Answer):
    policies: list[Policy]


class EvictionAnswer(Answer):
    pod: str
    node: str
    claimer: str = field(name="for")
    rule: str = field(name="by")


class Evictions(Answer):
    evictions: list[EvictionAnswer]


class Cycle(Answer):
    number: int
    time: float
    binds: int
    evictions: list[EvictionAnswer]
    pending: int


class Timeline(Answer):
    cycles: list[Cycle]


class Fault(Answer):
    """Why a request was not answered."""

    error: str


class RedecideRequest(Answer, kw_only=True):
    """Decide again from a cycle on, by another configuration: one of `configurations`, or a text."""

    configuration: str = ""
    text: str = ""
    cycle: int | None = None


class Redecided(Answer):
    """`id` is the value of the parameter `decision` with which views and answers show the new decisions."""

    id: str
    comparison: dict[str, Any]


def waiting(result: Result) -> Waiting:
    found = causes(result)
    return Waiting([Cause(one.example, len(one.pods), one.pods[:MAX_PODS], sorted(one.queues)) for one in found])


def queues(result: Result) -> Queues:
    found = []
    for name, share in sorted(result.summary.queues.items()):
        queue = result.state.queues[name]
        parts = share.to_dict()
        guarantee = {resource: display(resource, n) for resource, n in sorted(queue.guarantee.items())}
        pending = sum(result.state.needs_node(task) for job in queue.jobs.values() for task in job.tasks.values())
        found.append(QueueAnswer(
            name, queue.parent, queue.weight, queue.open, parts["allocated"], parts["deserved"], guarantee,
            parts["capability"], pending,
        ))  # fmt: skip
    return Queues(found)


def gangs(result: Result) -> Gangs:
    def plain(job: Job) -> Gang:
        return Gang(job.shown, job.queue_name, job.phase, job.min_available, len(job.tasks), job.ready)

    return Gangs([plain(job) for _, job in sorted(result.state.jobs.items()) if job.min_available > 1 and job.tasks])


def nodes(result: Result) -> Nodes:
    state = result.state
    size = state.axis.size
    all_used = state.nodes.rows[2 * size : 3 * size]
    found = []
    for i, node in enumerate(state.nodes.objects):
        used, offered = (state.nodes.amounts(rows, i) for rows in (all_used, state.nodes.offered))
        amounts = {
            name: Amount(display(name, used[name]), display(name, most)) for name, most in offered.items() if most > 0
        }
        group = node.metadata.labels.get(LABEL, "")
        found.append(NodeAnswer(
            node.metadata.name, group, len(state.nodes.on[i]), bool(node.spec.unschedulable), amounts
        ))  # fmt: skip
    return Nodes(found)


def groups(result: Result) -> Groups:
    found = ((name, group.status) for name, group in sorted(result.of(NodeGroup).items()))
    return Groups([GroupAnswer(name, sorted(of.contained_nodes), of.ready_nodes) for name, of in found])


def policies(result: Result) -> Policies:
    both: list[tuple[str, PropagationPolicy | OverridePolicy]] = [
        *sorted(result.of(PropagationPolicy).items()), *sorted(result.of(OverridePolicy).items())
    ]  # fmt: skip
    return Policies([
        Policy(policy.kind, key, [
            Application(
                app.kind, app.name, app.replicas, app.misplaced, app.pending,
                [Share(one.name, one.desired, one.current, one.ready) for one in app.groups], app.warnings,
            )
            for app in policy.status.applications
        ])
        for key, policy in both
    ])  # fmt: skip


def evictions(result: Result) -> Evictions:
    return Evictions([EvictionAnswer(e.pod, e.node, e.by, e.rule) for e in result.evictions])


def timeline(result: Result) -> Timeline:
    return Timeline([
        Cycle(
            record.number, record.time, len(record.binds),
            [EvictionAnswer(e.pod, e.node, e.by, e.rule) for e in record.evictions], record.pending,
        )
        for record in result.history
    ])  # fmt: skip


def decisions(result: Result) -> dict[str, object]:
    return result.to_dict()


def figures(result: Result) -> Figures:
    of = result.summary
    return Figures(of.pods, sum(map(len, result.state.nodes.on)), of.pending, of.evicted, of.nodes)


ANSWERS: dict[str, tuple[Callable[[Result], object], Any]] = {
    "waiting": (waiting, Waiting),
    "evictions": (evictions, Evictions),
    "queues": (queues, Queues),
    "gangs": (gangs, Gangs),
    "nodes": (nodes, Nodes),
    "groups": (groups, Groups),
    "policies": (policies, Policies),
    "timeline": (timeline, Timeline),
    "decisions": (decisions, dict[str, Any]),
}
"""Name of the answer → how it is made from the result, and its type."""


def encoded(answer: object) -> bytes:
    return json.encode(answer)
