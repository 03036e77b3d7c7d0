"""The plans that `muster bench` measures are allowed and complete, at full size and in the run that is measured.

Every bound pod may be where it is, as many are bound and evicted as must be, nobody is evicted in vain, and the pods
that are left fit nowhere. `python tests/judge_bench.py` prints what was judged.
"""

from __future__ import annotations

import pytest

from muster.sim.bench.measurement import Measurement
from oracles.measured_plans import DECIDED, judge

pytestmark = pytest.mark.long


@pytest.mark.parametrize("measured", DECIDED, ids=lambda one: one.name)
def test_the_measured_plan_is_allowed_and_complete(measured: Measurement) -> None:
    assert judge(measured).judged
