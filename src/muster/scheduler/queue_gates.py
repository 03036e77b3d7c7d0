"""Pods with Volcano's queue-allocation gate: when their queue admits them, they are marked, but not bound.

The API server binds no pod that has a gate, and the scheduler may not change a pod's spec: `muster pod-groups` removes
the gate of a marked pod. Until then the pod is placed in every cycle and its binding withheld, so that no other pod
gets the queue's capacity.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.engine.core.jobs import Job
from muster.engine.core.plan import Plan, PodReason
from muster.engine.core.reading import ADMITTED, waits_for_queue
from muster.engine.core.state import State
from muster.scheduler.status import AdmissionPatch

# Reasons of pods that their queue admits, but that have no node yet.
_ADMITTED = ("unschedulable", "gang", "pipelined")


def withhold_gated(plan: Plan, state: State) -> list[AdmissionPatch]:
    """Removes the bindings of gated pods, and of gangs that are incomplete without them, from the plan; returns the
    patches that mark them as admitted.
    """
    gated = [key for key in plan.binds if waits_for_queue(state.tasks[key].pod)]
    for key in gated:
        _withhold(plan, key)
        job = state.tasks[key].job
        if job is not None and not _is_complete(plan, job):
            for member in [k for k in job.tasks if k in plan.binds]:
                _withhold(plan, member)
            if plan.phases.get(job.key) == "Running":
                plan.phases[job.key] = "Inqueue"
    gated += _without_node(plan, state)
    pods = {key: state.tasks[key].pod for key in gated}
    return [AdmissionPatch(pod, key) for key, pod in pods.items() if ADMITTED not in pod.metadata.annotations]


def _withhold(plan: Plan, key: str) -> None:
    plan.binds.pop(key, None)
    plan.effects.pop(key, None)
    plan.reasons[key] = PodReason("gated", "admitted by its queue; waits until the gates of its group are removed.")


def _is_complete(plan: Plan, job: Job) -> bool:
    """Returns whether the gang reaches its minimum with the remaining bindings."""
    return job.ready + sum(1 for key in job.tasks if key in plan.binds) >= job.min_available


def _without_node(plan: Plan, state: State) -> Iterator[str]:
    for key, reason in plan.reasons.items():
        task = state.tasks.get(key)
        if task is None or not task.pod.spec.scheduling_gates:
            continue
        if reason.code in _ADMITTED and not task.gated and waits_for_queue(task.pod):
            yield key
