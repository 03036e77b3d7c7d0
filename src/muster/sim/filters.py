"""Restricts an answer to the pods of some namespaces and queues, and to some nodes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import Struct

from muster.config.names import suggest
from muster.model.finding import InputError

if TYPE_CHECKING:
    from muster.sim.difference import GroupDifference
    from muster.sim.result import Result

__all__ = ["Filter"]


class Filter(Struct, frozen=True):
    """Which pods are shown; an empty tuple restricts nothing."""

    namespaces: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.namespaces or self.queues or self.nodes)

    def __str__(self) -> str:
        parts = {"namespace": self.namespaces, "queue": self.queues, "node": self.nodes}
        return ", ".join(f"{what} {name}" for what, names in parts.items() for name in names)

    def result(self, result: Result) -> Result:
        """Returns the result with the decisions about these pods only; the summary is that of the whole cluster.

        Raises InputError if a namespace, queue or node is not in the cluster.
        """
        if not self:
            return result
        state = result.state
        pods = {*state.tasks, *result.pending, *result.binds, *(eviction.pod for eviction in result.evictions)}
        _check("namespace", self.namespaces, {pod.partition("/")[0] for pod in pods})
        _check("queue", self.queues, state.queues)
        _check("node", self.nodes, state.nodes.names)

        def keeps(pod: str, node: str | None) -> bool:
            return self._of(pod, self._queue(result, pod)) and self._on(node)

        # A pending pod has no node: with --node only those that wait for capacity of it are shown.
        waits = result.pipelined
        binds = {pod: node for pod, node in result.binds.items() if keeps(pod, node)}
        return replace(
            result,
            binds=binds,
            pipelined={pod: node for pod, node in waits.items() if keeps(pod, node)},
            evictions=[one for one in result.evictions if keeps(one.pod, one.node)],
            pending={pod: why for pod, why in result.pending.items() if keeps(pod, waits.get(pod))},
            devices={pod: ids for pod, ids in result.devices.items() if pod in binds},
            shares={pod: parts for pod, parts in result.shares.items() if pod in binds},
        )

    def groups(self, groups: Iterable[GroupDifference]) -> list[GroupDifference]:
        """Returns the differences of these pods."""
        from muster.sim.difference import GroupDifference

        found = []
        for group in groups:
            kept = GroupDifference(group.group, group.queue)
            for name in ("bound", "removed"):
                nodes = getattr(group, name)
                setattr(kept, name, {pod: node for pod, node in nodes.items() if self._keeps(pod, group.queue, node)})
            kept.moved = {pod: pair for pod, pair in group.moved.items() if self._keeps(pod, group.queue, *pair)}
            kept.waiting = {pod: why for pod, why in group.waiting.items() if self._keeps(pod, group.queue, None)}
            kept.evicted = [one for one in group.evicted if self._keeps(one.pod, group.queue, one.node)]
            kept.spared = [one for one in group.spared if self._keeps(one.pod, group.queue, one.node)]
            if any((kept.bound, kept.removed, kept.moved, kept.waiting, kept.evicted, kept.spared)):
                found.append(kept)
        return found

    def _keeps(self, pod: str, queue: str, *nodes: str | None) -> bool:
        return self._of(pod, queue) and any(map(self._on, nodes))

    def _of(self, pod: str, queue: str) -> bool:
        in_namespace = not self.namespaces or pod.partition("/")[0] in self.namespaces
        return in_namespace and (not self.queues or queue in self.queues)

    def _on(self, node: str | None) -> bool:
        return not self.nodes or node in self.nodes

    def _queue(self, result: Result, pod: str) -> str:
        task = result.state.tasks.get(pod)
        return task.job.queue_name if task is not None and task.job is not None else ""


def _check(what: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"there is no {what} {name} in the cluster: {suggest(name, known)}")
