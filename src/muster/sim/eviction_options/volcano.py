"""The options of a pending pod by Volcano's rules (`compatibility: volcano`): node by node, for this pod alone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from muster.actions import preempt, reclaim
from muster.actions.volcano_eviction import evictable, within_capacity
from muster.engine.core.jobs import Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.statement import Statement
from muster.engine.evictions.claim import PREEMPT, RECLAIM
from muster.engine.evictions.victims import Victims, claimants
from muster.sim.eviction_options.option import EvictionOption, Protected, counted, refused, some, victim_of

# What the refusal of a plugin is about.
_RULES = {
    "capacity": "queue-share", "conformance": "conformance", "gang": "gang-minimum", "pdb": "budget",
    "priority": "priority", "proportion": "queue-share",
}  # fmt: skip
_ALONE = "by Volcano's rules, for this pod alone"


def volcano_options(session: Session, task: Task, limit: int) -> list[EvictionOption]:
    if task.job not in claimants(session):
        return refused("by Volcano's rules only a group claims that is admitted, valid and below its minimum")
    rules = [rule for rule in session.config.actions if rule in (PREEMPT, RECLAIM)]
    able = [rule for rule in rules if _may(session, task, rule)]
    victims = {rule: Victims(session, rule) for rule in able}
    if not able:
        queue = task.job.queue_name
        return refused(f"{' and '.join(rules)}: preemptionPolicy is Never, or queue {queue} has what it deserves")
    nodes = np.flatnonzero(within_capacity(session, task) & ~session.placement.fits(task, MoveKind.PIPELINE)).tolist()
    options = [_on(session, task, victims, node) for node in nodes[:limit]]
    options.sort(key=lambda option: not option.possible)
    return options or refused("no node could take the pod after evictions")


def _may(session: Session, task: Task, rule: str) -> bool:
    return preempt.may_preempt(session, task) if rule == PREEMPT else reclaim.may_claim(session, task)


def _on(session: Session, task: Task, victims: dict[str, Victims], node: int) -> EvictionOption:
    """Tries the actions in their order on one node."""
    names = session.state.nodes.names
    protected = list(_protected(session, task, victims, node))
    for rule, one in victims.items():
        statement = session.statement()
        if _evicts(session, statement, rule, one, task, node):
            gone = [victim_of(m.task, names) for m in statement.moves if m.kind == MoveKind.EVICT]
            statement.discard()
            if gone:
                text = f"{rule} would evict {some([victim.pod for victim in gone])} ({_ALONE})"
                return EvictionOption(names[node], True, rule, gone, protected, text)
        statement.discard()
    text = "the pods that the plugins name are not enough" + (f"; {counted(protected)}" if protected else "")
    return EvictionOption(names[node], False, "", [], protected, f"{text} ({_ALONE})")


def _evicts(session: Session, statement: Statement, rule: str, victims: Victims, task: Task, node: int) -> bool:
    assert task.job is not None and task.job.queue is not None
    if rule == RECLAIM:
        return reclaim.reclaim_on(session, statement, victims, task, task.job.queue, node)
    only = np.zeros(len(session.state.nodes), np.bool_)
    only[node] = True
    return preempt.by_score(session, statement, victims, task, lambda victim: victim.job is not task.job, only)


def _protected(session: Session, task: Task, victims: dict[str, Victims], node: int) -> Iterator[Protected]:
    """Yields the pods on the node that no action asks about, and those that a plugin does not name."""
    assert task.job is not None and task.job.queue is not None
    asked: dict[str, list[Task]] = {}
    if PREEMPT in victims:
        asked[PREEMPT] = [t for t in preempt.same_queue_on(session, task, node) if t.job is not task.job]
    if RECLAIM in victims:
        asked[RECLAIM] = reclaim.others_on(session, task.job.queue, node)
    named: set[str] = set()
    by: dict[str, str] = {}
    for rule, tasks in asked.items():
        if tasks:
            named |= {one.key for one in victims[rule].chosen(task, tasks)}
            by |= victims[rule].refused_by(task, tasks)
    able = {one.key for one in evictable(session, node, (Status.BOUND, Status.RUNNING))}
    for key, one in session.state.nodes.on[node].items():
        if key in named or one.status == Status.RELEASING:
            continue
        group = one.job.shown if one.job is not None else ""
        if key in by:
            rule = _RULES.get(by[key], "not-named")
            yield Protected(key, group, rule, by[key], f"the plugin {by[key]} does not name it as a victim")
        elif key not in able:
            yield Protected(key, group, "not-preemptable", "", "it is not preemptable, or no pod of this scheduler")
        else:
            text = f"no action takes from queue {one.job.queue_name if one.job is not None else ''} for this pod"
            yield Protected(key, group, "other-queue", "", text)
