"""Runs each measurement in new processes and records the best of several runs, the machine and the commit."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from muster.model.markup import escape
from muster.sim.bench.measurement import Measurement

Row = dict[str, object]

CALIBRATED = ("seconds", "decide_s")
"""The figures that are also recorded as multiples of the calibration loop."""


def measured(one: Measurement, runs: int) -> Row:
    """Returns the row of a measurement: the smallest of each figure; raises if a run gives a wrong result."""
    taken = [_run(one.name) for _ in range(runs)]
    best = {figure: min(run[figure] for run in taken) for figure in taken[0]}
    row: Row = {"work": one.name, "about": one.about}
    row |= {figure: value if value == int(value) else round(value, 5) for figure, value in best.items()}
    row["times_calibration"] = {
        figure: round(best[figure] / best["calibration_s"], 4) for figure in CALIBRATED if figure in best
    }
    row |= one.derived(best)
    return row | {"floor": dict(one.floors), "machine": machine_name(), "commit": commit_name(), "runs": runs}


def missed(row: Row) -> list[str]:
    """Returns the limits that a row misses."""
    floors = row["floor"]
    assert isinstance(floors, dict)
    return [f"{k} {row[k]} > {v}" for k, v in floors.items() if float(str(row[k])) > v]


def _run(name: str) -> dict[str, float]:
    command = [sys.executable, "-m", "muster.sim.bench", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"
        raise RuntimeError(f"{name}: {last}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def machine_name() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        models = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = models[0] if models else model
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}"


def commit_name() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return found.stdout.strip() or "unknown"


def plot(found: list[Row]) -> str:
    """Draws the first limited figure of each row and its limit as a self-contained SVG."""
    width, line = 760, 26
    bars = []
    for i, row in enumerate(found):
        floors = row["floor"]
        assert isinstance(floors, dict)
        what = next(iter(floors), "seconds")
        value, floor = float(str(row[what])), float(floors.get(what, 1))
        length = min(value / floor, 1.2) * 320
        colour = "#2b8a3e" if value <= floor else "#c92a2a"
        y = 30 + i * line
        bars.append(
            f'<text x="8" y="{y + 14}">{escape(str(row["work"]))}</text>'
            f'<rect x="120" y="{y}" width="{length:.1f}" height="18" fill="{colour}"/>'
            f'<text x="{128 + length:.1f}" y="{y + 14}">{value:.3f} of {floor:g} ({what})</text>'
        )
    height = 40 + len(found) * line
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        f'font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="8" y="18">figures against their floors (the line is the floor)</text>'
        f'<line x1="440" x2="440" y1="24" y2="{height - 8}" stroke="#868e96"/>{"".join(bars)}</svg>\n'
    )
