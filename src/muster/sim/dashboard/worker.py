"""Computes explanations, earlier cycles and other configurations in a process of its own, with limits.

A request that takes too long or too much memory ends its process and nothing else. The input is sent once, and again
when it has changed.
"""

from __future__ import annotations

import asyncio
import resource
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from muster.sim.dashboard.answers import encoded
from muster.sim.dashboard.display import RenderedPart, render_all
from muster.sim.dashboard.display import comparison as comparison_html
from muster.sim.dashboard.inputs import ClusterInput, Input
from muster.sim.inputs import ConfigText, default_config, load_config
from muster.sim.report import explanation as explained
from muster.sim.result import Comparison
from muster.sim.sweep.processes import Failure, WorkerProcess

TIMEOUT_S = 120.0
MAX_MEMORY_BYTES = 8 << 30
MAX_WAITING_TASKS = 8
WARM_UP = "warm up"


class Busy(Exception):
    """Too many requests wait for the worker."""


class Failed(Exception):
    """The work failed: bad input, or a limit was reached."""


@dataclass(frozen=True, slots=True)
class Task:
    """What to compute: `parts` after a cycle, `explain` a pod, or `compare` with another configuration (`other`)."""

    kind: str
    config: ConfigText
    cycle: int | None = None
    pod: str = ""
    other: ConfigText | None = None
    version: int = 0  # of the input
    input: Input | None = None  # None: the one that was sent before


class Worker:
    """One process that works on one task after the other."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._process = WorkerProcess[dict[str, Any], Task]({}, compute)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="worker")
        self._sent = -1  # the version of the input that the process has
        self._waiting = 0

    async def run(self, task: Task) -> dict[str, Any]:
        """Computes a task whose `input` is set. Raises Busy or Failed."""
        if self._waiting >= MAX_WAITING_TASKS:
            raise Busy
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, task)
        finally:
            self._waiting -= 1

    def _run(self, task: Task) -> dict[str, Any]:
        known, self._sent = self._sent == task.version and task.kind != WARM_UP, -1
        self._process.start(replace(task, input=None) if known else task)
        result = self._process.outcome(self._timeout_s).result
        if isinstance(result, Failure):
            raise Failed(result.message)
        self._sent = task.version if task.kind != WARM_UP else -1
        return result

    async def warm_up(self) -> None:
        """Starts the process before the first task, which then does not wait for it."""
        with suppress(Busy, Failed):
            await self.run(Task(WARM_UP, default_config()))

    def close(self) -> None:
        self._process.stop()
        self._thread.shutdown(cancel_futures=True)
        self._process.end()


def compute(memory: dict[str, Any], task: Task) -> dict[str, Any]:
    """Computes a task in the worker process; `memory` keeps the input between tasks."""
    if task.kind == WARM_UP:
        return {}
    if not memory:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    if task.input is not None:
        memory["input"] = task.input
    known: Input = memory["input"]
    config = load_config(task.config)
    if task.kind == "explain":
        chosen = config if task.other is None else load_config(task.other)
        upcoming = task.cycle is not None or (isinstance(known, ClusterInput) and known.live)
        explanation = known.after(config, task.cycle).explanation(chosen, task.pod, upcoming=upcoming)
        page = RenderedPart.of(explained.render(explanation).encode())
        return {"views/explain": page, "api/explain": RenderedPart.of(encoded(explanation.to_dict()))}
    if task.kind == "compare":
        assert task.other is not None
        start = known.after(config, task.cycle)
        other = load_config(task.other)
        first, second = start.result(config), start.result(other)
        comparison = Comparison((config.text.source, other.text.source), first, second)
        difference = RenderedPart.of(comparison_html(comparison).encode())
        return {**render_all(second), "views/comparison": difference, "comparison": comparison.to_dict()}
    return dict(render_all(known.result(config, task.cycle)))
