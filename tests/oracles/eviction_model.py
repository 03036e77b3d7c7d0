"""A cluster at one moment as the oracle of evictions sees it: plain values read from the objects.

Nothing here uses the engine, the actions or the plugins. The fields are those that the generator
(`eviction_clusters`) uses; a new rule in the generator needs a field here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from muster.model.core import Node, Pod
from muster.model.meta import Object, controller
from muster.model.requests import amounts, requests
from muster.model.scheduling import NetworkTopology, PodGroup, Queue

Amounts = dict[str, int]
Tables = Mapping[str, Mapping[str, Any]]
GROUP = "scheduling.k8s.io/group-name"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
ROLE = "volcano.sh/task-spec"
PREEMPTABLE = "volcano.sh/preemptable"
REQUIRED = "kai.scheduler/topology-required-placement"
RACK = "rack"
NODE_GROUP = "volcano.sh/nodegroup-name"
CRITICAL = ("system-cluster-critical", "system-node-critical")


@dataclass(frozen=True)
class Member:
    """A pod. `state`: placed (has a node and stays), terminating (still has a node), waiting, or ended."""

    key: str
    uid: str
    job: str
    state: str
    node: str
    request: Mapping[str, int]  # with pods: 1
    priority: int
    critical: bool
    preemptable: bool
    role: str
    part: tuple[str, ...] | None
    labels: Mapping[str, str]
    selector: Mapping[str, str]
    ports: frozenset[int]
    apart: bool  # required anti-affinity to the pods of its own app, per host
    claims: bool  # preemptionPolicy is not Never
    healthy: bool

    @property
    def shape(self) -> tuple[object, ...]:
        """Pods of one job with the same shape are interchangeable for a claim."""
        return (
            tuple(sorted(self.request.items())), self.priority, self.role, self.part, self.ports, self.apart,
            tuple(sorted(self.selector.items())), self.claims,
        )  # fmt: skip


@dataclass
class Gang:
    """A job: the PodGroup's spec, or the group in memory of pods that name none."""

    key: str
    queue: str
    minimum: int
    priority: int
    roles: dict[str, int] = field(default_factory=dict)
    size: int = 0  # of a sub-group
    least: int = 0  # sub-groups that are needed
    level: str = ""  # the node label that all its pods must share
    part_level: str = ""  # the one that the pods of a sub-group must share
    phase: str = "Pending"
    min_resources: Amounts | None = None
    members: list[Member] = field(default_factory=list)

    def of(self, *states: str) -> list[Member]:
        return [m for m in self.members if m.state in states]

    def missing_parts(self, holding: Collection[Member]) -> bool:
        """Is a role or the number of complete sub-groups below its minimum?"""
        if self.roles and self.minimum >= sum(self.roles.values()):
            count = Counter(m.role for m in holding)
            if any(count[role] < least for role, least in self.roles.items()):
                return True
        if self.least:
            return self.complete_parts(holding) < self.least
        return False

    def complete_parts(self, holding: Collection[Member]) -> int:
        return sum(n >= self.size for part, n in Counter(m.part for m in holding).items() if part is not None)

    def complete(self, holding: Collection[Member]) -> bool:
        """Does the job have its minimum with these pods?"""
        return len(holding) >= self.minimum and not self.missing_parts(holding)


@dataclass
class World:
    """The cluster at one moment."""

    nodes: dict[str, Node]
    offered: dict[str, Amounts]
    members: dict[str, Member]
    jobs: dict[str, Gang]
    queues: dict[str, Queue]
    budgets: dict[str, Any]

    def allocated(self, queue: str, members: Iterable[Member] | None = None) -> Amounts:
        """What the queue's pods hold; terminating pods do not count."""
        some = self.members.values() if members is None else members
        return total(m.request for m in some if m.state == "placed" and self.queue_of(m) == queue)

    def queue_of(self, member: Member) -> str:
        return self.jobs[member.job].queue

    def after(self, placed: Mapping[str, str], gone: Collection[str]) -> World:
        """The cluster with these pods placed and those terminating."""
        members = dict(self.members)
        for key in gone:
            members[key] = replace(members[key], state="terminating", healthy=False)
        for key in placed:
            members[key] = replace(members[key], state="placed", node=placed[key])
        jobs = {key: replace(job, members=[]) for key, job in self.jobs.items()}
        for member in members.values():
            jobs[member.job].members.append(member)
        return replace(self, members=members, jobs=jobs)


