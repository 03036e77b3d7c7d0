"""muster bench: times workloads in-process, one fresh process a run, and records the best."""

from __future__ import annotations

import json
from pathlib import Path

import click

from muster.cli import options


@click.command()
@click.argument("works", nargs=-1, metavar="[WORK]...")
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 50), help="Runs of each; the best counts.")
@options.output("table", "json")
@click.option("--save", type=click.Path(file_okay=False, path_type=Path), help="Write record.json and plot.svg there.")
@options.verbosity
def bench(works: tuple[str, ...], runs: int, form: str, save: Path | None, verbosity: int) -> None:
    """Time workloads from objects in memory to a finished plan.

    Without WORK all are run. The exit code is 1 when a floor is missed.
    """
    from muster.groupctl.extender import bench as extender
    from muster.sim.bench import controllers
    from muster.sim.bench.record import UnknownWork, commit_name, machine_name, missed, plot, rows, select

    parts = {part.NAME: part for part in (extender, controllers)}
    others = [work for work in works if work not in parts]
    try:
        chosen = select(others) if others or not works else []
    except UnknownWork as fault:
        raise click.UsageError(f"{fault}, {', '.join(parts)}") from None
    found = []
    try:
        for row in rows(chosen, runs):
            found.append(row)
            if form == "table":
                state = "; ".join(missed(row)) or "ok"
                click.echo(
                    f"{row['work']:5} {row['seconds']:>8} s  decide {row['decide_s']:>8} s  "
                    f"{row['pods_per_s']:>7} pods/s  {row['peak_rss_mib']:>6} MiB  {state:28} {row['about']}"
                )
        drawn = list(found)
        for part in [part for name, part in parts.items() if not works or name in works]:
            row = {**part.row(runs), "machine": machine_name(), "commit": commit_name()}
            found.append(row)
            if form == "table":
                times = "  ".join(f"{name} {row[name]}" for name in part.FLOORS)
                click.echo(f"{row['work']}  {times}  {'; '.join(missed(row)) or 'ok'}  {row['about']}")
    except RuntimeError as fault:
        raise click.ClickException(str(fault)) from None
    if form == "json":
        click.echo(json.dumps(found, indent=1))
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        (save / "record.json").write_text(json.dumps(found, indent=1) + "\n")
        (save / "plot.svg").write_text(plot(drawn))
    if any(missed(row) for row in found):
        raise SystemExit(1)
