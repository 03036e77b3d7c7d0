"""Keeping freed memory changes how fast arrays are made, and nothing else."""

from __future__ import annotations

from muster.sim.memory import keep_freed_memory


def test_it_may_be_said_twice_and_arrays_are_made_as_before() -> None:
    import numpy as np

    keep_freed_memory()
    keep_freed_memory()
    assert np.ones(1 << 20).sum() == 1 << 20
