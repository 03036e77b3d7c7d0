"""`python bench/groupctl extender` and `controllers`: benchmarks of node group management, without a control plane."""

from __future__ import annotations

import json
from collections.abc import Callable

import click
import controllers
import extender

from muster.sim.bench.record import commit_name, machine_name, missed

Row = dict[str, object]
Figures = dict[str, float]


@click.group()
def main() -> None:
    """Measures the extender and the controllers on this machine. The exit code is 1 when a limit is exceeded."""


def _command(name: str, about: str, limits: Figures, measure: Callable[[], Figures], key: str) -> None:
    @main.command(name, help=about)
    @click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 50), help="The best run counts.")
    @click.option("-o", "--output", "form", default="table", type=click.Choice(["table", "json"]))
    def command(runs: int, form: str) -> None:
        best = min((measure() for _ in range(runs)), key=lambda figures: figures[key])
        row: Row = {
            "work": name, "about": about, **best, "floor": limits, "runs": runs,
            "machine": machine_name(), "commit": commit_name(),
        }  # fmt: skip
        if form == "json":
            click.echo(json.dumps(row, indent=1))
        else:
            figures = "  ".join(f"{figure} {row[figure]}" for figure in limits)
            click.echo(f"{name}  {figures}  {'; '.join(missed(row)) or 'ok'}  {about}")
        if missed(row):
            raise SystemExit(1)


_command("extender", extender.ABOUT, extender.FLOORS, extender.measure, "filter_p99_ms")
_command("controllers", controllers.ABOUT, controllers.FLOORS, controllers.measure, "propagation_cpu_s")
main()
