"""Requirements of objects that only one plugin provides, whether or not it is configured.

`Plugin.required_by` returns the objects of a cluster that need the plugin. `cycle` compares them with the
configuration, so that no requirement is silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.state import State

__all__ = ["Requirement", "about", "waiting"]


class Requirement(Struct, frozen=True):
    """One object's requirement. A soft requirement is a preference: without the plugin the result is only worse."""

    object: str  # "PodGroup ns/name"
    text: str  # "requires node group a"
    hard: bool
    switch: str = ""  # the key that turns off the part of the plugin that provides it


def about(job: Job, state: State) -> str:
    """The object that a finding about a job names: its PodGroup, else its first pod."""
    written = state.group_object(job)
    if written is not None:
        return " ".join(written)
    return f"Pod {min(job.tasks)}" if job.tasks else f"PodGroup {job.key}"


def waiting(state: State) -> Iterator[Task]:
    """The pods that this scheduler is to find a node for."""
    return (task for task in state.tasks.values() if task.status == Status.PENDING and task.job is not None)
