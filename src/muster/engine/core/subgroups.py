"""The sub-groups of a job as a tree: KAI's `spec.subGroups`, Volcano's `spec.subGroupPolicy`, CompositePodGroups.

The root is the job. KAI's sub-groups name their parents; pods name their leaf with a label. CompositePodGroups are read
as such sub-groups, with PodGroups as the leaves. A policy of Volcano is an inner group of which so many parts must
hold; its parts are the pods with equal values of some labels. Pods of no sub-group belong to the root itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from muster.engine.core.jobs import READY_LIKE, Job, Status, Task
from muster.model.scheduling import NetworkTopology, SubGroupPolicy, TopologyConstraint
from muster.model.selectors import matches

LABEL = "kai.scheduler/subgroup-name"  # KAI: how a pod names its sub-group
_HELD = (*READY_LIKE, Status.PIPELINED)


class SubGroup(Struct):
    name: str
    minimum: int = 0  # of `own`
    least: int | None = None  # so many children must reach their minimum; None: all
    topology: TopologyConstraint | None = None
    network: NetworkTopology | None = None
    parent: SubGroup | None = None
    children: list[SubGroup] = field(default_factory=list)
    own: list[Task] = field(default_factory=list)  # pods that are in no child

    @property
    def constrained(self) -> bool:
        return self.topology is not None or self.network is not None

    def all_tasks(self) -> Iterator[Task]:
        yield from self.own
        for part in self.children:
            yield from part.all_tasks()

    def groups(self) -> Iterator[SubGroup]:
        yield self
        for part in self.children:
            yield from part.groups()

    def chain(self) -> list[SubGroup]:
        """From the outermost sub-group (the root is not one) to this."""
        above = self.parent.chain() if self.parent is not None else []
        return [*above, self] if self.parent is not None else above

    def missing(self) -> int:
        """How many of its own pods must still be placed before it has its minimum."""
        return max(self.minimum - sum(1 for task in self.own if holds_capacity(task)), 0)

    def shortfall(self) -> int:
        """How many pods, its own and those of the children it needs, must still be placed."""
        absent = max((self.least or 0) - len(self.children), 0)
        return self.missing() + sum(part.shortfall() for part in self.needed()) + absent

    def needed(self) -> list[SubGroup]:
        """The children that must reach their minimum: all, or those with the smallest shortfall."""
        if self.least is None:
            return self.children
        lacking = sorted(self.children, key=lambda part: part.shortfall())
        return lacking[: self.least]


def holds_capacity(task: Task) -> bool:
    """Volcano: a pod that requests nothing counts while it waits."""
    return task.status in _HELD or (task.best_effort and task.status == Status.PENDING)


def sub_group_tree(job: Job) -> SubGroup | None:
    """The job's tree of sub-groups; None if it has none."""
    spec = job.group.spec
    if not spec.sub_groups and not spec.sub_group_policy:
        return None
    root = SubGroup(job.key, least=spec.min_sub_group)
    leaves = named_sub_groups(job, root)
    policies = [
        SubGroup(policy.name or f"policy {i}", least=policy.min_sub_groups, parent=root)
        for i, policy in enumerate(spec.sub_group_policy)
    ]
    root.children += policies
    for _, task in sorted(job.tasks.items()):
        at = _policy_of(task, spec.sub_group_policy)
        if at is not None:
            _part(policies[at], spec.sub_group_policy[at], task).own.append(task)
        else:
            leaves.get(sub_group_name(task), root).own.append(task)
    for policy in policies:
        policy.children.sort(key=lambda part: part.name)
    return root


def sub_group_name(task: Task) -> str:
    """How a pod names its sub-group: by its segment, KAI's label, or its PodGroup in a tree of CompositePodGroups."""
    native = task.pod.spec.scheduling_group
    if native is not None and task.job is not None and task.job.native:
        return native.pod_group_name
    return task.sub_group or task.labels.get(LABEL, "")


def named_sub_groups(job: Job, root: SubGroup) -> dict[str, SubGroup]:
    """KAI's sub-groups by name, hung under their parents; where those are missing or in a circle, under the root."""
    found: dict[str, SubGroup] = {}
    parents: dict[str, str] = {}
    for sub in job.group.spec.sub_groups:
        if sub.name not in found:
            found[sub.name] = SubGroup(sub.name, least=sub.min_sub_group, topology=sub.topology_constraint)
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
        group.parent.children.append(group)
    return found


def _policy_of(task: Task, policies: list[SubGroupPolicy]) -> int | None:
    for i, policy in enumerate(policies):
        selected = policy.label_selector is None or matches(policy.label_selector, task.labels)
        if selected and all(key in task.labels for key in policy.match_label_keys):
            return i
    return None


def _part(policy_group: SubGroup, policy: SubGroupPolicy, task: Task) -> SubGroup:
    name = "/".join(task.labels[key] for key in policy.match_label_keys) or policy_group.name
    for part in policy_group.children:
        if part.name == name:
            return part
    part = SubGroup(name, policy.sub_group_size, network=policy.network_topology, parent=policy_group)
    policy_group.children.append(part)
    return part
