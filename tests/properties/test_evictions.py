"""Evictions on random clusters: useful, within the protections, and the run settles (spec volcano.md §12).

`EVICTION_RUNS` sets the number of clusters, `EVICTION_SEED` the first one. For long runs with a table of the faults:
`python tests/eviction_runs.py SEED COUNT`.
"""

from __future__ import annotations

import os

import pytest

from eviction_runs import reproduce, run
from oracles.eviction_checks import COUNTED_ONLY
from strategies.eviction_clusters import scenario
from strategies.profiles import times

SEED = int(os.environ.get("EVICTION_SEED", "0"))
RUNS = int(os.environ.get("EVICTION_RUNS", times(400)))
BATCH = 20


@pytest.mark.parametrize("mixed", [False, True], ids=["", "mixed"])
@pytest.mark.parametrize("first", range(SEED, SEED + RUNS, BATCH))
def test_evictions_are_useful_and_sound(first: int, mixed: bool) -> None:
    lines = []
    for seed in range(first, min(first + BATCH, SEED + RUNS)):
        made = scenario(seed, mixed=mixed)
        for fault in run(made).faults:
            if any(kind in fault.kind for kind in COUNTED_ONLY):
                continue
            lines.append(f"seed {seed}: {fault.kind}: {fault.text}\n    {reproduce(made)}")
    assert not lines, "\n".join(lines)
