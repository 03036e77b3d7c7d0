"""The pods without a node, grouped by cause, the cause with the most pods first."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from muster.model.natural_order import natural
from muster.sim.group_names import queue_of
from muster.sim.report.elements import attribute, empty, html_table, names, shown, without_numbers
from muster.sim.result import Result

MAX_CAUSES = 100
MAX_REASON = 1000  # characters
_GANG = re.compile(r"\s*\d+/\d+ tasks in gang unschedulable: .*", re.DOTALL)


@dataclass(slots=True)
class Cause:
    """A cause: reasons that differ only in numbers, and in the names of the pod and its group."""

    pods: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    queues: set[str] = field(default_factory=set)

    @property
    def example(self) -> str:
        """The reason of the most pods."""
        return min(self.reasons, key=lambda text: (-self.reasons[text], text))


def render(result: Result) -> str:
    """Returns a table with a row for each cause: how many pods, why, which."""
    found = causes(result)
    rows = []
    for cause in found[:MAX_CAUSES]:
        others = len(cause.reasons) - 1
        more = f' <span class="soft">({others:,} more like this, with other numbers)</span>' if others else ""
        queues = ", ".join(f"<span{attribute('queue', name)}>{shown(name)}</span>" for name in sorted(cause.queues)[:8])
        rows.append(
            f'<td class="n">{len(cause.pods):,}</td><td>{shown(cause.example, MAX_REASON)}{more}</td>'
            f"<td>{queues}</td><td>{names(cause.pods)}</td>"
        )
    if not rows:
        return ""
    table = html_table(("pods", "why", "queue", "which"), rows, "Waiting pods by cause")
    left = len(found) - MAX_CAUSES
    return table + (empty(f"and {left:,} causes more; -o json has all") if left > 0 else "")


def causes(result: Result) -> list[Cause]:
    """Returns the causes, that of the most pods first."""
    found: dict[str, Cause] = {}
    known: dict[tuple[str, str], str] = {}
    for pod in sorted(result.pending, key=natural):
        reason = result.pending[pod]
        task = result.state.tasks.get(pod)
        group = task.job.shown if task is not None and task.job is not None else ""
        shape = known.get((reason, group))
        if shape is None or pod in reason:
            shape = known[reason, group] = _shape(reason, pod, group)
        cause = found.setdefault(shape, Cause())
        cause.pods.append(pod)
        cause.reasons[reason] += 1
        if queue := queue_of(task):
            cause.queues.add(queue)
    return sorted(found.values(), key=lambda cause: (-len(cause.pods), natural(cause.pods[0])))


def _shape(reason: str, pod: str, group: str) -> str:
    """Returns what equal causes have in common: the reason without the line about the gang, own names and numbers."""
    text = _GANG.sub("", reason) or reason
    for name in (pod, group):
        text = text.replace(name, "…") if name else text
    return without_numbers(text)
