"""Limits how much of a node group a queue may use: the annotation `volcano.sh/nodegroup-resource-limits`.

Usage is counted per queue and group, for running pods and pods that this cycle places, including pipelined pods. The
answer for a node therefore depends on the other nodes of its group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from muster.engine.core.hooks import Batch, NodeFilter, Reason, Scope, Verdict
from muster.engine.core.jobs import ALLOCATED_LIKE, Queue, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.statement import Move
from muster.model.quantity import display
from muster.plugins.nodegroup.annotations import AnnotationError, Limits, limits_of
from muster.plugins.nodegroup.group_classes import GroupClasses
from muster.plugins.nodegroup.rules import Groups

Amounts = dict[str, int]


class GroupLimits(NodeFilter):
    """Refuses nodes of a group in which the queue has reached its limit."""

    term = "limits"
    scope = Scope.CLUSTER

    def __init__(self) -> None:
        self.limits: dict[str, Limits] = {}
        self.faults: dict[str, str] = {}  # queue → what is wrong with its annotation
        self._usage: dict[str, dict[str, Amounts]] = {}  # queue → group → resource → amount

    def read(self, queues: Iterable[Queue]) -> None:
        """Reads the annotations of all queues."""
        self.limits, self.faults = {}, {}
        for queue in queues:
            try:
                if limits := limits_of(queue):
                    self.limits[queue.name] = limits
            except AnnotationError as fault:
                self.faults[queue.name] = str(fault)

    def open(self, queues: Mapping[str, Queue], group_classes: GroupClasses) -> None:
        """Counts the usage of the limited queues at the start of the cycle."""
        self._group_classes = group_classes
        self._usage = {name: {group: {} for group in limits} for name, limits in self.limits.items()}
        for name in self._usage:
            for job in queues[name].jobs.values():
                for task in job.tasks.values():
                    if task.node >= 0 and task.status in ALLOCATED_LIKE:
                        self._add(name, task.node, task.shape.amounts, 1)

    def usage(self, queue: str, group: str) -> Amounts:
        """Returns the current usage of a limited queue in a limited group."""
        return self._usage[queue][group]

    # --- the filter

    def batch(self, task: Task) -> Batch:
        queue = _queue(task)
        return Batch.SINGLE if queue in self.limits or queue in self.faults else Batch.SKIP

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        queue = _queue(task)
        if queue in self.faults:
            # Volcano: no pod of the queue is scheduled while its limits cannot be read.
            reason = Reason("node-group-limits-invalid", f"queue {queue}: {self.faults[queue]}", resolvable=False)
            return Verdict.of(np.ones(len(nodes), np.bool_), reason)
        codes, reasons = [], []
        for groups in self._group_classes.classes:
            refusal = self._refusal(queue, groups, task.shape.amounts)
            if refusal is not None:
                reasons.append(refusal)
            codes.append(0 if refusal is None else len(reasons))
        return Verdict(np.array(codes, np.uint16)[self._group_classes.class_of[nodes.index]], reasons)

    def _refusal(self, queue: str, groups: Groups, request: Amounts) -> Reason | None:
        limits = self.limits.get(queue, {})
        for group in groups:
            for resource, most in limits.get(group, {}).items():
                used, asked = self.usage(queue, group).get(resource, 0), request.get(resource, 0)
                if used + asked > most:
                    text = (
                        f"queue {queue} may hold {display(resource, most)} {resource} in node group {group}, "
                        f"has {display(resource, used)} and requests {display(resource, asked)}"
                    )
                    # Evicting pods of the queue itself frees capacity up to the limit. (Volcano: never resolvable.)
                    return Reason("node-group-limit", text, resolvable=asked <= most)
        return None

    def exceeded(self, queue: str, groups: Groups, request: Amounts) -> tuple[str, str] | None:
        """Returns the first (group, resource) in which the request alone exceeds the queue's limit."""
        limits = self.limits.get(queue, {})
        for group in groups:
            for resource, most in limits.get(group, {}).items():
                if request.get(resource, 0) > most:
                    return group, resource
        return None

    # --- the account

    def count(self, move: Move, sign: int) -> None:
        """Counts a move: its tasks get capacity (+1) or give it back (−1)."""
        queue = _queue(move.task)
        if queue in self._usage:
            for node in move.nodes:
                self._add(queue, node, move.task.shape.amounts, sign)

    def _add(self, queue: str, node: int, amounts: Amounts, sign: int) -> None:
        for group in self._group_classes.classes[self._group_classes.class_of[node]]:
            used = self._usage[queue].get(group)
            if used is not None:
                for resource, amount in amounts.items():
                    used[resource] = used.get(resource, 0) + sign * amount


def _queue(task: Task) -> str:
    return task.job.queue_name if task.job is not None else ""
