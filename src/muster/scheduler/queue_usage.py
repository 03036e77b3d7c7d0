"""What the jobs of each queue hold and ask for, in all and by node group, kept from cycle to cycle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from muster.engine.core.jobs import Job, Status
from muster.engine.core.state import State
from muster.engine.queues.accounts import JobSums, minimum

NODE_GROUP = "volcano.sh/nodegroup-name"


class Usage(NamedTuple):
    """Amounts by resource, in internal units."""

    allocated: dict[str, int]
    requested: dict[str, int]


class QueueUsage:
    def __init__(self) -> None:
        self._sums: dict[str, JobSums] = {}
        self._nodes: list[str] = []
        self._groups: list[str] = []  # of these nodes
        self._in_groups: dict[str, JobSums] = {}

    def now(self, state: State) -> dict[str, Usage]:
        """By queue, as the state is now."""
        self._sums = {name: self._sums.get(name) or JobSums(_parts) for name in state.queues}
        return {name: Usage(*(self._sums[name].over(queue.jobs) or ({}, {}))) for name, queue in state.queues.items()}

    def in_node_groups(self, state: State) -> dict[str, dict[str, dict[str, float]]]:
        """By queue and node group: what pods that are there hold."""
        groups = node_groups(state)
        if self._groups != groups or self._nodes != state.nodes.names:
            self._groups, self._nodes, self._in_groups = groups, list(state.nodes.names), {}
        if not any(groups):
            return {}
        self._in_groups = {name: self._in_groups.get(name) or JobSums(self._by_group) for name in state.queues}
        found: dict[str, dict[str, dict[str, float]]] = {}
        for name, queue in state.queues.items():
            (held,) = self._in_groups[name].over(queue.jobs) or ({},)
            for at, amount in held.items():
                group, _, resource = at.partition("/")
                if amount:
                    found.setdefault(name, {}).setdefault(group, {})[resource] = float(amount)
        return found

    def _by_group(self, job: Job) -> tuple[Mapping[str, int], ...]:
        held: dict[str, int] = {}
        for task in job.tasks.values():
            group = self._groups[task.node] if task.node >= 0 else ""
            if group and task.status in (Status.BOUND, Status.RUNNING):
                for resource, amount in task.shape.amounts.items():
                    at = f"{group}/{resource}"  # a label's value has no slash
                    held[at] = held.get(at, 0) + amount
        return (held,)


def node_groups(state: State) -> list[str]:
    """Of each node the group it is in, or nothing."""
    return [node.metadata.labels.get(NODE_GROUP, "") for node in state.nodes.objects]


def _parts(job: Job) -> tuple[Mapping[str, int], ...]:
    return job.allocated, job.total or minimum(job)
