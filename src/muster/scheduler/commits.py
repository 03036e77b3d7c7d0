"""A plan as orders to the API server: who is bound with whom, who is evicted for whom, with the uids that were meant.

Made in the cycle thread from the plan and the state it was decided on; the binder needs nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.engine.core.jobs import Job
from muster.engine.core.plan import Eviction, Plan
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.scheduling import PodGroup
from muster.scheduler.journal import (
    UID_PART,
    Entry,
    Journal,
    JournalCarrier,
    TooLarge,
    carrier_for,
    encode,
    journal_of,
    open_journal,
)

# The predicates plugin says so before; without it nobody else would.
NO_CLAIMS = "muster does not allocate spec.resourceClaims"


@dataclass(frozen=True, slots=True)
class PodBinding:
    """One binding, with what is written before and with it."""

    pod: Pod
    key: str
    uid: str
    node: str
    notes: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[tuple[str, Mapping[str, str]], ...] = ()  # claim → volumeName or selectedNode


@dataclass(frozen=True, slots=True)
class BindCommit:
    """Bindings that belong together; a gang's have a journal, written before the first of them."""

    binds: tuple[PodBinding, ...]
    group: str = ""
    place: JournalCarrier | None = None
    journal: str = ""
    about: PodGroup | None = None  # gets one event for all bindings


@dataclass(frozen=True, slots=True)
class EvictionCommit:
    """All evictions for one job: if one of them is refused, none is carried out."""

    claimer: str  # the job
    by: tuple[Pod, ...]  # its pods that get the capacity
    victims: tuple[tuple[Eviction, Pod], ...]
    group_of: Mapping[str, PodGroup] = field(default_factory=dict)  # pod → its group, where that is an object
    tried: bool = True  # with dryRun first


@dataclass(slots=True)
class Commits:
    commits: list[BindCommit] = field(default_factory=list)
    removals: list[EvictionCommit] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)  # pod → why it cannot be ordered at all


def commits_of(plan: Plan, state: State, holder: str, now: float) -> Commits:
    """The plan's orders; to be asked before the plan is assumed."""
    made = Commits()
    gangs: dict[str, list[PodBinding]] = {}
    for key, node in plan.binds.items():
        task = state.tasks[key]
        bind = _bind(plan, task.pod, key, task.uid, node)
        job = task.job
        if job is not None and _needs_journal(job):
            gangs.setdefault(job.key, []).append(bind)
        else:
            made.commits.append(BindCommit((bind,)))
    for commit in [c for c in made.commits if c.binds[0].pod.spec.resource_claims]:
        made.commits.remove(commit)
        made.faults[commit.binds[0].key] = NO_CLAIMS
    for key, binds in gangs.items():
        if any(bind.pod.spec.resource_claims for bind in binds):
            made.faults.update((bind.key, NO_CLAIMS) for bind in binds)
            continue
        try:
            made.commits.append(_gang(state, state.jobs[key], binds, holder, now))
        except TooLarge as fault:
            made.faults.update((bind.key, str(fault)) for bind in binds)
    made.removals = _removals(plan, state)
    return made


def _bind(plan: Plan, pod: Pod, key: str, uid: str, node: str) -> PodBinding:
    notes: dict[str, str] = {}
    claims = []
    for effect in plan.effects.get(key, ()):
        if effect.kind == "annotations":
            notes.update(effect.values)
        elif effect.kind == "claim":
            claims.append((effect.key, effect.values))
    return PodBinding(pod, key, uid, node, notes, tuple(claims))


def _needs_journal(job: Job) -> bool:
    """A gang that is not whole yet. What comes above the minimum may arrive or not, pod by pod."""
    return job.min_available > 1 and job.ready < job.min_available


def _gang(state: State, job: Job, binds: list[PodBinding], holder: str, now: float) -> BindCommit:
    """The commit with its journal; one that is still open is carried on, so that its pods are not forgotten."""
    open_ = open_journal(state, job)
    place = open_[0] if open_ is not None else carrier_for(state, job, binds[0].pod)
    before = journal_of(open_[1]) if open_ is not None else None
    pods = dict(before.pods) if before is not None else {}
    for bind in binds:
        pods[bind.key.partition("/")[2]] = Entry(bind.node, bind.uid[:UID_PART], dict(bind.notes))
    group = state.objects["PodGroup"].get(job.key)
    about = group if isinstance(group, PodGroup) else None
    return BindCommit(tuple(binds), job.key, place, encode(Journal(holder=holder, at=now, pods=pods)), about)


def by_claimer(plan: Plan, state: State) -> dict[str, list[Eviction]]:
    """Job → the evictions for it. A gang that is undone is its own claimer."""
    found: dict[str, list[Eviction]] = {}
    for eviction in plan.evictions:
        task = state.tasks.get(eviction.by or eviction.pod)
        job = task.job.key if task is not None and task.job is not None else eviction.by
        found.setdefault(job, []).append(eviction)
    return found


def _removals(plan: Plan, state: State) -> list[EvictionCommit]:
    made = []
    spaces = {key.partition("/")[0] for key in state.objects["PodDisruptionBudget"]} if plan.evictions else set()
    for job, evictions in by_claimer(plan, state).items():
        victims = tuple((e, state.tasks[e.pod].pod) for e in evictions)
        claimers = dict.fromkeys(e.by for e in evictions if e.by in state.tasks)
        groups = {}
        for key in (*claimers, *(e.pod for e in evictions)):
            member = state.tasks[key].job
            group = state.objects["PodGroup"].get(member.key) if member is not None else None
            if isinstance(group, PodGroup):
                groups[key] = group
        # The eviction of a single pod is its own trial, unless a budget would count it (see `Writes.evict`).
        tried = len(evictions) > 1 or evictions[0].pod.partition("/")[0] in spaces
        made.append(EvictionCommit(job, tuple(state.tasks[by].pod for by in claimers), victims, groups, tried))
    return made
