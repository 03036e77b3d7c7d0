"""The question: the first answer, then the proposals one after the other, the least costly kind of change first.

When the job is expected to run is found by a simulation in virtual time in which running pods end after their known
durations. A duration is known from the pod's annotation `muster.io/run-seconds` (the embedded kubelet reads it), from
`runningEstimate` of its Volcano Job, or from `activeDeadlineSeconds` of the pod or of its Job, which is an upper bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from msgspec.structs import replace as struct_replace

from muster.cluster.kubelet import RUN_SECONDS
from muster.engine.core.state import Objects
from muster.groups.applications import owner_ref
from muster.model import volcano_job
from muster.model.batch import Job
from muster.model.core import Pod
from muster.model.finding import InputError
from muster.model.meta import Object, timestamp
from muster.model.pod_states import is_finished, is_terminating
from muster.sim.ask.answer import (
    FEWER_PODS,
    MORE_QUOTA_AND_NODES,
    NEVER,
    RUNS_AFTER_EVICTIONS,
    RUNS_AFTER_RELEASES,
    RUNS_NOW,
    RUNS_PARTLY,
    WAITS,
    Answer,
    FirstAnswer,
    Proposal,
    Start,
)
from muster.sim.ask.evictions import evictions, for_the_job, named
from muster.sim.ask.fewer_pods import fewer_pods, sizes
from muster.sim.ask.more_nodes import cheapest_nodes, more_nodes, nodes_proposal, with_copies
from muster.sim.ask.more_quota import QuotaSearch, more_quota, quota_proposal
from muster.sim.ask.other_queue import other_queue
from muster.sim.ask.trial import Asked, Trial
from muster.sim.durations import seconds_of

__all__ = ["Question", "expected_start"]


class Question:
    """Will this job run on this cluster now? `first` answers at once, `proposals` searches for changes."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.notes: list[str] = []
        self._trial = asked.try_now()
        if not self._trial.tasks and not self._trial.reasons:
            raise InputError(
                "the job has no pods for this scheduler: give a workload or pods, and look at schedulerName"
                " (--scheduler-name)"
            )
        if self._trial.gated:
            self.notes.append(f"not counted: {_pods(self._trial.gated)} with scheduling gates")
        self.first = self._first()

    @property
    def warnings(self) -> list[str]:
        return self._trial.result.summary.warnings

    def count_trials(self, report: Callable[[int], None]) -> None:
        """Calls `report` with the number of simulations from now on, before each."""
        numbers = itertools.count(1)
        self.asked = replace(self.asked, on_trial=lambda: report(next(numbers)))

    def _first(self) -> FirstAnswer:
        trial = self._trial
        if trial.runs:
            everything = "all " if len(trial.binds) > 1 else ""
            return _answer(RUNS_NOW, f"Yes, {everything}{_pods(len(trial.binds))} can run now.", trial)
        if trial.result.evictions or trial.promised:
            later = self.asked.try_until_settled()
            victims = for_the_job(later)
            if later.runs and victims:
                text = f"Yes, after {_pods(len(victims), 'eviction')}: {named(victims)}."
                return _answer(RUNS_AFTER_EVICTIONS, text, later)
            if later.runs:
                return _answer(RUNS_AFTER_RELEASES, "Yes, when pods that are terminating have ended.", later)
        total = len(trial.binds) + len(trial.reasons)
        why = _main_reason(trial)
        if trial.runs_partly:
            text = f"In part: {len(trial.binds)} of {_pods(total)} can run now. {why}"
            return _answer(RUNS_PARTLY, text, trial)
        return _answer(WAITS, f"No, it waits. {why}", trial)

    def proposals(self) -> Iterator[Proposal]:
        """Yields changes that let all pods of the job run now, each verified by a simulation."""
        if self.first.code not in (WAITS, RUNS_PARTLY):
            return
        found = set()
        for proposal in self._single_changes():
            found.add(proposal.code)
            yield proposal
        if found <= {FEWER_PODS} and len(self._queues) == 1:
            yield from self._quota_and_nodes(*self._queues)

    def _single_changes(self) -> Iterator[Proposal]:
        asked, trial = self.asked, self._trial
        state = trial.result.state
        if next(sizes(asked.job), None) is None:
            kinds = ", ".join(sorted(kind for kind, of_kind in asked.job.items() if of_kind))
            self.notes.append(f"fewer pods were not tried: muster does not know where {kinds} has its number of pods")
        yield from fewer_pods(asked)
        yield from other_queue(asked, state, self._queues)
        for queue in sorted(self._queues):
            yield from more_quota(asked, state, queue, trial.tasks)
        yield from evictions(asked)
        yield from more_nodes(asked, trial.tasks, self._size, self._others)

    def _quota_and_nodes(self, queue: str) -> Iterator[Proposal]:
        """Yields quota and nodes together, where one of them alone is not enough."""
        asked, state, tasks = self.asked, self._trial.result.state, self._trial.tasks
        search = QuotaSearch(asked, state, queue, tasks)
        fields = search.everything()
        if not fields:
            return
        for template, count in cheapest_nodes(search.largest(fields), tasks, self._size, self._others):
            grown = with_copies(asked, template, count)
            search = QuotaSearch(grown, state, queue, tasks)
            quota = quota_proposal(grown, search, search.smallest(fields, lambda tried: tried.try_now().runs))
            nodes = nodes_proposal(template, count)
            text, change = f"{nodes.text} {quota.text}", {**nodes.change, **quota.change}
            yield Proposal(MORE_QUOTA_AND_NODES, text, change, quota.patches)
            return

    @property
    def _queues(self) -> set[str]:
        return {group.queue for group in self._trial.groups}

    @property
    def _size(self) -> int:
        return len(self._trial.binds) + len(self._trial.reasons)

    @property
    def _others(self) -> int:
        """The number of pods of other jobs that wait."""
        state, ours = self._trial.result.state, {task.key for task in self._trial.tasks}
        return sum(1 for key, task in state.tasks.items() if state.needs_node(task) and key not in ours)

    def answer(self, *, when: bool = False) -> Answer:
        """Returns everything at once."""
        found = list(self.proposals())
        return self.complete(found, when=when)

    def complete(self, found: list[Proposal], *, when: bool = False, searched: bool = True) -> Answer:
        """Returns the answer with the proposals that were found; `searched`: whether they were searched for."""
        first = self.first
        if first.code == WAITS and searched and not found:
            first.code = NEVER
            first.text = f"{first.text} No change that was tried lets it run."
        start = expected_start(self.asked) if when and first.code != RUNS_NOW else None
        return Answer(first, found, start, self.notes, self.warnings)


