"""Compares the order of starts of a recorded run with that of its replay.

Two jobs count as ordered live if their starts are more than TOLERANCE_S apart; the replay must then start them in the
same order, and not at the same time. Jobs that start live within this time of each other may have any order: mostly one
cycle started them, and a cycle has no order. A job must start in both or in none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from live.api import Plain
from live.recording import Recording
from muster.sim.inputs import ConfigText, load_config, usable_cluster
from muster.sim.replay.records import Replay
from muster.sim.replay.run import ReplayOptions, replay

TOLERANCE_S = 1.0
# The live scheduler decides some milliseconds after an event, not up to a second later as a replay does by default.
CYCLE_S = 0.02


@dataclass(frozen=True)
class Comparison:
    started: int  # jobs that started live
    only_live: Sequence[str]
    only_replay: Sequence[str]
    wrong_pairs: Sequence[tuple[str, str]]  # started live in this order, and not so in the replay
    ordered_pairs: int  # pairs whose order counts
    tolerated_pairs: int  # pairs in another order, or at the same time in the replay, whose order does not count
    same_sequence: bool  # also those; jobs that start at the same time in the replay have any order
    most_difference_s: float  # between the two starts of a job

    @property
    def equal(self) -> bool:
        return not (self.only_live or self.only_replay or self.wrong_pairs)


def replayed(recording: Recording, objects: Sequence[Plain], config: str, cycle: float | None = CYCLE_S) -> Replay:
    """Replays a recording on nodes and queues like those that it was recorded with."""
    loaded = load_config(ConfigText(config, "scheduler.yaml"))
    options = ReplayOptions(cycle=cycle, until=recording.seconds)
    return replay(recording.trace, usable_cluster(list(objects)).objects, loaded, options)


def compared(recording: Recording, made: Replay) -> Comparison:
    live = recording.starts
    names = made.trace.names
    again = {names[i]: float(when) for i, when in enumerate(made.start) if not math.isnan(when)}
    both = sorted(live.keys() & again.keys(), key=lambda name: (live[name], again[name]))
    first, second = np.array([live[name] for name in both]), np.array([again[name] for name in both])
    gaps, gaps_again = first[None, :] - first[:, None], second[None, :] - second[:, None]
    ahead = np.triu(np.ones(gaps.shape, dtype=bool), 1)
    out_of_order = ahead & (gaps_again <= 0)
    wrong = np.argwhere(out_of_order & (gaps > TOLERANCE_S))
    return Comparison(
        started=len(live),
        only_live=sorted(live.keys() - again.keys()),
        only_replay=sorted(again.keys() - live.keys()),
        wrong_pairs=[(both[i], both[j]) for i, j in wrong.tolist()],
        ordered_pairs=int((ahead & (gaps > TOLERANCE_S)).sum()),
        tolerated_pairs=int((out_of_order & (gaps <= TOLERANCE_S)).sum()),
        same_sequence=not (ahead & (gaps_again < 0)).any(),
        most_difference_s=round(float(np.abs(first - second).max(initial=0.0)), 3),
    )
