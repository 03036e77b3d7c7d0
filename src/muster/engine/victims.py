"""Who may be evicted for whom, and in what order: the combination rules of preemptable and reclaimable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING

from muster.engine.hooks import Preemptable, Reclaimable
from muster.engine.jobs import Job, Task

if TYPE_CHECKING:
    from muster.engine.session import Session

Answer = list[bool] | None
Ask = Callable[[Task, Sequence[Task]], Answer]


class Victims:
    """The victim rules of one action ("reclaim" or "preempt") in one cycle."""

    def __init__(self, session: Session, rule: str) -> None:
        self.session = session
        self.rule = rule
        self.tiers: list[list[Ask]]
        if rule == "reclaim":
            self.tiers = [[p.reclaimable for p in tier] for tier in session.tiered(Reclaimable)]
        else:
            self.tiers = [[p.preemptable for p in tier] for tier in session.tiered(Preemptable)]

    def chosen(self, claimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Those of the candidates that the plugins give up for the claimer, in victim order."""
        if not candidates:
            return []
        ordered = self.in_order(claimer, candidates)
        mask = combine(self.tiers, claimer, ordered)
        return [task for task, given in zip(ordered, mask, strict=True) if given] if mask is not None else []

    def in_order(self, claimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Victim order: inside a queue reverse job order (plugins only), then reverse task order."""
        session = self.session
        by_queue: dict[str, list[Task]] = {}
        for task in candidates:
            by_queue.setdefault(_queue(task), []).append(task)
        for name, tasks in by_queue.items():
            keys = {id(t.job): session.job_key(t.job, plugins_only=True) for t in tasks if t.job is not None}
            ranked = session.in_order(tasks)
            ranked.sort(key=lambda t: keys[id(t.job)])
            by_queue[name] = ranked[::-1]
        if len(by_queue) == 1:
            return next(iter(by_queue.values()))
        assert claimer.job is not None and claimer.job.queue is not None
        own = claimer.job.queue
        rank = cmp_to_key(lambda a, b: session.victim_queue_cmp(session.queues[a], session.queues[b], own))
        return [task for name in sorted(by_queue, key=rank) for task in by_queue[name]]


def combine(tiers: Sequence[Sequence[Ask]], claimer: Task, candidates: Sequence[Task]) -> Answer:
    """Volcano: within a tier answers are intersected; a tier that names nobody leaves the word to the next.

    Two quirks are kept on purpose: an empty answer ends its tier at once, and an intersection that becomes empty
    counts as no answer yet, so the following plugin of the tier starts afresh.
    """
    for tier in tiers:
        result: Answer = None
        for ask in tier:
            answer = ask(claimer, candidates)
            if answer is None:
                continue
            if not any(answer):
                result = None
                break
            if result is None:
                result = answer
            else:
                result = [a and b for a, b in zip(result, answer, strict=True)]
                if not any(result):
                    result = None
        if result is not None:
            return result
    return None


def _queue(task: Task) -> str:
    assert task.job is not None
    return task.job.queue_name


def claimants(session: Session) -> list[Job]:
    """Jobs that may claim room: admitted, valid, and starving."""
    return [
        job for job in session.jobs.values()
        if not job.is_pending and session.valid(job) is None and session.starving(job)
    ]  # fmt: skip