def total(requests: Iterable[Mapping[str, int]]) -> Amounts:
    found: Counter[str] = Counter()
    for request in requests:
        found.update(request)
    return dict(found)


def world(tables: Tables, classes: Mapping[str, int]) -> World:
    nodes: dict[str, Node] = dict(tables["Node"])
    queues: dict[str, Queue] = dict(tables["Queue"])
    found = World(nodes, {n: amounts(o.status.allocatable) for n, o in nodes.items()}, {}, {}, queues, {})
    found.budgets = dict(tables["PodDisruptionBudget"])
    groups: Mapping[str, PodGroup] = tables["PodGroup"]
    for key, group in groups.items():
        found.jobs[key] = _written(key, group, classes)
    for key, pod in sorted(tables["Pod"].items()):
        if pod.status.phase in ("Succeeded", "Failed"):
            continue
        job = _job_of(key, pod, found.jobs, classes)
        if job is not None:
            member = found.members[key] = _member(key, pod, job, groups.get(job.key))
            job.members.append(member)
    for key, job in found.jobs.items():
        named = key in groups and groups[key].spec.priority_class_name
        if not named and job.members:
            job.priority = max(m.priority for m in job.members)
    return found


def _written(key: str, group: PodGroup, classes: Mapping[str, int]) -> Gang:
    spec = group.spec
    job = Gang(key, spec.queue or "default", spec.min_member, classes.get(spec.priority_class_name, 0))
    job.roles = dict(spec.min_task_member)
    for policy in spec.sub_group_policy:
        job.size, job.least = policy.sub_group_size, policy.min_sub_groups
        job.part_level = _tier(policy.network_topology)
    job.level = group.metadata.annotations.get(REQUIRED, "") or _tier(spec.network_topology)
    job.phase = group.status.phase or "Pending"
    job.min_resources = None if spec.min_resources is None else amounts(spec.min_resources)
    return job


def _tier(network: NetworkTopology | None) -> str:
    """The HyperNodes of tier 1 are the racks."""
    return "" if network is None else RACK


def _job_of(key: str, pod: Pod, jobs: dict[str, Gang], classes: Mapping[str, int]) -> Gang | None:
    notes = pod.metadata.annotations
    if GROUP in notes:
        return jobs.get(f"{pod.metadata.namespace}/{notes[GROUP]}")
    owner = controller(pod.metadata)
    name = f"{pod.metadata.namespace}/~{owner.kind}/{owner.name}" if owner else f"{key}~{pod.metadata.uid}"
    if name not in jobs:
        jobs[name] = Gang(name, notes.get(QUEUE_NAME, "default"), 1, 0, phase="?")
        jobs[name].min_resources = {n: v for n, v in requests(pod.spec).items() if n != "pods"}
    return jobs[name]


def _member(key: str, pod: Pod, job: Gang, group: PodGroup | None) -> Member:
    meta, spec = pod.metadata, pod.spec
    terminating = meta.deletion_timestamp is not None
    state = ("terminating" if terminating else "placed") if spec.node_name else ("ended" if terminating else "waiting")
    part = None
    if group is not None:
        for policy in group.spec.sub_group_policy:
            if all(name in meta.labels for name in policy.match_label_keys):
                part = tuple(meta.labels[name] for name in policy.match_label_keys)
    anti = spec.affinity.pod_anti_affinity if spec.affinity is not None else None
    ports = frozenset(port.host_port for c in spec.containers for port in c.ports if port.host_port)
    text = meta.annotations.get(PREEMPTABLE, "true")
    ready = all(c.status == "True" for c in pod.status.conditions if c.type == "Ready")
    return Member(
        key, meta.uid, job.key, state, spec.node_name, requests(spec), 1 if spec.priority is None else spec.priority,
        spec.priority_class_name in CRITICAL or meta.namespace == "kube-system", text == "true",
        meta.annotations.get(ROLE, ""), part, meta.labels, spec.node_selector, ports, anti is not None,
        spec.preemption_policy != "Never", pod.status.phase == "Running" and ready and not terminating,
    )  # fmt: skip


def classes_of(objects: Iterable[Object]) -> dict[str, int]:
    return {o.metadata.name: o.value for o in objects if type(o).__name__ == "PriorityClass"}  # type: ignore[attr-defined]
