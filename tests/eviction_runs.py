"""Plays many random clusters and prints the faults by kind: `python tests/eviction_runs.py SEED COUNT`."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from eviction_checks import Fault, check
from eviction_clusters import Scenario, scenario
from eviction_runner import play

FOLDER = Path(tempfile.gettempdir()) / "muster-evictions"


def faults_of(made: Scenario) -> list[Fault]:
    try:
        played = play(made)
    except Exception as error:  # a crash of the scheduler is a fault of the run, not of the checker
        return [Fault("crash", f"{type(error).__name__}: {error}")]
    return check(played)


def reproduce(made: Scenario, folder: Path = FOLDER) -> str:
    cluster, config = made.write(folder)
    return f"muster simulate -f {cluster} -c {config}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--only", default="", help="show only faults whose kind contains this text")
    parser.add_argument("--show", type=int, default=3, help="examples per kind")
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    bad, start = 0, time.monotonic()
    for seed in range(options.seed, options.seed + options.count):
        made = scenario(seed)
        faults = [fault for fault in faults_of(made) if options.only in fault.kind]
        bad += bool(faults)
        runs.update({fault.kind for fault in faults})
        for fault in faults:
            kinds[fault.kind] += 1
            if shown[fault.kind] < options.show:
                shown[fault.kind] += 1
                print(f"seed {seed}: {fault.kind}: {fault.text}\n    {reproduce(made)}")
    print(f"\n{bad} of {options.count} runs have faults ({time.monotonic() - start:.0f} s)")
    for kind, count in sorted(kinds.items()):
        print(f"{runs[kind]:6} runs {count:6} faults  {kind}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
