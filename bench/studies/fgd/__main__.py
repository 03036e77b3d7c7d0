"""`python bench/studies/fgd --data DIR`: reproduces a published study of GPU fragmentation on muster's engine.

Weng et al. (USENIX ATC 2023): pods of a trace arrive at a cluster one by one until their demand is 130 % of its GPUs;
six policies are compared by what they allocate and by what they leave as fragments. The folder has the node list and
the pod lists of openb (Alibaba 2023) and, to compare with, `published.csv`.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

import click
from openb import Figures, read_published, workload_names
from page import page
from results import AGREED, TOLERANCE, Cell, run_all
from runs import POLICIES

from muster.cli.answer import console, row, table
from muster.model.finding import InputError


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True,
              help="The folder with the lists of nodes and pods, and published.csv.")  # fmt: skip
@click.option("--seeds", default=10, show_default=True, help="Runs of each workload and policy.")
@click.option("--workloads", default="", help="Names separated by commas; all of the folder by default.")
@click.option("--policies", default=",".join(POLICIES), show_default=True, help="Names separated by commas.")
@click.option("--processes", default=0, help="Processes that run at once; 0: one for each core.", show_default=True)
@click.option("--machine", default="", help="The name of the machine in the record.")
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write a record.")
@click.option("--html", "html_file", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with plots.")
@click.option("-o", "form", type=click.Choice(["table", "json", "html"]), default="table", help="What is printed.")
def main(
    data: Path, seeds: int, workloads: str, policies: str, processes: int, machine: str, json_file: Path | None,
    html_file: Path | None, form: str,
) -> None:  # fmt: skip
    """Run the study and compare it with the published figures. Exit code 1: a figure is not within 0.6 points."""
    begun = time.monotonic()
    known = workload_names(data)
    names = chosen(workloads, known, "workload") if workloads else known
    if not names:
        raise click.ClickException(f"{data} has no list of pods; name a folder with openb_pod_list_*.csv")
    published = read_published(data)
    wanted = chosen(policies, list(POLICIES), "policy")
    cells: list[Cell] = []
    try:
        for cell in run_all(data, names, wanted, seeds, processes or os.cpu_count() or 1):
            cells.append(cell)
            if form == "table" and not len(cells) % len(wanted):
                print_workload(cells[-len(wanted) :], published)
    except InputError as fault:
        raise click.ClickException(str(fault)) from None
    record = {
        "command": "python bench/studies/fgd",
        "machine": machine or f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "seeds": seeds,
        "seconds": round(time.monotonic() - begun, 1),
        **totals(cells, published),
        "cells": [cell.record(published.get((cell.workload, cell.policy))) for cell in cells],
    }
    report(record, json_file, html_file, form)
    sys.exit(1 if record["outside"] else 0)


def chosen(text: str, known: list[str], what: str) -> list[str]:
    """Returns the names of a list separated by commas; they must be known."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise click.ClickException(f"there is no {what} {name}; known are {', '.join(known)}")
    return names


def print_workload(cells: list[Cell], published: dict[tuple[str, str], Figures]) -> None:
    """Prints a table: for each policy mean ± standard deviation, the published mean, and the difference."""
    made = table(cells[0].workload, "policy", *(f"{figure} (published)" for figure in AGREED), "", "CPU-s per run")
    for cell in cells:
        theirs = published.get((cell.workload, cell.policy), {})
        columns = []
        for figure in AGREED:
            mean, published_mean = cell.mean(figure), theirs[figure][0] if figure in theirs else None
            beside = "" if published_mean is None else f" ({published_mean:.2f}, {mean - published_mean:+.2f})"
            columns.append(f"{mean:.2f} ± {cell.sd(figure):.2f}{beside}")
        outside = [figure for figure, by in cell.differences(theirs).items() if abs(by) > TOLERANCE]
        verdict = "not published" if not theirs else "within"
        if outside:
            verdict = f"not within {TOLERANCE}: {', '.join(outside)}"
        row(made, cell.policy, *columns, verdict, f"{sum(cell.cpu_seconds) / len(cell.cpu_seconds):.2f}")
    console().print(made)


def totals(cells: list[Cell], published: dict[tuple[str, str], Figures]) -> dict[str, Any]:
    """Returns how many figures were compared, how many of them do not agree, and the cost of a run."""
    by = [abs(d) for c in cells for d in c.differences(published.get((c.workload, c.policy), {})).values()]
    seconds = [s for c in cells for s in c.cpu_seconds]
    return {
        "compared": len(by),
        "outside": sum(d > TOLERANCE for d in by),
        "largest_difference": round(max(by, default=0.0), 3),
        "cpu_seconds_per_run": round(sum(seconds) / len(seconds), 2),
    }


def report(record: dict[str, Any], json_file: Path | None, html_file: Path | None, form: str) -> None:
    text = json.dumps(record, separators=(",", ":")).replace('{"workload"', '\n{"workload"') + "\n"
    if json_file is not None:
        json_file.write_text(text, "utf-8")
    if html_file is not None:
        html_file.write_text(page(record), "utf-8")
    if form == "json":
        click.echo(text, nl=False)
    elif form == "html":
        click.echo(page(record), nl=False)
    else:
        click.echo(
            f"{record['outside']} of {record['compared']} figures are not within {TOLERANCE} percentage points of the "
            f"published mean; the largest difference is {record['largest_difference']:.2f}; "
            f"{record['cpu_seconds_per_run']} CPU-seconds per run"
        )


if __name__ == "__main__":
    main()