def _answer(code: str, text: str, trial: Trial) -> FirstAnswer:
    return FirstAnswer(code, text, trial.groups, trial.binds, trial.reasons, for_the_job(trial))


def _main_reason(trial: Trial) -> str:
    """Returns the reason that most pods have, with the first of these pods."""
    pods: dict[str, list[str]] = {}
    for pod, reason in sorted(trial.reasons.items()):
        pods.setdefault(reason, []).append(pod)
    why = max(pods, key=lambda reason: len(pods[reason]))
    return f"{pods[why][0]}: {why}"


def _pods(count: int, what: str = "pod") -> str:
    return f"{count} {what}{'s'[: count != 1]}"


def expected_start(asked: Asked) -> Start:
    """Simulates until nothing changes, and finds the cycle in which the last pod of the job was bound."""
    cluster, unknown, bounds = _with_durations(asked.cluster)
    trial = replace(asked, cluster=cluster, job=_with_durations(asked.job)[0]).try_until_settled()
    times = {pod: record.time for record in trial.result.history for pod in record.binds}
    ours = [times[task.key] for task in trial.tasks if task.key in times]
    missing = f"{unknown} running pod{'s'[: unknown != 1]} without a known duration"
    if trial.reasons or not ours:
        ended = f" before one of {missing} ends" if unknown else ", although the duration of every running pod is known"
        return Start(None, None, unknown, f"No start is expected{ended}.")
    at = max(ours)
    after = max(at - asked.now, 0.0)
    latest = " at the latest (activeDeadlineSeconds is an upper bound)" if bounds and after else ""
    rest = f"; {missing} {'are' if unknown != 1 else 'is'} taken to run on" if unknown else ""
    when = "now" if not after else f"{timestamp(at)}, in {_length(after)}"
    return Start(at, after, unknown, f"Expected start: {when}{latest}{rest}.")


def _with_durations(objects: Objects) -> tuple[dict[str, dict[str, Object]], int, bool]:
    """Returns the objects with durations as annotations; how many running pods have none; and whether upper bounds
    were used."""
    found = {kind: dict(of_kind) for kind, of_kind in objects.items()}
    unknown, bounded = 0, False
    for key, pod in objects.get("Pod", {}).items():
        assert isinstance(pod, Pod)
        if RUN_SECONDS in pod.metadata.annotations or is_finished(pod) or is_terminating(pod):
            continue
        duration, is_bound = next(_durations(objects, pod), (None, False))
        if duration is not None:
            bounded = bounded or is_bound
            notes = {**pod.metadata.annotations, RUN_SECONDS: f"{duration:g}"}
            found["Pod"][key] = struct_replace(pod, metadata=struct_replace(pod.metadata, annotations=notes))
        elif pod.spec.node_name:
            unknown += 1
    return found, unknown, bounded


def _durations(objects: Objects, pod: Pod) -> Iterator[tuple[float, bool]]:
    """Yields the duration of a pod in seconds from each source, and whether it is only an upper bound."""
    owner = owner_ref(pod)
    above = None if owner is None else objects.get(owner[0], {}).get(owner[1])
    if isinstance(above, volcano_job.Job) and above.spec.running_estimate:
        with suppress(ValueError):
            yield seconds_of(above.spec.running_estimate), False
    if pod.spec.active_deadline_seconds is not None:
        yield float(pod.spec.active_deadline_seconds), True
    if isinstance(above, Job) and above.spec.active_deadline_seconds is not None:
        yield float(above.spec.active_deadline_seconds), True


def _length(seconds: float) -> str:
    """Returns a length of time in its two largest units."""
    whole = round(seconds)
    parts = [(whole // size, unit) for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))]
    limits = (None, 24, 60, 60)
    shown = [f"{n if limit is None else n % limit} {unit}" for (n, unit), limit in zip(parts, limits, strict=True)
             if (n if limit is None else n % limit)]  # fmt: skip
    return " ".join(shown[:2]) or "less than 1 s"
