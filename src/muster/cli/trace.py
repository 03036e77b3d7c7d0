"""`muster trace`: makes a trace of jobs, or summarises one."""

from __future__ import annotations

import os
import sys
from typing import IO, TYPE_CHECKING, Any, Literal

import click

from muster.cli import options
from muster.cli.help import Group
from muster.cli.options import DURATION, trace_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.sim.traces.table import Trace

STDOUT = "-"
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}


@click.group(cls=Group, example="muster trace show trace.csv")
@options.verbosity
def trace(verbosity: int) -> None:
    """Make a trace of jobs for `muster replay`, or summarise one."""


class Mix(click.ParamType[dict[Any, float]]):
    """Values with weights: 1:0.7,8:0.3. A value without a weight has the weight 1."""

    name = "mix"

    def __init__(self, kind: Callable[[str], Any]) -> None:
        self.kind = kind

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[Any, float]:
        if isinstance(value, dict):
            return value
        found: dict[Any, float] = {}
        for part in str(value).split(","):
            name, _, weight = part.strip().partition(":")
            try:
                key, amount = self.kind(name), float(weight or 1)
            except ValueError:
                self.fail(f"{part!r} is not VALUE or VALUE:WEIGHT", param, ctx)
            if key in found:
                self.fail(f"{name} is given twice", param, ctx)
            found[key] = amount
        return found


def _model(name: str) -> str:
    return "" if name == "any" else name


@trace.command(example="muster trace make day.csv --seed 1 --hours 24 --load 0.9 --cluster-gpus 256")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), default=STDOUT)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="The source of randomness.")
@click.option("--jobs", type=click.IntRange(min=1), help="How many jobs.")
@click.option("--hours", type=float, help="How long jobs arrive. Default: 24, unless --jobs is given.")
@click.option("--load", type=float, metavar="SHARE", help="The mean number of GPUs that jobs would use if none waited, "
              "relative to --cluster-gpus. Default: 0.8, unless both --jobs and --hours are given.")  # fmt: skip
@click.option("--cluster-gpus", default=64.0, show_default=True, help="The GPUs that --load is relative to.")
@click.option("--arrivals", type=click.Choice(["poisson", "diurnal"]), default="poisson", show_default=True,
              help="Poisson at a constant rate, or at one that follows the hours of the day.")  # fmt: skip
@click.option("--durations", type=click.Choice(["lognormal", "exponential"]), default="lognormal", show_default=True,
              help="The distribution of durations.")  # fmt: skip
@click.option("--mean", type=DURATION, default="30m", show_default=True, help="The mean duration.")
@click.option("--median", type=DURATION, help="The median of the durations, in place of the mean.")
@click.option("--sigma", default=1.5, show_default=True, help="The spread of log-normal durations: the standard "
              "deviation of their logarithm.")  # fmt: skip
@click.option("--pods", type=Mix(int), default="1", show_default=True, metavar="MIX", help="Pods of a job, a gang if "
              "more than one: 1:0.7,4:0.2,8:0.1.")  # fmt: skip
@click.option("--gpus", type=Mix(float), default="1", show_default=True, metavar="MIX",
              help="GPUs of a pod, also 0 or a part of one: 0:0.1,0.5:0.2,1:0.5,8:0.2.")  # fmt: skip
@click.option("--queues", type=Mix(str), default="default", show_default=True, metavar="MIX",
              help="Queues: research:3,production:1.")  # fmt: skip
@click.option("--priorities", type=Mix(int), default="0", show_default=True, metavar="MIX", help="Priorities: 0:9,100.")
@click.option("--models", type=Mix(_model), default="any", show_default=True, metavar="MIX",
              help="GPU models: any:4,A100:1,V100|A100:1.")  # fmt: skip
@click.option("--estimate-error", type=float, metavar="FACTOR", help="Users estimate durations, and are wrong by up to "
              "this factor in both directions. Default: there are no estimates.")  # fmt: skip
@click.option("--cpu-per-gpu", default=8.0, show_default=True, help="Cores for each GPU of a pod.")
@click.option("--memory-per-gpu", default=64.0, show_default=True, help="GiB for each GPU of a pod.")
@options.verbosity
def make(
    file: str, seed: int, jobs: int | None, hours: float | None, load: float | None, cluster_gpus: float,
    arrivals: Literal["poisson", "diurnal"], durations: Literal["lognormal", "exponential"], mean: float,
    median: float | None, sigma: float, pods: dict[int, float], gpus: dict[float, float], queues: dict[str, float],
    priorities: dict[int, float], models: dict[str, float], estimate_error: float | None, cpu_per_gpu: float,
    memory_per_gpu: float, verbosity: int,
) -> None:  # fmt: skip
    """Make a trace from distributions and write it to FILE.

    The trace is CSV, or Parquet if FILE ends in .parquet. Without FILE, it is written to stdout. The same options and
    seed give the same bytes.
    """
    from muster.cli.reading import BadInput
    from muster.model.finding import InputError
    from muster.sim.traces.make import Recipe, make_trace

    if jobs is None and hours is None:
        hours = 24.0
    if load is None and (jobs is None or hours is None):
        load = 0.8
    recipe = Recipe(
        jobs=jobs, hours=hours, load=load, cluster_gpus=cluster_gpus, arrivals=arrivals, durations=durations,
        mean_duration=mean, median_duration=median, sigma=sigma, pods=pods, gpus=gpus, queues=queues,
        priorities=priorities, models=models, estimate_error=estimate_error, cpu_per_gpu=cpu_per_gpu,
        memory_gib_per_gpu=memory_per_gpu,
    )  # fmt: skip
    try:
        made = make_trace(recipe, seed)
        _write(made, file)
    except InputError as fault:
        raise BadInput(f"muster: {fault.message}") from None
    except OSError as fault:
        if file == STDOUT:
            raise
        raise BadInput(f"{file}: error: cannot be written: {fault.strerror} (choose another place)") from None


