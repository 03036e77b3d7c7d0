"""The sub-groups of a job as a tree: KAI's `spec.subGroups` and Volcano's `spec.subGroupPolicy`.

The root is the job. KAI's sub-groups name their parents; pods name their leaf with a label. A policy of Volcano is an
inner group of which so many parts must hold; its parts are the pods with equal values of some labels. Pods of no
sub-group belong to the root itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from muster.engine.core.jobs import READY_LIKE, Job, Status, Task
from muster.model.scheduling import NetworkTopology, SubGroupPolicy, TopologyConstraint
from muster.model.selectors import matches

LABEL = "kai.scheduler/subgroup-name"  # KAI: how a pod names its sub-group
_HELD = (*READY_LIKE, Status.PIPELINED)


@dataclass(slots=True)
class Group:
    name: str
    minimum: int = 0  # of its own pods
    least: int | None = None  # so many of its parts must hold; None: all
    topology: TopologyConstraint | None = None
    network: NetworkTopology | None = None
    parent: Group | None = None
    parts: list[Group] = field(default_factory=list)
    own: list[Task] = field(default_factory=list)  # pods that are in none of its parts

    @property
    def constrained(self) -> bool:
        return self.topology is not None or self.network is not None

    def everyone(self) -> Iterator[Task]:
        yield from self.own
        for part in self.parts:
            yield from part.everyone()

    def groups(self) -> Iterator[Group]:
        yield self
        for part in self.parts:
            yield from part.groups()

    def chain(self) -> list[Group]:
        """From the outermost sub-group (the root is not one) to this."""
        above = self.parent.chain() if self.parent is not None else []
        return [*above, self] if self.parent is not None else above

    def missing(self) -> int:
        """How many of its own pods must still get room before it has its minimum."""
        return max(self.minimum - sum(1 for task in self.own if holds_room(task)), 0)

    def short(self) -> int:
        """How many pods, its own and those of the parts it needs, must still get room."""
        return self.missing() + sum(part.short() for part in self.needed())

    def needed(self) -> list[Group]:
        """The parts that must hold: all, or the ones that lack least."""
        if self.least is None:
            return self.parts
        lacking = sorted(self.parts, key=lambda part: part.short())
        return lacking[: self.least]


def holds_room(task: Task) -> bool:
    """Volcano: a pod that asks for nothing counts while it waits."""
    return task.status in _HELD or (task.best_effort and task.status == Status.PENDING)


def grouped(job: Job) -> Group | None:
    """The job's tree of sub-groups; None if it has none."""
    spec = job.group.spec
    if not spec.sub_groups and not spec.sub_group_policy:
        return None
    root = Group(job.key)
    leaves = _by_name(job, root)
    policies = [
        Group(policy.name or f"policy {i}", least=policy.min_sub_groups, parent=root)
        for i, policy in enumerate(spec.sub_group_policy)
    ]
    root.parts += policies
    for _, task in sorted(job.tasks.items()):
        at = _policy_of(task, spec.sub_group_policy)
        if at is not None:
            _part(policies[at], spec.sub_group_policy[at], task).own.append(task)
        else:
            leaves.get(task.labels.get(LABEL, ""), root).own.append(task)
    for policy in policies:
        policy.parts.sort(key=lambda part: part.name)
    return root


def _by_name(job: Job, root: Group) -> dict[str, Group]:
    """KAI's sub-groups by name, hung under their parents; where those are missing or in a circle, under the root."""
    found: dict[str, Group] = {}
    parents: dict[str, str] = {}
    for sub in job.group.spec.sub_groups:
        if sub.name not in found:
            found[sub.name] = Group(sub.name, topology=sub.topology_constraint)
            parents[sub.name] = sub.parent
    inner = set(parents.values())
    for sub in job.group.spec.sub_groups:
        if sub.name not in inner:
            found[sub.name].minimum = sub.min_member
    for name, group in found.items():
        above, seen = parents[name], {name}
        while above in parents and above not in seen:
            seen.add(above)
            above = parents[above]
        circular = above in seen
        group.parent = found.get(parents[name], root) if not circular else root
        group.parent.parts.append(group)
    return found


def _policy_of(task: Task, policies: list[SubGroupPolicy]) -> int | None:
    for i, policy in enumerate(policies):
        selected = policy.label_selector is None or matches(policy.label_selector, task.labels)
        if selected and all(key in task.labels for key in policy.match_label_keys):
            return i
    return None


def _part(policy_group: Group, policy: SubGroupPolicy, task: Task) -> Group:
    name = "/".join(task.labels[key] for key in policy.match_label_keys) or policy_group.name
    for part in policy_group.parts:
        if part.name == name:
            return part
    part = Group(name, policy.sub_group_size, network=policy.network_topology, parent=policy_group)
    policy_group.parts.append(part)
    return part
