"""When the job is expected to run: a simulation in virtual time in which running pods end after their known durations.

A duration is known from the pod's annotation `muster.io/run-seconds` (the embedded kubelet reads it), from
`runningEstimate` of its Volcano Job, or from `activeDeadlineSeconds` of the pod or of its Job, which is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from msgspec.structs import replace as struct_replace

from muster.cluster.kubelet import RUN_SECONDS
from muster.engine.core.state import Objects
from muster.groups.applications import owner_ref
from muster.model import volcano_job
from muster.model.batch import Job
from muster.model.core import Pod
from muster.model.meta import Object, timestamp
from muster.model.pod_states import is_finished, is_terminating
from muster.sim.ask.answer import Start
from muster.sim.ask.trial import Asked
from muster.sim.durations import seconds_of

__all__ = ["expected_start"]


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