def _write(made: Trace, file: str) -> None:
    from muster.sim.traces.write import write_csv, write_parquet

    write: Callable[[Trace, IO[bytes]], None] = write_parquet if file.endswith(".parquet") else write_csv
    if file == STDOUT:
        write(made, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    if os.path.exists(file) and not os.path.isfile(file):
        with open(file, "wb") as out:  # a pipe or a device
            write(made, out)
        return
    file = os.path.realpath(file)
    unfinished = f"{file}.{os.getpid()}.unfinished"
    try:
        with open(unfinished, "xb") as out:
            write(made, out)
        os.replace(unfinished, file)
    finally:
        if os.path.exists(unfinished):
            os.unlink(unfinished)


@trace.command(example="muster trace show jobs.csv --columns submit=timestamp,duration=dur,gpus=num_gpus,queue=vc")
@click.argument("traces", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="TRACE…")
@trace_options
@click.option("--typical-pods", is_flag=True, help="Print the typical pods as an argument of the plugin gpu-share.")
@options.output("table", "json")
@options.verbosity
def show(traces: tuple[str, ...], form: str, verbosity: int, typical_pods: bool, **reading: Any) -> None:
    """Summarise the jobs of one or several files; - is stdin.

    The format is found by itself: openb, Philly, Helios, Acme, PAI 2020, spot-2026, Tiresias, SWF, or the columns that
    `muster trace make` writes. Any other CSV or Parquet file is read with --columns.
    """
    from muster.cli.answer import print_json
    from muster.cli.options import read_traces
    from muster.sim.traces.summary import summary

    read = read_traces(traces, **reading)
    if typical_pods:
        from muster.sim.traces.summary import argument, as_yaml, typical_pods_of

        pods = typical_pods_of(read)
        if form == "json":
            print_json(argument(pods))
        else:
            click.echo(as_yaml(pods))
        return
    found = summary(read)
    if form == "json":
        print_json(found)
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    from muster.cli.answer import console, row, table

    facts = table(found["source"], "", "")
    spread = found["durations"]
    facts.show_header = False
    for what, value in (
        ("jobs", f"{found['jobs']:,}"),
        ("rows left out", f"{found['badRows']:,}"),
        ("submissions", f"{found['firstSubmission']} to {found['lastSubmission']} ({found['hours']:,.1f} h)"),
        ("jobs per hour", _figure(found["jobsPerHour"])),
        ("GPU-hours", _figure(found["gpuHours"])),
        ("CPU core-hours", _figure(found["cpuHours"])),
        ("mean offered GPUs", _figure(found["meanOfferedGPUs"])),
        ("duration mean, p50, p90, p99", " ".join(map(_duration, spread.values())) if spread else "–"),
        ("gangs, jobs with shared GPUs", f"{found['gangs']:,}, {found['sharedGPUs']:,}"),
        ("with an estimate, endless", f"{found['estimated']:,}, {found['endless']:,}"),
    ):
        row(facts, what, value)
    out = console()
    out.print(facts)
    sized = {"gpus": "GPUs", "pods": "pods"}[found["sizedBy"]]
    for title, key, column in (
        ("Queues", "queues", "queue"), ("Sizes", "sizes", sized), ("Priorities", "priorities", "priority"),
        ("GPU models", "models", "model"),
    ):  # fmt: skip
        if len(found[key]) < 2 and key in ("priorities", "models"):
            continue
        made = table(title, column, "jobs", "GPU-hours", "p50", "p90", "p99")
        for part in found[key]:
            quantiles = [_duration(part["durations"][q]) if part["durations"] else "–" for q in ("p50", "p90", "p99")]
            row(made, part["name"], f"{part['jobs']:,}", _figure(part["gpuHours"]), *quantiles)
        out.print(made)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"


def _duration(seconds: float) -> str:
    """Returns a duration in the largest unit that it fills."""
    unit = next((unit for unit, length in _UNITS.items() if seconds >= length), "s")
    return f"{seconds / _UNITS[unit]:.3g}{unit}"
