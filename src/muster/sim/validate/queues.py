"""Queues that cannot be as they are meant: parents that are missing or go in a circle, promises that cannot be kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.config.names import suggest
from muster.engine.core.axis import exact_sum, show
from muster.engine.core.jobs import Queue
from muster.engine.core.session import Session
from muster.model.finding import Finding
from muster.sim.validate.places import Located

ROOT = "root"
DEFAULT = "default"  # always exists, and is reclaimable unless its object says otherwise


def queue_findings(session: Session, where: Located) -> Iterator[Finding]:
    queues = session.queues
    for queue in queues.values():
        yield from _tree(queue, queues, where)
        yield from _amounts(queue, where)
        waiting = sum(1 for job in queue.jobs.values() if job.tasks)
        if not queue.open and waiting:
            message = f"is {queue.object.status.state}, not Open: its {waiting} pod groups get nothing new"
            yield where.say("warning", "Queue", queue.name, "queue-closed", message, "open it, or move the groups")
    yield from _guarantees(session, where)
    yield from _reclaim(session, where)


def _tree(queue: Queue, queues: Mapping[str, Queue], where: Located) -> Iterator[Finding]:
    parent = queue.parent
    if parent and parent != ROOT and parent not in queues:
        message = f"spec.parent is {parent}, and there is no such queue"
        fix = suggest(parent, [*queues, ROOT])
        yield where.say("error", "Queue", queue.name, "queue-parent", message, fix)
        return
    way = [queue.name]
    while parent and parent != ROOT and parent in queues:
        if parent == queue.name:
            message = f"the queue tree goes in a circle: {' → '.join([*way, parent])}"
            fix = "take spec.parent out of one of them"
            yield where.say("error", "Queue", queue.name, "queue-cycle", message, fix)
            return
        if parent in way:
            return  # hangs on a circle that is told at its own members
        way.append(parent)
        parent = queues[parent].parent


def _amounts(queue: Queue, where: Located) -> Iterator[Finding]:
    for what, amounts in (("guarantee", queue.guarantee), ("deserved", queue.deserved)):
        for name, amount in sorted(amounts.items()):
            most = queue.capability.get(name)
            if most is not None and amount > most:
                message = f"{what} of {name} is {show(name, amount)}, more than its capability {show(name, most)}"
                fix = f"lower {what}, or raise capability"
                yield where.say("warning", "Queue", queue.name, f"queue-{what}", message, fix)


def _guarantees(session: Session, where: Located) -> Iterator[Finding]:
    """What is guaranteed in all must be there."""
    nodes = session.state.nodes
    if not len(nodes):
        return
    queues = session.queues.values()
    inner = {queue.parent for queue in queues}
    leaves = [queue for queue in queues if queue.name not in inner and queue.guarantee]
    for name in sorted({resource for queue in leaves for resource in queue.guarantee}):
        promised = sum(queue.guarantee.get(name, 0) for queue in leaves)
        row = nodes.axis.rows.get(name)
        there = exact_sum(nodes.alloc[row]) if row is not None else 0
        if promised > there:
            message = f"queues are guaranteed {show(name, promised)} {name} in all, the nodes have {show(name, there)}"
            greatest = max(leaves, key=lambda queue: (queue.guarantee.get(name, 0), queue.name))
            yield where.say("warning", "Queue", greatest.name, "queue-guarantees", message, "lower the guarantees")


def _reclaim(session: Session, where: Located) -> Iterator[Finding]:
    """reclaim takes from other queues: it needs two that can hold pods, and one that gives."""
    if "reclaim" not in session.config.actions:
        return
    inner = {queue.parent for queue in session.queues.values()}
    leaves = [queue for name, queue in session.queues.items() if name != ROOT and name not in inner]
    others = [queue for queue in leaves if queue.name != DEFAULT]
    if not others:
        message, fix = "is the only queue: reclaim never evicts anything", "add a queue, or remove reclaim"
    elif len(others) < len(leaves) and not any(queue.reclaimable for queue in leaves):
        message = "is not reclaimable, nor is any other queue: reclaim never evicts anything"
        fix = "set reclaimable: true for a queue, or remove reclaim"
    else:
        return
    first = leaves[0].name if leaves else DEFAULT
    yield where.say("warning", "Queue", first, "no-victims", message, fix)
