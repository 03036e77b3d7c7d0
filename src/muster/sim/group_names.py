"""The queue and the group of a pod as users know them: its PodGroup, else its owner, else the pod itself."""

from __future__ import annotations

from muster.engine.core.jobs import Task
from muster.engine.core.podgroups import group_name
from muster.model.meta import controller

__all__ = ["group_of", "queue_of", "shown_group"]


def shown_group(task: Task) -> str:
    """Returns `namespace/name` of the PodGroup that the pod names or its workload has, else of the controller that
    owns the pod, else of the pod. Pods that name no group have one in memory, whose name users do not know."""
    job = task.job
    if job is not None and (job.native or job.name != group_name(task.pod)):
        return job.shown
    owner = controller(task.pod.metadata)
    return task.key if owner is None else f"{task.namespace}/{owner.name}"


def queue_of(task: Task | None) -> str:
    """Returns the queue of a pod; "" if another scheduler schedules it."""
    return task.job.queue_name if task is not None and task.job is not None else ""


def group_of(task: Task | None) -> str:
    """Returns the PodGroup that a pod names; "" if it names none."""
    if task is None or task.job is None or (not task.job.native and task.job.name == group_name(task.pod)):
        return ""
    return task.job.name
