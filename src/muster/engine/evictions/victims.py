"""Combines the plugins' answers about victims: which pods may be evicted for a claimer, and in what order.

`Opinions` are muster's rules, asked after all protections. `Victims` are Volcano's, for `compatibility: volcano`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING

import numpy as np

from muster.engine.core.hooks import Bools, Opinion, Preemptable, Reclaimable, VictimHints
from muster.engine.core.jobs import Job, Status, Task

if TYPE_CHECKING:
    from muster.engine.core.session import Session

Answer = list[bool] | None
VictimHook = Callable[[Task, Sequence[Task]], Answer]


class Opinions:
    """Which of the pods that the protections leave the tiers name as victims of one action."""

    def __init__(self, session: Session, rule: str) -> None:
        self._order = Victims(session, rule)
        self._tiers: list[list[tuple[Opinion, VictimHook]]] = [
            [(p.opinion, hook) for p, hook in zip(plugins, hooks, strict=True) if p.opinion != Opinion.NONE]
            for plugins, hooks in zip(self._order.plugins, self._order.tiers, strict=True)
        ]
        first: list[tuple[Opinion, VictimHook]] = next((tier for tier in self._tiers if tier), [])
        self.names_no_victims = not first
        self.names_all = bool(first) and all(opinion == Opinion.REST for opinion, _ in first)

    def named(self, claimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Within a tier answers are intersected; the first tier that names a victim decides."""
        if self.names_all or not candidates:
            return list(candidates)
        ordered = self._order.in_order(claimer, candidates)
        for tier in self._tiers:
            mask = [bool(tier)] * len(ordered)
            for opinion, hook in tier:
                answer = hook(claimer, ordered) if opinion == Opinion.ANSWER else None
                if answer is not None:
                    mask = [a and b for a, b in zip(mask, answer, strict=True)]
            if any(mask):
                return [task for task, named in zip(ordered, mask, strict=True) if named]
        return []


class Victims:
    """The victim rules of one action ("reclaim" or "preempt") in one cycle."""

    def __init__(self, session: Session, rule: str) -> None:
        self.session = session
        self.rule = rule
        self.tiers: list[list[VictimHook]]
        self.plugins: Sequence[Sequence[VictimHints]]
        if rule == "reclaim":
            reclaimable = [[p for p in tier if not p.inactive(rule)] for tier in session.tiered(Reclaimable)]
            self.plugins = reclaimable
            self.tiers = [[p.reclaimable for p in tier] for tier in reclaimable]
        else:
            preemptable = [[p for p in tier if not p.inactive(rule)] for tier in session.tiered(Preemptable)]
            self.plugins = preemptable
            self.tiers = [[p.preemptable for p in tier] for tier in preemptable]
        self._exhausted: dict[str, Bools] = {}
        self._might: Bools | None = None

    def exhausted(self, queue: str) -> Bools:
        """The nodes without further victims for this queue's claims, until an eviction is rolled back."""
        found = self._exhausted.get(queue)
        if found is None:
            found = self._exhausted[queue] = np.zeros(len(self.session.state.nodes), np.bool_)
        return found

    def on_rollback(self) -> None:
        self._exhausted.clear()

    @property
    def promising(self) -> Bools:
        if self._might is None:
            self._might = self._promising()
        return self._might

    def _promising(self) -> Bools:
        """The nodes where some tier might name a victim: an upper bound that evictions of this action only lower.

        A tier names no victim on a node where one of its plugins makes no pod of any job there a victim.
        """
        nodes = self.session.state.nodes
        found = np.zeros(len(nodes), np.bool_)
        for tier in self.plugins:
            if not tier:
                continue
            some = np.ones(len(nodes), np.bool_)
            for plugin in tier:
                if type(plugin).never_victim is VictimHints.never_victim:
                    continue
                here = np.zeros(len(nodes), np.bool_)
                for job in self.session.jobs.values():
                    if (job.count[Status.RUNNING] or job.count[Status.BOUND]) and not plugin.never_victim(job):
                        here[[t.node for t in job.tasks.values() if t.node >= 0]] = True
                some &= here
            found |= some
        return found

    def chosen(self, claimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Returns the candidates that the plugins name as victims for the claimer, in victim order."""
        if not candidates:
            return []
        ordered = self.in_order(claimer, candidates)
        mask = combine(self.tiers, claimer, ordered)
        return [task for task, given in zip(ordered, mask, strict=True) if given] if mask is not None else []

    def refused_by(self, claimer: Task, candidates: Sequence[Task]) -> dict[str, str]:
        """Returns for explanations: pod → the first plugin that does not name it, for pods that some plugin refuses."""
        found: dict[str, str] = {}
        ordered = self.in_order(claimer, candidates)
        for plugins, hooks in zip(self.plugins, self.tiers, strict=True):
            for plugin, hook in zip(plugins, hooks, strict=True):
                answer = hook(claimer, ordered)
                for task, named in zip(ordered, answer or (), strict=answer is not None):
                    if not named:
                        found.setdefault(task.key, getattr(plugin, "name", ""))
        return found

    def in_order(self, claimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Victim order: inside a queue reverse job order (plugins only), then reverse task order."""
        session = self.session
        by_queue: dict[str, list[Task]] = {}
        for task in candidates:
            assert task.job is not None
            by_queue.setdefault(task.job.queue_name, []).append(task)
        for name, tasks in by_queue.items():
            ranked = session.in_order(tasks)
            ranked.sort(key=lambda t: session.job_key(t.job, plugins_only=True))  # type: ignore[arg-type]
            by_queue[name] = ranked[::-1]
        if len(by_queue) == 1:
            return next(iter(by_queue.values()))
        assert claimer.job is not None and claimer.job.queue is not None
        own = claimer.job.queue

        def before(a: str, b: str) -> int:
            return session.victim_queue_cmp(session.queues[a], session.queues[b], own)

        return [task for name in sorted(by_queue, key=cmp_to_key(before)) for task in by_queue[name]]


def combine(tiers: Sequence[Sequence[VictimHook]], claimer: Task, candidates: Sequence[Task]) -> Answer:
    """Volcano: within a tier answers are intersected; a tier without a victim defers to the next tier.

    Two quirks are kept on purpose: an empty answer ends its tier at once, and an intersection that becomes empty
    counts as no answer yet, so the following plugin of the tier starts afresh.
    """
    for tier in tiers:
        result: Answer = None
        for hook in tier:
            answer = hook(claimer, candidates)
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


def claimants(session: Session) -> list[Job]:
    """Jobs that may claim capacity: admitted, valid, starving, with pending pods that have no promise yet."""
    return [
        job for job in session.jobs.values()
        if job.count[Status.PENDING] and not job.is_pending and session.starving(job) and session.valid(job) is None
        and not _promised(session, job)
    ]  # fmt: skip


def _promised(session: Session, job: Job) -> bool:
    """Whether all pending pods are nominated to nodes that fit now: then allocate places the job.

    Volcano claims again in every cycle, so that with reclaim before allocate a pod may wait for ever on a node that
    fits.
    """
    if "allocate" not in session.config.actions:
        return False
    rank = session.state.nodes.rank
    for task in job.tasks.values():
        if task.status == Status.PENDING and not task.gated:
            node = rank.get(task.nominated, -1)
            if node < 0 or not session.placement.fits(task)[node]:
                return False
    return True
