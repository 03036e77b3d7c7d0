"""What the jobs of each queue hold and ask for, kept from cycle to cycle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from muster.engine.accounts import Sums, minimum
from muster.engine.jobs import Job
from muster.engine.state import State


class Holding(NamedTuple):
    """Amounts by resource, in internal units."""

    allocated: dict[str, int]
    requested: dict[str, int]


class Holdings:
    def __init__(self) -> None:
        self._sums: dict[str, Sums] = {}

    def now(self, state: State) -> dict[str, Holding]:
        """By queue, as the state is now."""
        self._sums = {name: self._sums.get(name) or Sums(_parts) for name in state.queues}
        return {name: Holding(*(self._sums[name].over(queue.jobs) or ({}, {}))) for name, queue in state.queues.items()}


def _parts(job: Job) -> tuple[Mapping[str, int], ...]:
    return job.allocated, job.total or minimum(job)
