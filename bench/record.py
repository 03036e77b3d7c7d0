"""`python bench/record.py DIRECTORY`: runs all of `muster bench` and writes the tables of docs/concepts/speed.md.

DIRECTORY gets record.json and plot.svg of the workloads, and those of scheduler_perf in its folder scheduler-perf.
`--tables` measures nothing: the tables are made from the records that are there.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from muster.sim.bench.record import missed

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "concepts" / "speed.md"
Rows = list[dict[str, Any]]


@click.command(help=__doc__)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 50), help="The best run counts.")
@click.option("--tables", "tables_only", is_flag=True, help="Only write the tables again.")
def main(directory: Path, runs: int, tables_only: bool) -> None:
    for words, folder in () if tables_only else (([], directory), (["scheduler-perf"], directory / "scheduler-perf")):
        command = [sys.executable, "-c", "from muster.cli import main; main()", "bench", *words]
        # The exit code is 1 if a limit is missed: the table says so.
        subprocess.run([*command, "--runs", str(runs), "--save", str(folder)], check=False)
    PAGE.write_text(with_tables(PAGE.read_text("utf-8"), directory.resolve()), "utf-8")


def with_tables(page: str, directory: Path) -> str:
    """Returns the page with the tables of the records in the directory."""
    for name, write, file in (
        ("workloads", workloads_table, directory / "record.json"),
        ("scheduler-perf", cases_table, directory / "scheduler-perf" / "record.json"),
    ):
        rows: Rows = json.loads(file.read_text("utf-8"))
        link = f"[{file.parent.name}]({os.path.relpath(file, PAGE.parent)})"
        lines = [f"{link}: {_origin(rows)}", "", *write(rows)]
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        text = "\n".join([begin, "", *lines, "", end])
        page = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _, text=text: text, page, flags=re.DOTALL)
    return page


def _origin(rows: Rows) -> str:
    loop = min(row["calibration_s"] for row in rows)
    return (
        f"{rows[0]['machine']}, commit {rows[0]['commit']}, best of {rows[0]['runs']}; "
        f"the calibration loop (C) took {loop:.3f} s."
    )


def workloads_table(rows: Rows) -> list[str]:
    lines = ["| workload | CPU s | × C | deciding s | pods/s | peak MiB | limits |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        deciding, peak = row.get("decide_s"), row.get("peak_rss_mib")
        limits = [f"{figure} {row[figure]:.4g} (at most {limit:g})" for figure, limit in row["floor"].items()]
        cells = (
            row["work"], f"{row['seconds']:.3f}", row["times_calibration"]["seconds"],
            "–" if deciding is None else f"{deciding:.3f}", row["pods_per_s"] or "–",
            "–" if peak is None else f"{peak:.0f}", "; ".join(limits) + (" **missed**" if missed(row) else ""),
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def cases_table(rows: Rows) -> list[str]:
    lines = [
        "| case | of scheduler_perf | pods/s deciding | pods/s in all | floor 1.36 | floor 1.37 "
        "| × 1.37 deciding | × 1.37 in all | required |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        floors, times = row["published_pods_per_s"], row["times_published"].get("1.37", {})
        required = f"{row['required_times']}" if row["required_times"] else "–"
        cells = (
            row["work"].partition("/")[2], row["about"], row["deciding_pods_per_s"], row["pods_per_s"],
            floors.get("1.36", "–"), floors.get("1.37", "–"), times.get("deciding", "–"), times.get("total", "–"),
            required + (" **missed**" if missed(row) else ""),
        )  # fmt: skip
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


if __name__ == "__main__":
    main()
