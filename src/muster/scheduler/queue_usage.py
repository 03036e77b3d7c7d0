"""What the jobs of each queue have allocated and request, in total and by node group, kept from cycle to cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from muster.engine.core.jobs import Job, Status
from muster.engine.core.native_groups import NATIVE_KINDS
from muster.engine.core.nodes import Nodes
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.engine.queues.accounts import minimum
from muster.engine.queues.job_sums import JobSums

NODE_GROUP = "volcano.sh/nodegroup-name"


class Usage(NamedTuple):
    """Amounts by resource, in internal units."""

    allocated: dict[str, int]
    requested: dict[str, int]


class QueueUsage:
    """Sums up the usage of the queues; only jobs that changed are counted again."""

    def __init__(self) -> None:
        self._sums = JobSums(_parts)
        self._read: tuple[Nodes, int] | None = None  # the nodes and their version
        self._names: list[str] = []
        self._groups: list[str] = []  # of these nodes
        self._group_sums = JobSums(self._by_group, reads_nodes=True)

    def by_queue(self, state: State) -> dict[str, Usage]:
        """Returns the usage of each queue in the given state."""
        self._sums.follow(state)
        return {name: Usage(*(self._sums.of(name) or ({}, {}))) for name in state.queues}

    def by_node_group(self, state: State) -> dict[str, dict[str, dict[str, float]]]:
        """Returns, by queue and node group, what the pods on the nodes of the group have allocated."""
        if not any(self.node_groups(state)):
            return {}
        self._group_sums.follow(state)
        found: dict[str, dict[str, dict[str, float]]] = {}
        for name in state.queues:
            (sums,) = self._group_sums.of(name) or ({},)
            for at, amount in sums.items():
                group, _, resource = at.partition("/")
                if amount:
                    found.setdefault(name, {}).setdefault(group, {})[resource] = float(amount)
        return found

    def node_groups(self, state: State) -> list[str]:
        """Returns the node group of each node, or an empty text."""
        nodes = state.nodes
        if self._read != (nodes, nodes.version):
            self._read = nodes, nodes.version
            groups = [node.metadata.labels.get(NODE_GROUP, "") for node in nodes.objects]
            if groups != self._groups or nodes.names != self._names:
                self._groups, self._names = groups, list(nodes.names)
                self._group_sums = JobSums(self._by_group, reads_nodes=True)
        return self._groups

    def _by_group(self, job: Job) -> tuple[Mapping[str, int], ...]:
        allocated: dict[str, int] = {}
        for task in job.tasks.values():
            group = self._groups[task.node] if task.node >= 0 else ""
            if group and task.status in (Status.BOUND, Status.RUNNING):
                for resource, amount in task.shape.amounts.items():
                    at = f"{group}/{resource}"  # a label's value has no slash
                    allocated[at] = allocated.get(at, 0) + amount
        return (allocated,)


def group_phases(plan: Plan, state: State) -> dict[str, Counter[str]]:
    """Returns how many groups of each queue are in which phase. Groups in memory, of which there may be one for every
    pod, are not counted."""
    jobs = [job for key in state.objects["PodGroup"] if (job := state.jobs.get(key)) is not None]
    if any(state.objects.get(kind) for kind in NATIVE_KINDS):
        jobs += [job for job in state.jobs.values() if job.native]
    found: dict[str, Counter[str]] = {}
    for job in jobs:
        if job.queue is not None:
            found.setdefault(job.queue.name, Counter())[plan.phases.get(job.key, job.phase)] += 1
    return found


def _parts(job: Job) -> tuple[Mapping[str, int], ...]:
    return job.allocated, job.total or minimum(job)
