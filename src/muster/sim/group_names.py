"""The name of a pod's group as users know it: its PodGroup, else its owner, else the pod itself."""

from __future__ import annotations

from muster.engine.core.jobs import Task
from muster.engine.core.podgroups import group_name
from muster.model.meta import controller

__all__ = ["shown_group"]


def shown_group(task: Task) -> str:
    """Returns `namespace/name` of the PodGroup that the pod names or its workload has, else of the controller that
    owns the pod, else of the pod. Pods that name no group have one in memory, whose name users do not know."""
    job = task.job
    if job is not None and (job.native or job.name != group_name(task.pod)):
        return job.shown
    owner = controller(task.pod.metadata)
    return task.key if owner is None else f"{task.namespace}/{owner.name}"
