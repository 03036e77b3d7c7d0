"""Pods behind Volcano's queue-allocation gate: when their queue has room for them this is said on them, nothing more.

The API server binds no pod that has a gate, and we may not change a pod's spec: `muster pod-groups` opens the gate of a
pod that is marked. Until it is open the pod is placed in every cycle and its binding withheld, so that nobody else gets
the queue's room meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.engine.core.jobs import Job
from muster.engine.core.plan import Plan, PodReason
from muster.engine.core.reading import ADMITTED, waits_for_queue
from muster.engine.core.state import State
from muster.scheduler.status import AdmissionPatch

# Reasons of pods that their queue would have taken: no node does, or not yet.
_ADMITTED = ("unschedulable", "gang", "pipelined")


def admit(plan: Plan, state: State) -> list[AdmissionPatch]:
    """Take the bindings of gated pods, and of the gangs they are missing in, out of the plan; who is to be told."""
    gated = [key for key in plan.binds if waits_for_queue(state.tasks[key].pod)]
    for key in gated:
        _withhold(plan, key)
        job = state.tasks[key].job
        if job is not None and not _whole_without(plan, job):
            for member in [k for k in job.tasks if k in plan.binds]:
                _withhold(plan, member)
            if plan.phases.get(job.key) == "Running":
                plan.phases[job.key] = "Inqueue"
    gated += _refused_by_nodes(plan, state)
    pods = {key: state.tasks[key].pod for key in gated}
    return [AdmissionPatch(pod, key) for key, pod in pods.items() if ADMITTED not in pod.metadata.annotations]


def _withhold(plan: Plan, key: str) -> None:
    plan.binds.pop(key, None)
    plan.effects.pop(key, None)
    plan.reasons[key] = PodReason("gated", "the queue has room; waits for its gate, or one of its group's, to open.")


def _whole_without(plan: Plan, job: Job) -> bool:
    """Does the gang reach its minimum with the bindings that are left?"""
    return job.ready + sum(1 for key in job.tasks if key in plan.binds) >= job.min_available


def _refused_by_nodes(plan: Plan, state: State) -> Iterator[str]:
    for key, reason in plan.reasons.items():
        task = state.tasks.get(key)
        if reason.code in _ADMITTED and task is not None and not task.gated and waits_for_queue(task.pod):
            yield key
