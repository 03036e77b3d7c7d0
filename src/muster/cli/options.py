"""Options that several commands share, and the reading of traces by theirs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from muster.cli import VERBOSITY
from muster.cli.flags import option, options_of
from muster.process.settings import CONFIG, ClusterSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster.cluster.manifests import Manifests
    from muster.sim.changes import Changes
    from muster.sim.filters import Filter
    from muster.sim.traces.table import Trace

F = TypeVar("F", bound=Callable[..., object])
Command = Callable[..., None]
Names = tuple[str, ...]


def _remember(ctx: click.Context, param: click.Parameter, value: int) -> int:
    ctx.meta[VERBOSITY] = value
    return value


def verbosity(command: F) -> F:
    """`-v N` on every command."""
    return click.option(
        "-v", "verbosity", type=click.IntRange(0, 9), default=0, metavar="N", is_eager=True, callback=_remember,
        help="Log lines up to level N (0 to 9) on stderr; 9 shows everything.",
    )(command)  # fmt: skip


def output(*formats: str) -> Callable[[F], F]:
    """`-o`; the first format is the default."""
    return click.option(
        "-o", "--output", "form", type=click.Choice(formats), default=formats[0], show_default=True,
        help="The format of the output.",
    )  # fmt: skip


def config(command: Command) -> Command:
    return option(CONFIG, str)(command)


def kubeconfig(command: Command) -> Command:
    """`--kubeconfig FILE` and `--context NAME`, as parameters of these names."""
    return options_of(ClusterSettings)(command)


def files(*, required: bool) -> Callable[[Command], Command]:
    """`-f FILE_OR_DIR…`: several after one -f, or -f several times."""

    def add(command: Command) -> Command:
        @wraps(command)
        def gathered(*, files: tuple[str, ...], more: tuple[str, ...], **others: Any) -> None:
            if required and not files:
                raise click.UsageError("give the manifests with -f FILE_OR_DIR")
            command(files=(*files, *more), **others)

        given = click.option(
            "-f", "--filename", "files", type=click.Path(), multiple=True, metavar="FILE_OR_DIR…",
            help="Manifests (YAML, JSON), folders of them, or snapshots; - is stdin.",
        )  # fmt: skip
        return given(click.argument("more", nargs=-1, type=click.Path(), metavar="")(gathered))

    return add


def changes(command: Command) -> Command:
    """The what-if options `--set`, `--remove`, `--clone-node`, `--times` and `--cordon`, as the parameter `changes`."""

    @wraps(command)
    def gathered(*, assigned: Names, removals: Names, clones: Names, times: int, cordons: Names, **others: Any) -> None:
        from muster.sim.changes import Changes

        if times != 1 and not clones:
            raise click.UsageError("--times belongs to --clone-node NODE")
        made: Changes = Changes(clones=clones, times=times, fields=assigned, cordons=cordons, removals=removals)
        command(changes=made, **others)

    for flag in (
        click.option("--cordon", "cordons", multiple=True, metavar="NODE",
                     help="Change the input: no further pod is placed on the node. May be given several times."),
        click.option("--times", type=click.IntRange(1, 100_000), default=1, metavar="N",
                     help="How many clones of each node --clone-node makes. Default: 1."),
        click.option("--clone-node", "clones", multiple=True, metavar="NODE", help="Change the input: add a node like "
                     "this one, without its pods, as NODE-clone-1. May be given several times."),
        click.option("--remove", "removals", multiple=True, metavar="KIND/NAME", help="Change the input: remove an "
                     "object, such as node/n3 or pod/NAMESPACE/NAME. May be given several times."),
        click.option("--set", "assigned", multiple=True, metavar="KIND/NAME.FIELD=VALUE", help="Change the input: set "
                     "a field of an object, such as queue/x.spec.weight=4. May be given several times."),
    ):  # fmt: skip
        gathered = flag(gathered)
    return gathered


def filters(command: Command) -> Command:
    """`-n`, `--queue` and `--node`, as the parameter `shown`."""

    @wraps(command)
    def gathered(*, namespaces: Names, queues: Names, nodes: Names, **others: Any) -> None:
        from muster.sim.filters import Filter

        shown: Filter = Filter(namespaces, queues, nodes)
        command(shown=shown, **others)

    several = "May be given several times."
    for flag in (
        click.option("--node", "nodes", multiple=True, metavar="NODE", help=f"Show only pods on this node. {several}"),
        click.option("--queue", "queues", multiple=True, metavar="NAME", help=f"Show only this queue. {several}"),
        click.option("-n", "--namespace", "namespaces", multiple=True, metavar="NAME",
                     help=f"Show only pods of this namespace. {several}"),
    ):  # fmt: skip
        gathered = flag(gathered)
    return gathered


@dataclass(frozen=True, slots=True)
class Inputs:
    """How a command reads and simulates its input."""

    now: float | None
    workload_kinds: Names
    scheduler_names: Names
    keep_going: bool
    feature_gates: dict[str, bool] | None

    @classmethod
    def taken_from(cls, values: dict[str, Any]) -> Inputs:
        """Takes its options out of the values of all options."""
        return cls(**{field.name: values.pop(field.name) for field in fields(cls)})

    def read(self, paths: Sequence[str]) -> Manifests:
        from muster.cli.reading import read_manifests

        return read_manifests(paths, keep_going=self.keep_going, workload_kinds=self.workload_kinds)

    def read_files_or_live(
        self, paths: Sequence[str], kubeconfig: str | None, context: str | None, *, discreet: bool = True
    ) -> tuple[Manifests, float | None]:
        """Returns the cluster of the files, else the live one, and the time at which the simulation starts."""
        if paths:
            return self.read(paths), self.now
        from muster.cli.live import read_cluster

        found = read_cluster(kubeconfig, context, discreet=discreet, workload_kinds=self.workload_kinds)
        return found, time.time() if self.now is None else self.now


def inputs(command: Command) -> Command:
    """The options of all commands that simulate, as the parameter `inputs`, and `-v`."""

    @wraps(command)
    def gathered(*, verbosity: int, **others: Any) -> None:
        command(inputs=Inputs.taken_from(others), **others)

    for add in (verbosity, feature_gates, keep_going, scheduler_names, workload_kinds, now):
        gathered = add(gathered)
    return gathered


def keep_going(command: F) -> F:
    return click.option(
        "--keep-going", is_flag=True, help="Ignore invalid objects, and continue with the others."
    )(command)


def workload_kinds(command: F) -> F:
    return click.option(
        "--workload-kinds", "workload_kinds", type=click.Path(), multiple=True, metavar="FILE",
        help="Descriptions of further workload kinds. May be given several times.",
    )(command)  # fmt: skip


def scheduler_names(command: F) -> F:
    return click.option(
        "--scheduler-name", "scheduler_names", multiple=True, default=("muster", "volcano"), show_default=True,
        metavar="NAME", help="Schedule pods with this schedulerName (and those with none). May be given several times.",
    )(command)  # fmt: skip


class Gates(click.ParamType[dict[str, bool]]):
    """Feature gates as Kubernetes' components take them: NAME=true, several with commas."""

    name = "gates"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, bool]:
        from muster.cluster.job_groups import GATES

        if isinstance(value, dict):
            return value
        found: dict[str, bool] = {}
        for part in str(value).split(","):
            name, _, given = part.strip().partition("=")
            if name not in GATES:
                self.fail(f"{name!r} is not known to muster; known: {', '.join(GATES)}", param, ctx)
            if given.lower() not in ("true", "false"):
                self.fail(f"{part!r}: write {name}=true or {name}=false", param, ctx)
            found[name] = given.lower() == "true"
        return found


