"""The properties of evictions, checked on a played scenario (spec volcano.md §12).

The checks read the objects and the plans only. Where the spec leaves a choice, they accept every reading of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from oracles.eviction_budgets import allowances, uses
from oracles.eviction_model import Gang, Member, World
from oracles.eviction_needs import check_needs
from oracles.eviction_runner import Fault, Played, Step, final_world, steps
from oracles.eviction_search import misses
from oracles.eviction_shares import plugins_of, queue_allows, within_share

# Kinds that are counted but are no fault of a property: what enqueue may hold back because other admitted jobs reserve
# it, gangs beyond the size that must be decided, and the order of preference among victims.
COUNTED_ONLY = ("P5 allocate at enqueue", "beyond", "R2 preference")
MOST_SETTLING = 120  # cycles that any of these small clusters may need


def check(played: Played) -> list[Fault]:
    if played.result is None:
        return [Fault("P4 endless", played.error)]
    walked = steps(played)
    faults = [*_settled(played), *_mutual(walked), *_second_claims(walked), *_useless(walked)]
    for step in walked:
        faults += check_step(step, played.scenario.config, walked[0].before)
        faults += check_needs(step, walked[0].before, played.scenario.config)
    return faults + _impossible(played, walked)


def _impossible(played: Played, walked: list[Step]) -> list[Fault]:
    """5: what is pending at the end cannot be placed. A run that did not settle has no end."""
    if played.result is None or not played.result.summary.settled:
        return []
    found, played.asked, played.undecided = misses(final_world(played), walked[0].before, played.scenario.config)
    return [Fault(kind, text) for kind, text in found]


def check_step(step: Step, config: dict[str, Any], first: World | None = None) -> list[Fault]:
    """3: the protections, in one cycle. `first`: the cluster of the input, if it is not this one."""
    return [*_gangs(step), *_protections(step, config), *_queues(step), *_budgets(step, first or step.before)]


# --- 1 and 4: the run


def _settled(played: Played) -> Iterator[Fault]:
    result = played.result
    assert result is not None
    if not result.summary.settled:
        yield Fault("P1 unsettled", "; ".join(result.summary.warnings)[:200])
    elif result.cycles > MOST_SETTLING:
        yield Fault("P4 many cycles", f"{result.cycles} cycles")
    for pod, reason in result.pending.items():
        if "being released" in reason and pod not in result.pipelined:
            yield Fault("P1 reason", f"{pod}: {reason}")
    for pod, node in result.pipelined.items():
        yield Fault("P1 pipelined", f"{pod} waits for {node} at the end")


def _mutual(walked: list[Step]) -> Iterator[Fault]:
    pairs: Counter[tuple[str, str]] = Counter()
    for step in walked:
        for claim in step.claims:
            for victim in claim.victims:
                pairs[claim.job, step.before.members[victim].job] += 1
    for (one, other), count in pairs.items():
        if one < other and pairs.get((other, one)):
            yield Fault("P4 mutual", f"{one} and {other} evicted each other ({count} and {pairs[other, one]} pods)")


def _second_claims(walked: list[Step]) -> Iterator[Fault]:
    """A pod that is promised capacity makes no second claim."""
    claimed: dict[tuple[str, str], int] = {}
    for i, step in enumerate(walked):
        for claim in step.claims:
            for by in dict.fromkeys(claim.by):
                member = step.before.members.get(by)
                if member is None:
                    continue
                first = claimed.get((by, member.uid), step.number)
                claimed[by, member.uid] = step.number
                job = step.before.jobs[member.job]
                if first != step.number and not _taken(walked[first:i], walked[first - 1], job):
                    yield Fault("P4 second claim", f"{by} claimed in cycle {first} and again in cycle {step.number}")


# --- 2: every eviction is useful


def _useless(walked: list[Step]) -> Iterator[Fault]:
    for i, step in enumerate(walked):
        for claim in step.claims:
            job = step.before.jobs.get(claim.job)
            if job is None:
                yield Fault("P2 no claimer", f"cycle {step.number}: {claim.victims} evicted for {claim.by}")
                continue
            if job.complete(step.after.jobs[claim.job].of("placed")):
                claimers = [step.before.members[by] for by in dict.fromkeys(claim.by)]
                unbound = [member.key for member in claimers if not _bound_later(walked[i:], member)]
            else:
                later = (s.after.jobs[claim.job] for s in walked[i:] if claim.job in s.after.jobs)
                unbound = [] if any(j.complete(j.of("placed")) for j in later) else [claim.job]
            if unbound and not _taken(walked[i + 1 :], step, job):
                text = f"cycle {step.number}: {claim.rule} of {claim.victims} for {unbound}, never bound"
                yield Fault("P2 useless", text)


def _bound_later(walked: list[Step], member: Member) -> bool:
    for step in walked:
        now = step.before.members.get(member.key)
        if member.key in step.cycle.plan.binds and now is not None and now.uid == member.uid:
            return True
    return False


def _taken(walked: list[Step], step: Step, job: Gang) -> bool:
    """Did a pod that may preempt the claimer take its promise?"""
    nodes = {node for key, node in step.cycle.plan.pipelined.items() if key in {m.key for m in job.members}}
    for later in walked:
        for pod, node in later.cycle.plan.binds.items():
            other = later.before.jobs[later.before.members[pod].job]
            if node in nodes and other.queue == job.queue and other.priority > job.priority:
                return True
    return False


# --- 3: protections


def _gangs(step: Step) -> Iterator[Fault]:
    for key, job in step.before.jobs.items():
        had, kept = job.of("placed"), step.after.jobs[key].of("placed")
        if kept and not job.complete(kept):
            if job.complete(had):
                yield Fault("P3 partial gang", f"cycle {step.number}: {key} keeps {len(kept)} of {len(had)} pods")
            elif len(kept) < len(had):
                yield Fault("P3 partial gang", f"cycle {step.number}: {key}, below its minimum, loses only a part")
            elif not had:
                yield Fault("P3 partial gang", f"cycle {step.number}: {key} starts below its minimum")
        if job.size and kept:
            before, after = Counter(m.part for m in had), Counter(m.part for m in kept)
            for part, count in before.items():
                if count >= job.size and 0 < after[part] < job.size:
                    yield Fault("P3 partial sub-group", f"cycle {step.number}: {part} of {key} keeps {after[part]}")


def _protections(step: Step, config: dict[str, Any]) -> Iterator[Fault]:
    conformance = "conformance" in plugins_of(config)
    at = f"cycle {step.number}:"
    for claim in step.claims:
        claimer = step.before.jobs.get(claim.job)
        if claimer is None:
            continue
        priority = max([step.before.members[by].priority for by in claim.by], default=0)
        priority = max([priority, *(m.priority for m in step.claimed(claim))])
        for key in claim.victims:
            victim = step.before.members[key]
            job = step.before.jobs[victim.job]
            if not victim.preemptable or (victim.critical and conformance):
                yield Fault("P3 protected pod", f"{at} {key} evicted for {claim.job}")
            if (claim.rule == "preempt") != (job.queue == claimer.queue):
                yield Fault("P3 wrong queue", f"{at} {claim.rule} of {key} ({job.queue}) for {claimer.queue}")
            if claim.rule != "preempt":
                continue
            below = victim.priority < priority and (job.key == claim.job or job.priority < claimer.priority)
            if not below:
                text = f"{key} ({job.priority}, pod {victim.priority}) for {claim.job} ({claimer.priority}, {priority})"
                yield Fault("P3 priority", f"{at} {text}")


def _budgets(step: Step, first: World) -> Iterator[Fault]:
    allowed = allowances(step.before, first)
    gone = [step.before.members[v] for claim in step.claims for v in claim.victims]
    for budget, count in uses(step.before, gone).items():
        if count > allowed[budget]:
            yield Fault("P3 budget", f"cycle {step.number}: {count} disruptions, {allowed[budget]} allowed by {budget}")


def _queues(step: Step) -> Iterator[Fault]:
    gone: list[str] = []
    for claim in step.claims:
        claimer = step.before.jobs.get(claim.job)
        if claimer is None:
            continue
        pods = step.claimed(claim)
        why = within_share(step.before, step.shares, step.cycle.plan, claimer, claim.rule, step.surely_claimed(claim))
        if why:
            yield Fault("P3 claimer above its share", f"cycle {step.number}: {why}")
        if claim.rule == "reclaim":
            asked = {name for m in pods or claimer.of("waiting") for name in m.request}
            for why in queue_allows(step.before, step.shares, step.cycle.plan, gone, claim.victims, asked):
                yield Fault("P3 queue below deserved", f"cycle {step.number}: {why} (for {claim.job})")
        gone += claim.victims
