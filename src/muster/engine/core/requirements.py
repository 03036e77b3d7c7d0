"""What objects ask of a plugin, whether or not it is configured.

A plugin says in `Plugin.required_by` which objects of a cluster ask for something that only it provides. `cycle` holds
that against the configuration, so that no requirement is silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.state import State

__all__ = ["Requirement", "about", "waiting"]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One object's requirement. A soft one is a preference: without the plugin the result is only less good."""

    object: str  # "PodGroup ns/name"
    text: str  # "requires node group a"
    hard: bool
    switch: str = ""  # the key that turns off the part of the plugin that provides it


def about(job: Job, state: State) -> str:
    """The object that a finding about a job names: its PodGroup, else its first pod."""
    written = job.key in state.objects["PodGroup"] or not job.tasks
    return f"PodGroup {job.key}" if written else f"Pod {min(job.tasks)}"


def waiting(state: State) -> Iterator[Task]:
    """The pods that this scheduler is to find a node for."""
    return (task for task in state.tasks.values() if task.status == Status.PENDING and task.job is not None)
