"""topology: a gang in one rack, block or switch domain (design 3's first user of node sets).

A PodGroup names a Topology and the level its pods must or should share, or requests HyperNodes by `networkTopology`.
The plugin divides the nodes into the domains that could hold the pods, in the order to try them; sub-groups are divided
again inside the domain that was chosen for the whole job. `constraints` reads the constraints of groups, `order` sorts
domains and nodes, `findings` has what `muster validate` reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.core.hooks import Bools, NodeSet, NodeSetError, NodeSets, Plugin, TaskOrder
from muster.engine.core.jobs import ALLOCATED_LIKE, Job, Status, Task
from muster.engine.core.requirements import Requirement
from muster.engine.core.subgroups import SubGroup, sub_group_tree
from muster.engine.domains.demand import Counts, Demands
from muster.engine.domains.domain_capacity import DomainCapacity
from muster.engine.domains.domain_sources import HYPERNODES
from muster.model.finding import Finding
from muster.model.scheduling import NetworkTopology, TopologyConstraint
from muster.model.topology import HyperNode
from muster.model.topology import Topology as TopologyObject
from muster.plugins.topology.constraints import (
    LevelConstraint,
    Trees,
    constraint_of,
    constraint_of_group,
    level_constraint_of,
)
from muster.plugins.topology.findings import findings, level_without_topology, required_by
from muster.plugins.topology.order import Ordered, refused

if TYPE_CHECKING:
    from muster.config.types import Arguments, PluginOption
    from muster.engine.core.session import Session
    from muster.engine.core.state import State

__all__ = ["Topology"]


_ACTIVE = (*ALLOCATED_LIKE, Status.PIPELINED)


class Topology(Plugin, NodeSets, TaskOrder):
    set_order = (
        "narrow levels first; in a level domains with pods of the group, then domains that can start it at once, that "
        "hold more of it, that are fuller"
    )
    name = "topology"

    def __init__(self, arguments: Arguments, option: PluginOption) -> None:
        super().__init__(arguments, option)
        self._seen: tuple[object, ...] = ()

    def open(self, session: Session) -> None:
        state = session.state
        topologies = {k: o for k, o in sorted(state.objects["Topology"].items()) if isinstance(o, TopologyObject)}
        hypernodes = {k: o for k, o in sorted(state.objects["HyperNode"].items()) if isinstance(o, HyperNode)}
        seen = (state.nodes, state.nodes.version, tuple(topologies.items()), tuple(hypernodes.items()))
        if seen != self._seen:
            self._seen = seen
            self.trees = Trees(state.nodes, topologies, hypernodes)
        self.session = session
        self.capacity = DomainCapacity(session)
        self._demands = Demands(session)
        self._all_wanted: dict[tuple[str, str], LevelConstraint | NodeSetError | None] = {}
        self._constrained: dict[str, bool] = {}  # job → whether it has a constraint, as a whole or in sub-groups
        self._leaves: dict[str, dict[str, SubGroup]] = {}  # job → pod → its sub-group

    # --- constraints of groups

    def _wanted(self, job: Job, group: SubGroup | None = None) -> LevelConstraint | None:
        """Returns the constraint of the job or sub-group, if any. It is read once; a fault is raised on every call."""
        key = (job.key, "" if group is None else group.name)
        if key not in self._all_wanted:
            constraint = constraint_of(job) if group is None else constraint_of_group(job, group)
            if group is None and (level := level_without_topology(job)):
                self.session.warnings.append(f"PodGroup {job.shown}: {level}")
            self._all_wanted[key] = self._read(constraint, "the group" if group is None else f"sub-group {group.name}")
        wanted = self._all_wanted[key]
        if isinstance(wanted, NodeSetError):
            raise wanted
        return wanted

    def _read(
        self, constraint: TopologyConstraint | NetworkTopology | None, who: str
    ) -> LevelConstraint | NodeSetError | None:
        try:
            return None if constraint is None else level_constraint_of(constraint, self.trees, who)
        except NodeSetError as fault:
            return fault

    # --- node sets

    def divides(self, job: Job) -> bool:
        return self._placed_by_topology(job) or bool(level_without_topology(job))

    def node_sets(self, job: Job, tasks: Sequence[Task], nodes: NodeSet) -> tuple[bool, Sequence[NodeSet]]:
        wanted = self._wanted(job)
        if wanted is None or not tasks:
            return False, [nodes]
        placed = [t for t in job.tasks.values() if t.node >= 0] if job.ready or job.waiting else ()
        return True, self._divide(wanted, placed, tasks, max(self.session.missing(job), 1), nodes)

    def group_sets(
        self, job: Job, group: SubGroup, tasks: Sequence[Task], nodes: NodeSet
    ) -> tuple[bool, Sequence[NodeSet]]:
        wanted = self._wanted(job, group)
        if wanted is None or not tasks:
            return False, [nodes]
        return True, self._divide(wanted, group.all_tasks(), tasks, max(group.shortfall(), 1), nodes)

    def _divide(
        self, wanted: LevelConstraint, members: Iterable[Task], tasks: Sequence[Task], need: int, nodes: NodeSet
    ) -> Sequence[NodeSet]:
        pinned = _places(members)
        counts = Counts(self.capacity, wanted.tree.cut(nodes.index), self._demands.of(tasks, need), nodes.freed)
        return Ordered(wanted, counts, nodes, pinned or None)

    def left_out(self, job: Job, tasks: Sequence[Task], nodes: NodeSet) -> list[tuple[NodeSet, str]]:
        wanted = self._wanted(job)
        if wanted is None or not tasks:
            return []
        demand = self._demands.of(tasks, max(self.session.missing(job), 1))
        return refused(wanted, Counts(self.capacity, wanted.tree.cut(nodes.index), demand, None), nodes)

    def outside(self, task: Task) -> list[tuple[Bools, str]]:
        found: list[tuple[Bools, str]] = []
        job = task.job
        if job is None:
            return found
        if job.key not in self._leaves:
            root = sub_group_tree(job)
            parts = () if root is None else root.groups()
            self._leaves[job.key] = {t.key: part for part in parts for t in part.own}
        leaf = self._leaves[job.key].get(task.key)
        for group in (None, *(leaf.chain() if leaf is not None else ())):
            try:
                wanted = self._wanted(job, group)
            except NodeSetError:
                continue  # already reported as the job's refusal
            if wanted is None or wanted.required is None:
                continue
            found.append(outside_tree(wanted))
            if group is not None:
                home = outside_home(wanted, group.name, _places(group.all_tasks()))
                found += [] if home is None else [home]
        return found

    # --- ranks

    def task_key(self, task: Task) -> float:
        """Orders the pods of groups with a constraint by rank, so that neighbours stay together."""
        return 0.0 if task.job is None or not self._placed_by_topology(task.job) else rank_of(task)

    def task_keys(self, tasks: Sequence[Task]) -> list[float]:
        job = tasks[0].job
        if job is None or any(task.job is not job for task in tasks):
            return [self.task_key(task) for task in tasks]
        return [rank_of(task) for task in tasks] if self._placed_by_topology(job) else [0.0] * len(tasks)

    def _placed_by_topology(self, job: Job) -> bool:
        """Returns whether the group has a constraint, as a whole or in sub-groups."""
        known = self._constrained.get(job.key)
        if known is None:
            known = self._constrained[job.key] = constraint_of(job) is not None or sub_group_tree(job) is not None
        return known

    # --- findings

    @classmethod
    def required_by(cls, state: State) -> Iterator[Requirement]:
        return required_by(state)

    @classmethod
    def examine(cls, session: Session) -> list[Finding]:
        found: list[Finding] = []
        for plugin in session.plugins:
            if isinstance(plugin, cls):
                found += findings(plugin.trees, session)
        return found


def _places(tasks: Iterable[Task]) -> list[int]:
    """Returns the nodes of the tasks that have one."""
    return [task.node for task in tasks if task.status in _ACTIVE and task.node >= 0]


def outside_tree(wanted: LevelConstraint) -> tuple[Bools, str]:
    """Returns the nodes that are in no domain of the required level, and the reason."""
    level, tree = wanted.required or 0, wanted.tree
    apart: Bools = tree.ids[level] < 0
    if tree.name == HYPERNODES:
        return apart, f"node(s) are outside the HyperNodes of tier {tree.levels[level]}"
    if tree.levels[1:] == [tree.name]:
        return apart, f"node(s) do not have the label {tree.name}"
    return apart, f"node(s) are outside topology {tree.name}"


def outside_home(wanted: LevelConstraint, part: str, members: Iterable[int]) -> tuple[Bools, str] | None:
    """Returns the nodes outside the domains of the sub-group's members, and the reason; None without such members."""
    level, tree = wanted.required or 0, wanted.tree
    homes = sorted({int(tree.ids[level, node]) for node in members} - {-1})
    if not homes:
        return None
    apart: Bools = ~np.isin(tree.ids[level], homes)
    key = "HyperNode" if tree.name == HYPERNODES else tree.levels[level]
    names = ", ".join(tree.paths[level][home] for home in homes)
    return apart, f"node(s) are outside {key} {names}, where sub-group {part} is placed"


NAMED_BY = "kai.scheduler/pod-index-label"  # KAI: an annotation that names the label which holds the index
# Where workloads write a pod's index, as an annotation or a label.
KEYS = (
    NAMED_BY,
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "volcano.sh/task-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "ray.io/worker-index",
)
_ANY = frozenset(KEYS)


def rank_of(task: Task) -> float:
    """Returns the pod's index from its annotations or labels, else the number at the end of its name; pods without any
    are the last.
    """
    metadata = task.pod.metadata
    notes, labels = metadata.annotations, metadata.labels
    if not (_ANY.isdisjoint(notes) and _ANY.isdisjoint(labels)):
        texts = [labels.get(notes[NAMED_BY], "")] if NAMED_BY in notes else []
        for text in texts + [notes.get(key) or labels.get(key, "") for key in KEYS[1:]]:
            if (found := _number(text)) is not None:
                return found
    if task.serial is not None:
        return task.serial
    number = _number(task.name.rpartition("-")[2])
    return float("inf") if number is None else number


def _number(text: str) -> int | None:
    return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else None
