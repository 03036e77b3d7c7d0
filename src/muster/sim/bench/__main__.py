"""`python -m muster.sim.bench WORK`: one timed run in a separate process, its figures as a line of JSON."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from muster.process.memory import keep_freed_memory
from muster.sim.bench.measure import measure
from muster.sim.bench.workloads import WORKS


def main() -> None:
    keep_freed_memory()  # as the commands do
    work = next(w for w in WORKS if w.name == sys.argv[1])
    print(json.dumps(asdict(measure(work))))


if __name__ == "__main__":
    main()
