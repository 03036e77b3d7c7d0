"""`muster bench`: times workloads, each run in a new process, and records the best run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from muster.cli import options
from muster.cli.answer import waiting
from muster.cli.help import Command

_COLUMNS = ("seconds", "peak_rss_mib")  # of the table, beside the figures that some rows have


@click.command(cls=Command, example="muster bench W1 --runs 1")
@click.argument("works", nargs=-1, metavar="[WORK]... | scheduler-perf [CASE]...")
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 50), help="Runs of each; the best counts.")
@options.output("table", "json")
@click.option("--save", type=click.Path(file_okay=False, path_type=Path), help="Write record.json and plot.svg there.")
@options.verbosity
def bench(works: tuple[str, ...], runs: int, form: str, save: Path | None, verbosity: int) -> None:
    """Measure how fast workloads are scheduled on this machine.

    The time is that from objects in memory to a finished plan, in CPU seconds and as a multiple of a calibration loop
    (C), which compares machines. Without WORK, all workloads are run. The exit code is 1 if a limit is missed.

    `muster bench scheduler-perf` runs cases of Kubernetes' own scheduler benchmark instead and prints how many times as
    many pods per second are decided as the published floors of Kubernetes 1.36 and 1.37 require.
    """
    from muster.sim.bench.catalogue import MissingExtra, UnknownWork, select, without_packages
    from muster.sim.bench.record import measured, missed, plot

    try:
        chosen = select(works)
    except (UnknownWork, MissingExtra) as fault:
        raise click.UsageError(str(fault)) from None
    for name in () if works else sorted(without_packages()):
        click.echo(f"{name} is not measured: it needs the extra `live` (pip install 'muster[live]')", err=True)
    found = []
    try:
        for i, work in enumerate(chosen, 1):
            with waiting(f"measuring {work.name} ({i} of {len(chosen)} workloads)"):
                row = measured(work, runs)
            found.append(row)
            if form == "table":
                line = _case_line if "published_pods_per_s" in row else _line
                click.echo(line(row, "; ".join(missed(row)) or "ok"))
    except RuntimeError as fault:
        raise click.ClickException(str(fault)) from None
    if form == "json":
        click.echo(json.dumps(found, indent=1))
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        (save / "record.json").write_text(json.dumps(found, indent=1) + "\n")
        (save / "plot.svg").write_text(plot(found))
    if any(missed(row) for row in found):
        raise SystemExit(1)


def _line(row: dict[str, Any], state: str) -> str:
    own = {figure: row[figure] for figure in ("decide_s", *row["floor"]) if figure in row and figure not in _COLUMNS}
    peak = f"{row['peak_rss_mib']:>6.1f} MiB" if "peak_rss_mib" in row else ""
    return (
        f"{row['work']:13} {row['seconds']:>8.4f} s  {'  '.join(f'{k} {v:.4g}' for k, v in own.items()):28}  "
        f"{row['times_calibration']['seconds']:>6.2f} C  {row['pods_per_s']:>7} pods/s  "
        f"{peak:10}  {state:28} {row['about']}"
    )


def _case_line(row: dict[str, Any], state: str) -> str:
    """A case of scheduler_perf: pods per second, deciding and in total, and how many times the floors they are."""
    times = "  ".join(
        f"{version}: {floor} × {row['times_published'][version]['deciding']:g}"
        f" ({row['times_published'][version]['total']:g})"
        for version, floor in row["published_pods_per_s"].items()
    )
    wanted = f"want × {row['required_times']}" if row["required_times"] else "no floor"
    return (
        f"{row['work'].partition('/')[2]:15} deciding {row['decide_s']:>8.4f} s  "
        f"{row['deciding_pods_per_s']:>7} pods/s  total {row['pods_per_s']:>6} pods/s  "
        f"{row['times_calibration']['decide_s']:>6.2f} C  "
        f"{row['peak_rss_mib']:>6.1f} MiB  {times:46} {wanted:10} {state:28} {row['about']}"
    )
