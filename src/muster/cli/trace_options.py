"""The options of commands that read traces, and the reading: `muster trace show`, `muster replay`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.sim.traces.table import Trace

F = TypeVar("F", bound="Callable[..., object]")
MAX_LINES = 10


def trace_options(command: F) -> F:
    """`--format`, `--columns` and `--strict`, as the keywords of `read_traces`."""
    for option in (
        click.option("--strict", is_flag=True, help="Stop at the first bad row. Default: bad rows are left out."),
        click.option("--columns", default="", metavar="KEY=COLUMN,…", help="The columns of a CSV or Parquet file, "
                     "such as submit=timestamp,gpus=num_gpus. docs/tasks/traces.md has all keys."),
        click.option("--format", "trace_format", default="", metavar="NAME", help="The format of the trace, if it is "
                     "not found by itself: openb, philly, helios, acme, pai, spot, tiresias, swf, …"),
    ):  # fmt: skip
        command = option(command)
    return command


def read_traces(paths: Sequence[str], *, trace_format: str = "", columns: str = "", strict: bool = False) -> Trace:
    """Reads traces and reports rows that are left out on stderr. Stops the command if there is nothing to use."""
    from muster.cli.answer import plural, waiting
    from muster.cli.reading import BadInput
    from muster.model.finding import InputError
    from muster.sim.traces.column_map import parse_columns
    from muster.sim.traces.read import read_trace

    try:
        with waiting("reading"):
            found = read_trace(
                paths, format=trace_format, columns=parse_columns(columns) if columns else None, strict=strict
            )
    except InputError as fault:
        for finding in fault.findings[:MAX_LINES]:
            click.echo(str(finding), err=True)
        raise BadInput(f"muster: {fault.message}") from None
    for finding in found.findings[:MAX_LINES]:
        click.echo(str(finding), err=True)
    if found.bad_rows:
        more = f", {MAX_LINES} are shown" if found.bad_rows > MAX_LINES else ""
        bad, jobs = plural(found.bad_rows, "bad row"), plural(len(found), "job")
        click.echo(f"left out: {bad}{more}; read: {jobs}", err=True)
    return found
