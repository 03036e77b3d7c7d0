"""What is shown now, and where it came from: the rendering, the input for worker processes, and the configurations."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from muster.sim.dashboard.answers import Status, figures
from muster.sim.dashboard.inputs import Input
from muster.sim.dashboard.renderings import Part, Rendering, render
from muster.sim.dashboard.updates import Update, Updates
from muster.sim.inputs import ConfigText
from muster.sim.result import Result

RESULT_S = 0.03
"""How long a change waits for its result before it is announced without one."""


@dataclass(slots=True)
class Display:
    """`publish` and `changed` are called on the event loop. `result` and its state change only in the thread of
    `executor`, which also renders them: so a view never mixes two states."""

    kind: str  # cluster, manifests or replay
    title: str
    configurations: Sequence[ConfigText] = ()
    """The configurations to choose from; the first one decides what is shown."""
    executor: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="result"))
    updates: Updates = field(default_factory=Updates)
    result: Result | None = None
    rendering: Rendering | None = None
    status: Status | None = None
    changes: int = 0
    input_at: Callable[[int | None], tuple[int, Input, int | None]] = field(init=False)
    """Cycle → the version of an input, the input, and the cycle to go to in it; LookupError if it is not kept."""
    clock: Callable[[], float] = time.time

    def publish(self, result: Result, now: float, parts: Mapping[str, Part] | None = None) -> None:
        """Shows this result, which the executor's thread has put into `result`, from now on. `parts` are given where
        that thread has no time to render them later."""
        version = 1 if self.rendering is None else self.rendering.version + 1

        self.rendering = Rendering(version, parts, make=self._render, executor=self.executor)
        shown = figures(result)
        using = str(result.configuration) if result.configuration is not None else ""
        names = [text.source for text in self.configurations]
        warnings = [*result.summary.warnings, *map(str, result.findings)]
        self.status = Status(
            version, self.kind, self.title, now, result.cycles, result.summary.settled, shown, using, names, warnings
        )
        self.updates.put(Update(version, self.changes, now, shown))

    def _render(self, name: str) -> Part:
        assert self.result is not None
        return render(self.result, name)

    def changed(self, count: int = 1) -> None:
        """Counts changes of objects that the next result will contain."""
        self.changes += count
        if self.status is not None:
            update = Update(self.status.version, self.changes, self.clock(), self.status.figures)
            self.updates.put(update, RESULT_S)
