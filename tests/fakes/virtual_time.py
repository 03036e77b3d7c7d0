"""An event loop whose time passes only when nothing is left to do: timeouts and pauses take no real time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Instead of waiting for the next timer it moves its clock there."""

    def __init__(self) -> None:
        self._elapsed = 0.0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        return self._elapsed

    def jump(self, seconds: float | None) -> None:
        if seconds is None:
            raise RuntimeError("everything waits, and nothing will happen")
        self._elapsed += seconds


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout != 0:
            self._loop.jump(timeout)
        return super().select(0)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
