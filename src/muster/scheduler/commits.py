"""Groups the bindings and evictions of a plan into commits for the binder, with the uids of the pods that were decided
on.

The commits are made in the cycle thread from the plan and its state; the binder needs nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from muster.engine.core.jobs import Job
from muster.engine.core.plan import Eviction, Plan, PodReason
from muster.engine.core.state import State
from muster.model.core import Pod
from muster.model.scheduling import PodGroup
from muster.scheduler.journal import NO_JOURNALS, UID_PREFIX_CHARS, Entry, Journal, TooLarge, encode

# The predicates plugin refuses such pods; this is the check where it is not configured.
NO_CLAIMS = "muster does not allocate spec.resourceClaims"


@dataclass(frozen=True, slots=True)
class PodBinding:
    """One binding, with what is written before and with it."""

    pod: Pod
    key: str
    uid: str
    node: str
    annotations: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[tuple[str, Mapping[str, str]], ...] = ()  # claim → volumeName or selectedNode


class BindCommit(Struct, frozen=True):
    """Bindings that belong together; the first binding of a gang writes the journal."""

    bindings: tuple[PodBinding, ...]
    group: str = ""  # the gang
    journal: str = ""
    pod_group: PodGroup | None = None  # gets one event for all bindings


@dataclass(frozen=True, slots=True)
class EvictionCommit:
    """All evictions for one job: if one of them is refused, none is carried out."""

    claimer: str  # the job
    claimer_pods: tuple[Pod, ...]  # its pods that get the capacity
    victims: tuple[tuple[Eviction, Pod], ...]
    group_of: Mapping[str, PodGroup] = field(default_factory=dict)  # pod → its group, where that is an object
    tried: frozenset[str] = frozenset()  # the victims whose eviction is tried with dryRun first


@dataclass(slots=True)
class Commits:
    bindings: list[BindCommit] = field(default_factory=list)
    evictions: list[EvictionCommit] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)  # pod → why it cannot be bound at all


def commits_of(
    plan: Plan, state: State, holder: str, now: float, unfinished: Mapping[str, Journal] = NO_JOURNALS
) -> Commits:
    """Returns the plan's commits. Call it before the plan is assumed.

    `unfinished`: gang → the journal of an earlier commit that is incomplete.
    """
    commits = Commits()
    gangs: dict[str, list[PodBinding]] = {}
    for key, node in plan.binds.items():
        task = state.tasks[key]
        binding = PodBinding(task.pod, key, task.uid, node, plan.annotations_of(key), plan.claims_of(key))
        job = task.job
        if job is not None and _needs_journal(job):
            gangs.setdefault(job.key, []).append(binding)
        elif task.pod.spec.resource_claims:
            commits.errors[key] = NO_CLAIMS
        else:
            commits.bindings.append(BindCommit((binding,)))
    for key, bindings in gangs.items():
        if any(binding.pod.spec.resource_claims for binding in bindings):
            commits.errors.update((binding.key, NO_CLAIMS) for binding in bindings)
            continue
        try:
            commits.bindings.append(_gang(state, key, bindings, holder, now, unfinished.get(key)))
        except TooLarge as error:
            commits.errors.update((binding.key, str(error)) for binding in bindings)
    commits.evictions = _evictions(plan, state)
    return commits


def _needs_journal(job: Job) -> bool:
    """A gang below its minimum needs one; pods above the minimum are independent of each other."""
    return job.min_available > 1 and job.ready < job.min_available


def _gang(
    state: State, key: str, bindings: list[PodBinding], holder: str, now: float, unfinished: Journal | None
) -> BindCommit:
    """Returns the commit with its journal, which also has the pods of an earlier commit that is incomplete."""
    text = ""
    if len(bindings) > 1:  # a single binding is there or not, without a journal
        pods = dict(unfinished.pods) if unfinished is not None else {}
        pods.update(map(entry_of, bindings))
        first = bindings[0]
        text = encode(
            Journal(holder=holder, at=now, pods=pods), {**first.pod.metadata.annotations, **first.annotations}
        )
    group = state.objects["PodGroup"].get(key)
    return BindCommit(tuple(bindings), key, text, group if isinstance(group, PodGroup) else None)


def entry_of(binding: PodBinding) -> tuple[str, Entry]:
    """Returns the name of the pod and its entry in a journal."""
    entry = Entry(binding.node, binding.uid[:UID_PREFIX_CHARS], dict(binding.annotations))
    return binding.pod.metadata.name, entry


def hold_back(plan: Plan, state: State, committing: Collection[str]) -> set[str]:
    """Removes the bindings of gangs whose commit is being sent from the plan; returns these gangs.

    Whether they need a journal, and which pods it must have, is known when the bindings before them are answered.
    """
    held: dict[str, Job] = {}
    for key in plan.binds if committing else ():
        job = state.tasks[key].job
        if job is not None and job.key in committing:
            held[key] = job
    for key, job in held.items():
        del plan.binds[key]
        plan.effects.pop(key, None)
        plan.reasons[key] = PodReason("committing", "waits for the answers to other bindings of its gang.")
        if plan.phases.get(job.key) == "Running" and job.ready < job.min_available:
            plan.phases[job.key] = "Inqueue"
    return {job.key for job in held.values()}


def by_claimer(plan: Plan, state: State) -> dict[str, list[Eviction]]:
    """Returns job → the evictions for it. The claimer of a gang that is undone is the gang itself."""
    found: dict[str, list[Eviction]] = {}
    for eviction in plan.evictions:
        task = state.tasks.get(eviction.by or eviction.pod)
        job = task.job.key if task is not None and task.job is not None else eviction.by
        found.setdefault(job, []).append(eviction)
    return found


def _evictions(plan: Plan, state: State) -> list[EvictionCommit]:
    commits = []
    with_budgets = {key.partition("/")[0] for key in state.objects["PodDisruptionBudget"]} if plan.evictions else set()
    for job, evictions in by_claimer(plan, state).items():
        victims = tuple((e, state.tasks[e.pod].pod) for e in evictions)
        claimers = dict.fromkeys(e.by for e in evictions if e.by in state.tasks)
        groups = {}
        for key in (*claimers, *(e.pod for e in evictions)):
            member = state.tasks[key].job
            group = state.objects["PodGroup"].get(member.key) if member is not None else None
            if isinstance(group, PodGroup):
                groups[key] = group
        claimer_pods = tuple(state.tasks[by].pod for by in claimers)
        commits.append(EvictionCommit(job, claimer_pods, victims, groups, _tried(state, evictions, with_budgets)))
    return commits


def _tried(state: State, evictions: list[Eviction], with_budgets: set[str]) -> frozenset[str]:
    """Returns the victims whose eviction the API server is asked about before any of them is evicted.

    A budget counts each victim (see `Writes.evict`). Without one, only a permission or an admission webhook can refuse,
    and the pods of a job are alike to them: one is asked about. A single victim is not: its eviction is the answer.
    """
    found: dict[tuple[str, str], str] = {}
    for eviction in evictions:
        task = state.tasks[eviction.pod]
        counted = task.namespace in with_budgets
        job = task.job.key if task.job is not None else task.key
        found.setdefault((task.namespace, task.key if counted else job), task.key)
    single = len(evictions) == 1 and not with_budgets & {state.tasks[evictions[0].pod].namespace}
    return frozenset() if single else frozenset(found.values())
