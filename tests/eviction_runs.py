"""Plays many random clusters and prints the faults by kind: `python tests/eviction_runs.py SEED COUNT`."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from oracles.eviction_checks import Fault, check
from oracles.eviction_runner import play
from strategies.eviction_clusters import Scenario, scenario

FOLDER = Path(tempfile.gettempdir()) / "muster-evictions"


@dataclass
class Outcome:
    """What one run showed."""

    faults: list[Fault]
    evictions: int = 0
    pending: int = 0  # jobs with pending pods at the end
    undecided: int = 0  # those that the exhaustive search gave up


def run(made: Scenario) -> Outcome:
    try:
        played = play(made)
    except Exception as error:  # a crash of the scheduler is a fault of the run, not of the checker
        return Outcome([Fault("crash", f"{type(error).__name__}: {error}")])
    faults = check(played)
    evictions = sum(len(cycle.plan.evictions) for cycle in played.cycles)
    return Outcome(faults, evictions, played.asked, played.undecided)


def reproduce(made: Scenario, folder: Path = FOLDER) -> str:
    cluster, config = made.write(folder)
    return f"muster simulate -f {cluster} -c {config}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--only", default="", help="show only faults whose kind contains this text")
    parser.add_argument("--show", type=int, default=3, help="examples per kind")
    parser.add_argument("--large", action="store_true", help="gangs beyond six pods, clusters beyond six nodes")
    parser.add_argument("--mixed", action="store_true", help="the pods of a gang differ in more than size")
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    bad, start = 0, time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        made = scenario(seed, large=options.large, mixed=options.mixed)
        outcome = run(made)
        counts["runs with evictions"] += bool(outcome.evictions)
        counts["evictions"] += outcome.evictions
        counts["pending jobs searched exhaustively"] += outcome.pending
        counts["undecided"] += outcome.undecided
        faults = [fault for fault in outcome.faults if options.only in fault.kind]
        bad += bool(faults)
        runs.update({fault.kind for fault in faults})
        for fault in faults:
            kinds[fault.kind] += 1
            if shown[fault.kind] < options.show:
                shown[fault.kind] += 1
                print(f"seed {seed}: {fault.kind}: {fault.text}\n    {reproduce(made)}")
    print(f"\n{bad} of {options.count} runs have faults ({time.monotonic() - start:.0f} s)")
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    for kind, count in sorted(kinds.items()):
        print(f"{runs[kind]:6} runs {count:6} faults  {kind}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
