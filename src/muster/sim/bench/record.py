"""Runs each workload in new processes and records the best of several runs, the machine and the commit."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from muster.model.markup import escape
from muster.sim.bench.cliffs import ALL_WORKS
from muster.sim.bench.workloads import Work

Row = dict[str, object]


class UnknownWork(ValueError):
    """No workload has this name."""


def select(names: Iterable[str]) -> list[Work]:
    wanted = list(names)
    known = {w.name: w for w in ALL_WORKS}
    strange = [n for n in wanted if n not in known]
    if strange:
        raise UnknownWork(f"no workload {strange[0]}; there are {', '.join(known)}")
    return [known[n] for n in wanted] if wanted else list(ALL_WORKS)


def rows(works: Iterable[Work], runs: int) -> Iterator[Row]:
    """Returns one row per workload; raises if a run gives a wrong plan."""
    machine, commit = machine_name(), commit_name()
    for work in works:
        timings = [one(work) for _ in range(runs)]
        best = min(timings, key=lambda t: t["build_s"] + t["open_s"] + t["decide_s"])
        seconds = best["build_s"] + best["open_s"] + best["decide_s"]
        placed = best["bound"] or best["evicted"]
        yield {
            "work": work.name,
            "about": work.about,
            "seconds": round(seconds, 4),
            "build_s": round(best["build_s"], 4),
            "open_s": round(best["open_s"], 4),
            "decide_s": round(min(t["decide_s"] for t in timings), 4),
            "pods_per_s": round(placed / seconds) if placed else 0,
            "bound": int(best["bound"]),
            "evicted": int(best["evicted"]),
            "peak_rss_mib": round(min(t["peak_rss_mib"] for t in timings), 1),
            "floor": {k: v for k, v in _floors(work).items() if v},
            "machine": machine,
            "commit": commit,
            "runs": runs,
        }


def _floors(work: Work) -> dict[str, float]:
    return {"seconds": work.floor_s, "decide_s": work.floor_decide_s, "peak_rss_mib": work.floor_mib}


def missed(row: Row) -> list[str]:
    """Returns the limits that a row misses."""
    floors = row["floor"]
    assert isinstance(floors, dict)
    return [f"{k} {row[k]} > {v}" for k, v in floors.items() if float(str(row[k])) > v]


def one(work: Work) -> dict[str, float]:
    command = [sys.executable, "-m", "muster.sim.bench", work.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"
        raise RuntimeError(f"{work.name}: {last}")
    timing: dict[str, float] = json.loads(done.stdout)
    return timing


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
    """Draws the times and their limits as a self-contained SVG."""
    width, line = 640, 26
    bars = []
    for i, row in enumerate(found):
        floors = row["floor"]
        assert isinstance(floors, dict)
        what = "seconds" if "seconds" in floors else "decide_s"
        value, floor = float(str(row[what])), float(floors.get(what, 0) or 1)
        length = min(value / floor, 1.2) * 320
        colour = "#2b8a3e" if value <= floor else "#c92a2a"
        y = 30 + i * line
        bars.append(
            f'<text x="8" y="{y + 14}">{escape(str(row["work"]))}</text>'
            f'<rect x="60" y="{y}" width="{length:.1f}" height="18" fill="{colour}"/>'
            f'<text x="{68 + length:.1f}" y="{y + 14}">{value:.3f} s of {floor:g} s</text>'
        )
    height = 40 + len(found) * line
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        f'font-size="13"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="8" y="18">time against the floor (the line at 380 px is the floor)</text>'
        f'<line x1="380" x2="380" y1="24" y2="{height - 8}" stroke="#868e96"/>{"".join(bars)}</svg>\n'
    )
