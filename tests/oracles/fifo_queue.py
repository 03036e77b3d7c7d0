"""A reference for the replay's clock: a queue of jobs that start strictly in order on interchangeable GPUs."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def fifo_starts(
    submit: Sequence[float], duration: Sequence[float], gpus: Sequence[int], capacity: int
) -> list[float]:
    """Returns when each job starts: as soon as its GPUs are free and every earlier job has started."""
    running: list[tuple[float, int]] = []  # end, GPUs
    free, now, starts = capacity, 0.0, []
    for arrives, length, needs in zip(submit, duration, gpus, strict=True):
        now = max(now, arrives)
        while running and running[0][0] <= now:
            free += heapq.heappop(running)[1]
        while free < needs:
            now, released = heapq.heappop(running)
            free += released
            while running and running[0][0] <= now:
                free += heapq.heappop(running)[1]
        free -= needs
        heapq.heappush(running, (now + length, needs))
        starts.append(now)
    return starts
