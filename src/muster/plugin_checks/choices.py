"""Random choices, for the checks of plugins: from a seed here, from hypothesis in this repository's own tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

__all__ = ["Choices", "SeededChoices"]

T = TypeVar("T")


class Choices(Protocol):
    """Where a check's random choices come from."""

    def one_of(self, options: Sequence[T]) -> T: ...

    def integer(self, least: int, most: int) -> int: ...

    def flip(self) -> bool: ...

    def subset(self, options: Sequence[T]) -> list[T]:
        """Some of the options, in any order."""
        ...


class SeededChoices:
    """Choices that are the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one_of(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def integer(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def flip(self) -> bool:
        return self.random.random() < 0.5

    def subset(self, options: Sequence[T]) -> list[T]:
        return self.random.sample(options, self.random.randint(0, len(options)))
