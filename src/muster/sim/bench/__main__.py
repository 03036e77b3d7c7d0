"""`python -m muster.sim.bench NAME`: one measurement in a separate process, its figures as a line of JSON."""

from __future__ import annotations

import gc
import json
import sys

from muster.process.memory import keep_freed_memory
from muster.sim.bench.catalogue import by_name
from muster.sim.bench.measurement import calibration_s


def main() -> None:
    keep_freed_memory()  # both as the commands do
    gc.disable()
    chosen = by_name(sys.argv[1])
    calibration = calibration_s()
    print(json.dumps({**chosen.run(), "calibration_s": calibration}))


if __name__ == "__main__":
    main()
