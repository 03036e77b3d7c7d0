"""What becomes of a gang whose commit was cut short: by a crash of the leader, or by a binding that failed.

The rest is bound where it was meant to go, if there is still room; else the next cycles may find it other nodes; and if
the gang is not whole after a grace period, the pods that were bound are evicted again. A group that is whole, or of
which nothing was bound, only loses its journal.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.state import State
from muster.scheduler.journal import Journal, JournalCarrier, journal_of, open_journal

GRACE = 30.0
_HERE = (Status.BOUND, Status.RUNNING, Status.ALLOCATED, Status.BINDING)


class Way(Enum):
    CLOSE = "close"  # the journal has done its service
    FINISH = "finish"  # bind the rest as it was meant
    WAIT = "wait"  # leave the rest to the cycles
    UNDO = "undo"  # evict what was bound


@dataclass(frozen=True, slots=True)
class Repair:
    way: Way
    tasks: tuple[Task, ...] = ()  # to bind (FINISH) or to evict (UNDO)
    journal: Journal | None = None
    place: JournalCarrier | None = None  # of the journal; None: it is gone


def repair(state: State, group: str, tried: bool, since: float, now: float) -> Repair:
    """What to do about the group's journal. `tried`: its rest was tried once; `since`: when we first looked at it."""
    job = state.jobs.get(group)
    found = open_journal(state, job) if job is not None else None
    if found is None or job is None:
        return Repair(Way.CLOSE)
    place, carrier = found
    journal = journal_of(carrier)
    if journal is None:
        return Repair(Way.CLOSE, place=place)
    meant = [t for t in job.tasks.values() if journal.same(t.name, t.uid)]
    bound = [t for t in meant if t.status in _HERE]
    rest = [t for t in meant if t.status == Status.PENDING]
    if not bound or job.ready >= job.min_available or _ended(job):
        return Repair(Way.CLOSE, place=place)
    if rest and not tried and room_for(state, rest, journal):
        return Repair(Way.FINISH, tuple(sorted(rest, key=lambda t: t.key)), journal)
    if now - max(since, journal.at) < GRACE:
        return Repair(Way.WAIT)
    # The pod that carries the journal goes last: while it is there, whoever comes after us knows what to undo.
    others = [t for t in bound if t.key != place.pod]
    return Repair(Way.UNDO, tuple(sorted(others or bound, key=lambda t: t.key)), journal)


def _ended(job: Job) -> bool:
    """Pods that ran and ended are no sign of a commit cut short."""
    return bool(job.count[Status.SUCCEEDED] or job.count[Status.FAILED])


def room_for(state: State, tasks: list[Task], journal: Journal) -> bool:
    """Are the nodes there, and is there room for these pods where they were meant to go?"""
    state.refresh()
    nodes = state.nodes
    asked: dict[int, dict[str, int]] = {}
    for task in tasks:
        node = nodes.rank.get(journal.pods[task.name].node, -1)
        if node < 0 or nodes.objects[node].spec.unschedulable:
            return False
        here = asked.setdefault(node, {})
        for name, amount in task.shape.amounts.items():
            here[name] = here.get(name, 0) + amount
    rows = nodes.axis.rows
    return all(
        int(nodes.idle[rows[name], node]) >= amount for node, here in asked.items() for name, amount in here.items()
    )
