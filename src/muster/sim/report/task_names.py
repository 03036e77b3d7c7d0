"""The queue and the group of a pod, as reports and tables name them, and the marks of queues."""

from __future__ import annotations

from collections.abc import Sequence

from muster.engine.core.jobs import Task
from muster.engine.core.podgroups import group_name
from muster.model.natural_order import natural
from muster.sim.report.elements import hue, letters
from muster.sim.result import Result


def queue_of(task: Task | None) -> str:
    """Returns the queue of a pod; "" if another scheduler schedules it."""
    return task.job.queue_name if task is not None and task.job is not None else ""


def group_of(task: Task | None) -> str:
    """Returns the PodGroup that a pod names; "" if it names none."""
    if task is None or task.job is None or (not task.job.native and task.job.name == group_name(task.pod)):
        return ""
    return task.job.name


class QueueMarks:
    """A letter and a colour for each queue of a run, the same in all views."""

    def __init__(self, result: Result) -> None:
        jobs = result.state.jobs.values()
        self.queues: Sequence[str] = sorted(
            {*result.summary.queues, *(job.queue_name for job in jobs if job.tasks)}, key=natural
        )
        self._letters = letters(self.queues)
        self._hues = {name: hue(i) for i, name in enumerate(self.queues)}

    def kind(self, queue: str) -> str:
        """Returns the class of the queue's colour."""
        return self._hues.get(queue, "other")

    def letter(self, queue: str) -> str:
        """Returns the letter of the queue; a dot for pods of other schedulers."""
        return self._letters.get(queue, "·")

    def letter_box(self, queue: str) -> str:
        return f'<b class="letter {self.kind(queue)}">{self.letter(queue)}</b>'