def feature_gates(command: F) -> F:
    return click.option(
        "--feature-gates", type=Gates(), metavar="NAME=true",
        help="A feature gate of the cluster's controllers: WorkloadWithJob makes gangs of Indexed Jobs. "
        "Without it: as a snapshot shows, else off.",
    )(command)  # fmt: skip


class Duration(click.ParamType[float]):
    """A length of time in seconds, more than 0: `90`, `30s`, `1h30m`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from muster.sim.durations import seconds_of

        try:
            length = seconds_of(value)
        except ValueError as fault:
            self.fail(str(fault), param, ctx)
        if length <= 0:
            self.fail(f"{value!r} is not more than 0", param, ctx)
        return length


DURATION = Duration()


class Moment(click.ParamType[float]):
    """A point in time: RFC 3339, or seconds since the epoch."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value)
        try:
            try:
                moment = datetime.fromtimestamp(float(text), UTC)
            except ValueError:
                moment = datetime.fromisoformat(text)
        except (ValueError, OverflowError, OSError):
            self.fail(f"{text!r} is not a time: write it like 2026-01-31T08:00:00Z", param, ctx)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def now(command: F) -> F:
    return click.option(
        "--now", type=Moment(), metavar="TIME",
        help="The start of the clock. Default: the latest timestamp in the input.",
    )(command)  # fmt: skip


MAX_FINDINGS = 10


def trace_options(command: F) -> F:
    """`--format`, `--columns` and `--strict`, as the keywords of `read_traces`."""
    for decorate in (
        click.option("--strict", is_flag=True, help="Stop at the first bad row. Default: bad rows are left out."),
        click.option("--columns", default="", metavar="KEY=COLUMN,…", help="The columns of a CSV or Parquet file, "
                     "such as submit=timestamp,gpus=num_gpus. docs/tasks/traces.md has all keys."),
        click.option("--format", "trace_format", default="", metavar="NAME", help="The format of the trace, if it is "
                     "not found by itself: openb, philly, helios, acme, pai, spot, tiresias, swf, …"),
    ):  # fmt: skip
        command = decorate(command)
    return command


def read_traces(paths: Sequence[str], *, trace_format: str = "", columns: str = "", strict: bool = False) -> Trace:
    """Reads traces and reports rows that are left out on stderr. Stops the command if there is nothing to use."""
    from muster.cli.answer import plural, waiting
    from muster.cli.reading import BadInput
    from muster.model.finding import InputError
    from muster.sim.traces.jobs import parse_columns
    from muster.sim.traces.read import read_trace

    try:
        with waiting("reading"):
            found = read_trace(
                paths, format=trace_format, columns=parse_columns(columns) if columns else None, strict=strict
            )
    except InputError as fault:
        for finding in fault.findings[:MAX_FINDINGS]:
            click.echo(str(finding), err=True)
        raise BadInput(f"muster: {fault.message}") from None
    for finding in found.findings[:MAX_FINDINGS]:
        click.echo(str(finding), err=True)
    if found.bad_rows:
        more = f", {MAX_FINDINGS} are shown" if found.bad_rows > MAX_FINDINGS else ""
        bad, jobs = plural(found.bad_rows, "bad row"), plural(len(found), "job")
        click.echo(f"left out: {bad}{more}; read: {jobs}", err=True)
    return found
