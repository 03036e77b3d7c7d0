"""The random clusters of `muster.plugin_checks`, as hypothesis draws (and shrinks) them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st

from muster.engine.core.state import State
from muster.model.meta import Object
from muster.plugin_checks.random_clusters import GPU, GROUP, NOW, cluster, state_of

__all__ = ["GPU", "GROUP", "NOW", "Cluster", "Drawn", "clusters", "state_of"]

T = TypeVar("T")


class Drawn:
    """Choices that hypothesis makes."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def one_of(self, options: Sequence[T]) -> T:
        return self._draw(st.sampled_from(options))

    def integer(self, least: int, most: int) -> int:
        return self._draw(st.integers(least, most))

    def flip(self) -> bool:
        return self._draw(st.booleans())

    def subset(self, options: Sequence[T]) -> list[T]:
        return self._draw(st.lists(st.sampled_from(options), unique=True, max_size=len(options)))


@dataclass(frozen=True)
class Cluster:
    """The objects of a cluster, in the order they were drawn."""

    objects: tuple[Object, ...]

    def state(self) -> State:
        return state_of(self.objects)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """An example as one line of JSON per object."""
        printer.text("\n".join(["Cluster", *(msgspec.json.encode(o).decode() for o in self.objects), ""]))


@st.composite
def clusters(draw: st.DrawFn, *, plain: bool = False, crowded: bool = False, most_jobs: int = 5) -> Cluster:
    """`crowded`: old jobs use most of the capacity."""
    return Cluster(cluster(Drawn(draw), plain=plain, crowded=crowded, most_jobs=most_jobs))
