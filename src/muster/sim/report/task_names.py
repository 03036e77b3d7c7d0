"""The queue and the group of a pod, as reports and tables name them."""

from __future__ import annotations

from muster.engine.core.jobs import Task
from muster.engine.core.podgroups import group_name


def queue_of(task: Task | None) -> str:
    """Returns the queue of a pod; "" if another scheduler schedules it."""
    return task.job.queue_name if task is not None and task.job is not None else ""


def group_of(task: Task | None) -> str:
    """Returns the PodGroup that a pod names; "" if it names none."""
    if task is None or task.job is None or (not task.job.native and task.job.name == group_name(task.pod)):
        return ""
    return task.job.name
