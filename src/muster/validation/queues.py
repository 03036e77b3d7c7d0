"""Finds faulty queues: the parent does not exist, the parents form a cycle, guarantees exceed the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.config.names import suggest
from muster.engine.core.jobs import Queue
from muster.engine.core.resources import total_of
from muster.engine.core.session import Session
from muster.model.finding import Finding
from muster.model.quantity import display
from muster.validation.locator import Locator

ROOT = "root"
DEFAULT = "default"  # always exists, and is reclaimable unless its object says otherwise


def queue_findings(session: Session, locator: Locator) -> Iterator[Finding]:
    """Checks every queue and the queues together."""
    queues = session.queues
    for queue in queues.values():
        yield from _tree(queue, queues, locator)
        yield from _amounts(queue, locator)
        job_count = sum(1 for job in queue.jobs.values() if job.tasks)
        if not queue.open and job_count:
            message = f"is {queue.object.status.state}, not Open: its {job_count} pod groups get nothing new"
            fix = "open it, or move the groups"
            yield locator.finding("warning", "Queue", queue.name, "queue-closed", message, fix)
    yield from _guarantees(session, locator)
    yield from _reclaim(session, locator)


def _tree(queue: Queue, queues: Mapping[str, Queue], locator: Locator) -> Iterator[Finding]:
    parent = queue.parent
    if parent and parent != ROOT and parent not in queues:
        message = f"spec.parent is {parent}, and there is no such queue"
        fix = suggest(parent, [*queues, ROOT])
        yield locator.finding("error", "Queue", queue.name, "queue-parent", message, fix)
        return
    chain = [queue.name]
    while parent and parent != ROOT and parent in queues:
        if parent == queue.name:
            message = f"the parents of the queues form a cycle: {' → '.join([*chain, parent])}"
            fix = "remove spec.parent from one of them"
            yield locator.finding("error", "Queue", queue.name, "queue-cycle", message, fix)
            return
        if parent in chain:
            return  # below a cycle, which is reported for its members
        chain.append(parent)
        parent = queues[parent].parent


def _amounts(queue: Queue, locator: Locator) -> Iterator[Finding]:
    for what, amounts in (("guarantee", queue.guarantee), ("deserved", queue.deserved)):
        for name, amount in sorted(amounts.items()):
            most = queue.capability.get(name)
            if most is not None and amount > most:
                message = f"{what} of {name} is {display(name, amount)}, more than its capability {display(name, most)}"
                fix = f"lower {what}, or raise capability"
                yield locator.finding("warning", "Queue", queue.name, f"queue-{what}", message, fix)


def _guarantees(session: Session, locator: Locator) -> Iterator[Finding]:
    """Checks that the nodes have what the queues are guaranteed together."""
    nodes = session.state.nodes
    if not len(nodes):
        return
    queues = session.queues.values()
    inner = {queue.parent for queue in queues}
    leaves = [queue for queue in queues if queue.name not in inner and queue.guarantee]
    for name in sorted({resource for queue in leaves for resource in queue.guarantee}):
        guaranteed = sum(queue.guarantee.get(name, 0) for queue in leaves)
        allocatable = total_of(nodes).get(name, 0)
        if guaranteed > allocatable:
            message = f"queues are guaranteed {display(name, guaranteed)} {name} in all, "
            message += f"the nodes have {display(name, allocatable)}"
            greatest = max(leaves, key=lambda queue: (queue.guarantee.get(name, 0), queue.name))
            fix = "lower the guarantees"
            yield locator.finding("warning", "Queue", greatest.name, "queue-guarantees", message, fix)


def _reclaim(session: Session, locator: Locator) -> Iterator[Finding]:
    """Checks that reclaim can evict: it needs two queues that can have pods, one of them reclaimable."""
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
    yield locator.finding("warning", "Queue", first, "no-victims", message, fix)
