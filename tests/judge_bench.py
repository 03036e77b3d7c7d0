"""Judges the plans that `muster bench` measures, at full size: `python tests/judge_bench.py [WORK]...`.

Names are those of `muster bench`, and `scheduler-perf/CASE`; without names all are judged. Each workload is run once.
"""

from __future__ import annotations

import sys

from muster.sim.bench.catalogue import by_name
from muster.sim.bench.measurement import WrongResult
from oracles.measured_plans import DECIDED, judge


def main(names: list[str]) -> int:
    wrong = 0
    for one in [by_name(name) for name in names] or DECIDED:
        try:
            found = judge(one)
        except (AssertionError, WrongResult) as error:
            wrong += 1
            print(f"{one.name}: WRONG: {error}", flush=True)
            continue
        print(
            f"{found.name}: {found.judged} of {found.cycles} plans, {found.nodes} nodes, {found.pods} pods: "
            f"{found.bound} bound, {found.pipelined} promised, {found.evicted} evicted, {found.waiting} fit nowhere; "
            f"{found.run_s:.1f} s to run, {found.judge_s:.1f} s to judge",
            flush=True,
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
