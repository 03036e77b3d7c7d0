"""Computes from the events of pods how sound the evictions of a run were, and compares that with the limits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

CREATED, BOUND, TERMINATING, GONE = "created", "bound", "terminating", "gone"

LONGEST_PARTIAL_S = 2.0
USEFUL_WITHIN_S = 30.0
USEFUL_SHARE = 0.99
LONGEST_PLAIN_WAIT_S = 10.0
CPU_PER_BINDING_MS = 4.0
CALLS_PER_BINDING = 3.5


class PodEvent(NamedTuple):
    """One step in the life of a pod. `job` is its gang; a plain pod is its own job."""

    at: float  # seconds since the run began
    what: str
    pod: str
    job: str
    by: str = ""  # of an eviction: the pod that it was made for; empty for any other deletion
    rule: str = ""


@dataclass
class Run:
    """What was observed. A pod name is used once: a replacement of an evicted pod has a name of its own."""

    events: list[PodEvent] = field(default_factory=list)  # in the order of the watch
    minimum: dict[str, int] = field(default_factory=dict)  # gang → minMember
    finished: dict[str, float] = field(default_factory=dict)  # job → when the load generator began to delete it
    urgent: set[str] = field(default_factory=set)  # plain pods of the highest priority
    cycles: dict[str, int] = field(default_factory=dict)  # victim → the cycle that evicted it, from the log
    end: float = 0.0
    cpu_s: float = 0.0  # of the scheduler process
    calls: int = 0  # of the scheduler to the API server, evictions excepted


class Partial(NamedTuple):
    gang: str
    since: float
    seconds: float
    bound: int
    minimum: int


class Mutual(NamedTuple):
    """Two jobs that evicted each other; how far apart the first evictions in each direction were."""

    jobs: tuple[str, str]
    seconds_apart: float


@dataclass
class Findings:
    bindings: int = 0
    evictions: int = 0
    evictions_by_rule: dict[str, int] = field(default_factory=dict)
    evictions_for_nobody: int = 0
    unlogged_evictions: int = 0
    unexplained_deletions: int = 0
    unjudged_evictions: int = 0
    """Made less than 30 s before the end, for a pod that still waits."""
    useful_share: float = 1.0
    partial: list[Partial] = field(default_factory=list)
    """Longer than the limit, the longest first."""
    longest_partial_s: float = 0.0
    mutual: list[Mutual] = field(default_factory=list)
    second_claims: dict[str, list[int]] = field(default_factory=dict)
    """Pod → the cycles in which pods were evicted for it, if more than one."""
    plain_pods: int = 0
    plain_pods_late: int = 0
    longest_plain_wait_s: float = 0.0
    cpu_ms_per_binding: float = 0.0
    calls_per_binding: float = 0.0


def findings(run: Run) -> Findings:
    evictions = [event for event in run.events if event.what == TERMINATING and event.by]
    bound = {event.pod: event.at for event in run.events if event.what == BOUND}
    found = Findings(
        bindings=len(bound), evictions=len(evictions), evictions_by_rule=dict(Counter(e.rule for e in evictions))
    )
    history = _history(run)
    partial = sorted(_partial(run, history), key=lambda one: -one.seconds)
    found.longest_partial_s = round(partial[0].seconds, 2) if partial else 0.0
    found.partial = [one for one in partial if one.seconds > LONGEST_PARTIAL_S]
    job_of = {event.pod: event.job for event in run.events}
    found.evictions_for_nobody = sum(event.by not in job_of for event in evictions)
    found.unlogged_evictions = sum(event.by in job_of and event.pod not in run.cycles for event in evictions)
    found.unexplained_deletions = sum(
        event.what == TERMINATING and not event.by and event.at < run.finished.get(event.job, run.end)
        for event in run.events
    )
    found.mutual = _mutual(evictions, job_of)
    found.second_claims = _second_claims(run, evictions)
    verdicts = [_is_useful(run, event, bound, history, job_of) for event in evictions]
    found.unjudged_evictions = verdicts.count(None)
    judged = [verdict for verdict in verdicts if verdict is not None]
    found.useful_share = sum(judged) / len(judged) if judged else 1.0
    waits = [
        min(bound.get(event.pod, run.end), run.end) - event.at
        for event in run.events if event.what == CREATED and event.pod in run.urgent
    ]  # fmt: skip
    found.plain_pods = len(waits)
    found.plain_pods_late = sum(wait > LONGEST_PLAIN_WAIT_S for wait in waits)
    found.longest_plain_wait_s = round(max(waits, default=0.0), 2)
    found.cpu_ms_per_binding = round(1000 * run.cpu_s / max(len(bound), 1), 2)
    found.calls_per_binding = round(run.calls / max(len(bound), 1), 2)
    return found


def faults(found: Findings, *, cpu: bool = True) -> list[str]:
    """The requirements that the run does not meet; `cpu`: also the one on CPU time, which depends on the machine."""
    cheap = not cpu or found.cpu_ms_per_binding <= CPU_PER_BINDING_MS
    limits = (
        (not found.partial, f"{len(found.partial)} times a gang was partial for more than {LONGEST_PARTIAL_S:g} s, "
                            f"at most {found.longest_partial_s:g} s: {found.partial[:3]}"),
        (not found.mutual, f"{len(found.mutual)} pairs of jobs evicted each other: {found.mutual[:3]}"),
        (not found.second_claims, f"{len(found.second_claims)} pods were claimed for a second time: "
                                  f"{dict(list(found.second_claims.items())[:3])}"),
        (found.useful_share >= USEFUL_SHARE, f"{found.useful_share:.2%} of the evictions were followed by the "
                                             f"claimer's binding within {USEFUL_WITHIN_S:g} s, {USEFUL_SHARE:.0%} "
                                             "are required"),
        (not found.plain_pods_late, f"{found.plain_pods_late} of {found.plain_pods} plain pods of the highest priority "
                                    f"waited longer than {LONGEST_PLAIN_WAIT_S:g} s, at most "
                                    f"{found.longest_plain_wait_s:g} s"),
        (cheap, f"{found.cpu_ms_per_binding:g} ms of CPU per bound pod, {CPU_PER_BINDING_MS:g} are allowed"),
        (found.calls_per_binding <= CALLS_PER_BINDING, f"{found.calls_per_binding:g} API calls per bound pod, "
                                                       f"{CALLS_PER_BINDING:g} are allowed"),
        (not found.unlogged_evictions, f"the scheduler's log does not name the cycle of {found.unlogged_evictions} "
                                       "evictions, so second claims cannot be found"),
        (not found.unexplained_deletions, f"{found.unexplained_deletions} pods were deleted, and no annotation says "
                                          "for whom"),
    )  # fmt: skip
    return [text for met, text in limits if not met]


def claims_in(log: Iterable[Mapping[str, object]]) -> dict[str, int]:
    """Victim → cycle. The scheduler logs a cycle, then the evictions that it decided."""
    found: dict[str, int] = {}
    number = 0
    for entry in log:
        if entry.get("msg") == "cycle":
            number = int(str(entry["number"]))
        elif entry.get("msg") == "evict":
            found[str(entry["pod"]).rpartition("/")[2]] = number
    return found


def _history(run: Run) -> dict[str, list[tuple[float, int]]]:
    """Gang → (time, how many of its pods are bound and not terminating), at every change."""
    alive: dict[str, set[str]] = defaultdict(set)
    found: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for event in run.events:
        if event.job not in run.minimum or event.what == CREATED:
            continue
        pods = alive[event.job]
        if event.what == BOUND:
            pods.add(event.pod)
        else:
            pods.discard(event.pod)
        found[event.job].append((event.at, len(pods)))
    return found


def _partial(run: Run, history: Mapping[str, Sequence[tuple[float, int]]]) -> Iterable[Partial]:
    for gang, changes in history.items():
        minimum, end = run.minimum[gang], run.finished.get(gang, run.end)
        since: float | None = None
        fewest = 0
        for at, count in [*changes, (end, 0)]:
            at = min(at, end)
            if 0 < count < minimum:
                since, fewest = (at, count) if since is None else (since, min(fewest, count))
            elif since is not None:
                yield Partial(gang, round(since, 2), round(at - since, 3), fewest, minimum)
                since = None


def _mutual(evictions: Iterable[PodEvent], job_of: Mapping[str, str]) -> list[Mutual]:
    first: dict[tuple[str, str], float] = {}
    for event in evictions:
        claimer = job_of.get(event.by)
        if claimer is not None and claimer != event.job:
            first.setdefault((claimer, event.job), event.at)
    pairs = sorted(pair for pair in first if pair[0] < pair[1] and pair[::-1] in first)
    return [Mutual(pair, round(abs(first[pair] - first[pair[::-1]]), 1)) for pair in pairs]


def _second_claims(run: Run, evictions: Iterable[PodEvent]) -> dict[str, list[int]]:
    cycles: dict[str, set[int]] = defaultdict(set)
    for event in evictions:
        if event.pod in run.cycles:
            cycles[event.by].add(run.cycles[event.pod])
    return {pod: sorted(numbers) for pod, numbers in cycles.items() if len(numbers) > 1}


def _is_useful(
    run: Run, event: PodEvent, bound: Mapping[str, float], history: Mapping[str, Sequence[tuple[float, int]]],
    job_of: Mapping[str, str],
) -> bool | None:  # fmt: skip
    """Whether the claimer is bound in time. For a gang below its minimum: whether the gang reaches its minimum."""
    last = event.at + USEFUL_WITHIN_S
    if event.by in bound and bound[event.by] <= last:
        return True
    job = job_of.get(event.by, "")
    changes, minimum = history.get(job, ()), run.minimum.get(job, 0)
    before = next((count for at, count in reversed(changes) if at <= event.at), 0)
    if before < minimum and any(event.at < at <= last and count >= minimum for at, count in changes):
        return True
    return None if job and last > run.end else False
