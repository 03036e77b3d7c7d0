"""Runs cells in worker processes of this machine.

Each worker has its own pipe and runs one cell at a time. A worker that dies (out of memory, a crash in native code)
fails only its cell; another worker takes its place. Workers end when the process of the sweep ends, also by a kill.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from traceback import format_exc
from typing import Any, Generic, TypeVar

from muster.model.finding import InputError
from muster.process.memory import keep_freed_memory

__all__ = ["Failure", "TaskOutcome", "WorkerProcess", "attempt", "run_in_processes"]

Task = TypeVar("Task")
Shared = TypeVar("Shared")
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a cell has no result."""

    message: str
    trace: str = ""
    """The stack trace, if there is one."""


@dataclass(frozen=True, slots=True)
class TaskOutcome(Generic[Task]):
    """A task with its result or its failure."""

    task: Task
    result: Result | Failure


def attempt(run: Callable[..., Result], *given: object) -> Result | Failure:
    """Runs one cell; an exception fails this cell only."""
    try:
        return run(*given)
    except InputError as fault:
        return Failure(str(fault))
    except MemoryError:
        return Failure("out of memory (use fewer processes)", format_exc())
    except Exception as fault:
        return Failure(f"{type(fault).__name__}: {' '.join(str(fault).split()) or 'no message'}", format_exc())


def run_in_processes(
    tasks: Sequence[Task], shared: Shared, run: Callable[[Shared, Task], Result], processes: int
) -> Iterator[TaskOutcome[Task]]:
    """Yields the outcome of each task as it ends. `run` must be a function of a module; `shared` is sent once to each
    worker."""
    waiting = list(reversed(tasks))
    workers = [WorkerProcess[Shared, Task](shared, run) for _ in range(min(processes, len(waiting)))]
    try:
        for worker in workers:
            worker.start(waiting.pop())
        while busy := {worker.pipe: worker for worker in workers if worker.task is not None}:
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]  # `wait` returns what it was given
                yield worker.outcome()
                if waiting:
                    worker.start(waiting.pop())
    finally:
        for worker in workers:
            worker.end()


class WorkerProcess(Generic[Shared, Task]):
    """One worker process; it is started with its first task, and again if it died."""

    def __init__(self, shared: Shared, run: Callable[[Shared, Task], Result]) -> None:
        self._shared = shared
        self._run = run
        self._process: SpawnProcess | None = None
        self.pipe: Connection
        self.task: Task | None = None

    def start(self, task: Task) -> None:
        """Gives the worker a task."""
        if self._process is None:
            context = get_context("spawn")
            self.pipe, theirs = context.Pipe()
            self._process = context.Process(target=_work, args=(theirs, self._shared, self._run), daemon=True)
            self._process.start()
            theirs.close()  # so that the end of the worker ends the pipe
        self.task = task
        with suppress(OSError):  # the worker died between two tasks: `outcome` reports it
            self.pipe.send(task)

    def outcome(self, seconds: float | None = None) -> TaskOutcome[Task]:
        """Returns what became of the task; a worker that takes longer than `seconds` is ended."""
        task = self.task
        assert task is not None and self._process is not None
        self.task = None
        try:
            if seconds is not None and not self.pipe.poll(seconds):
                self.end()
                return TaskOutcome(task, Failure(f"it took longer than {seconds:g} s"))
            return TaskOutcome(task, self.pipe.recv())
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode or 0
            self.end()
            how = f"was ended by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
            hint = "; the machine may be out of memory (use fewer processes)" if -code == signal.SIGKILL else ""
            return TaskOutcome(task, Failure(f"the worker process {how}{hint}"))

    def stop(self) -> None:
        """Stops the worker while another thread waits for its outcome, which is then a failure."""
        if self._process is not None:
            self._process.terminate()

    def end(self) -> None:
        if self._process is not None:
            self.pipe.close()
            self._process.terminate()
            self._process.join()
            self._process = None
            self.task = None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _work(pipe: Connection, shared: Shared, run: Callable[[Shared, Task], Result]) -> None:
    """The worker process: runs tasks until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the sweep ends its workers itself
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_freed_memory()
    try:
        while True:
            pipe.send(attempt(run, shared, pipe.recv()))
    except (EOFError, OSError):
        return


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
