"""Reads the input and the configuration of a command, and stops if they cannot be used; problems are on stderr.

The configuration is that of -c, else the one that a snapshot or the live cluster has, else the built-in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from muster.cli import VERBOSITY
from muster.cli.answer import waiting
from muster.cli.options import F
from muster.model.finding import InputError

if TYPE_CHECKING:
    from muster.cluster.manifests import Manifests
    from muster.cycle.scheduler import Scheduler
    from muster.engine.core.session import Message
    from muster.engine.core.state import Objects
    from muster.groups.propagation import PolicyProblem
    from muster.model.finding import Finding, Severity
    from muster.model.meta import Object
    from muster.sim.inputs import ConfigText, LoadedConfig

MAX_LINES = 30
P = TypeVar("P", bound="Object")


class BadInput(click.ClickException):
    """The input cannot be used: one line per fault, exit code 2."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        click.echo(self.format_message(), err=True)


def verbosity() -> int:
    level = click.get_current_context().meta.get(VERBOSITY, 0)
    assert isinstance(level, int)
    return level


def log(level: int, message: Message) -> None:
    """Prints the lines of a session up to the verbosity on stderr."""
    if level <= verbosity():
        click.echo(message if isinstance(message, str) else message(), err=True)


def print_findings(findings: Iterable[Finding]) -> None:
    """Prints findings on stderr, notices only with -v."""
    chatty = verbosity() > 0
    lines = [str(finding) for finding in findings if chatty or finding.severity != "notice"]
    for line in lines[:MAX_LINES]:
        click.echo(line, err=True)
    if len(lines) > MAX_LINES:
        click.echo(f"… and {len(lines) - MAX_LINES} more; `muster validate` shows all", err=True)


def config_text(path: str) -> str:
    """Reads the text of a configuration: from a file, or from a ConfigMap in the cluster."""
    from muster.config.announced_config import PREFIX
    from muster.sim.inputs import config_text as text_of

    if path.startswith(PREFIX):
        from muster.cli.live import read_config_map

        return read_config_map(path)
    try:
        found = text_of(path)
    except InputError as fault:
        raise BadInput("\n".join(map(str, fault.findings))) from None
    assert found is not None
    return found.text


def read_manifests(
    paths: Sequence[str], *, keep_going: bool = False, workload_kinds: Sequence[str] = ()
) -> Manifests:
    """Reads the objects of `-f`. Errors end the command, unless invalid objects are to be ignored."""
    from muster.sim.inputs import usable_cluster

    try:
        with waiting("reading", "documents") as shown:
            manifests = usable_cluster(
                paths, keep_going=keep_going, workload_kinds=workload_kinds, progress=shown.update
            )
    except InputError as fault:
        print_findings(fault.findings)
        errors = [finding for finding in fault.findings if finding.severity == "error"]
        fixable = errors and not keep_going and all(finding.code != "file" for finding in errors)
        way_out = "; --keep-going ignores invalid objects and continues with the others" if fixable else ""
        raise BadInput(f"muster: {fault.message}{way_out}") from None
    print_findings(manifests.findings)
    if manifests.skipped:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(manifests.skipped.items()))
        click.echo(f"skipped: {kinds}", err=True)
    return manifests


def table_texts(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Reads tables of workload kinds: the name and the text of each."""
    from muster.sim.inputs import table_texts as texts_of

    try:
        return texts_of(paths)
    except InputError as fault:
        raise BadInput("\n".join(map(str, fault.findings))) from None


def policy_file(command: F) -> F:
    return click.option(
        "--policy", required=True, type=click.Path(), metavar="FILE", help="The manifest of the policy; - is stdin."
    )(command)


def read_policy(path: str, kind: type[P]) -> tuple[P, Manifests]:
    """Reads the file's only policy of that kind."""
    manifests = read_manifests([path])
    found = list(manifests.of(kind).values())
    if len(found) == 1:
        return found[0], manifests
    what = kind.__name__
    if not found:
        raise BadInput(f"{path}: error: there is no {what} in it (give the file that has one)")
    names = ", ".join(policy.metadata.name for policy in found)
    raise BadInput(f"{path}: error: there are {len(found)} of kind {what}: {names} (give a file with one)")


def print_problems(severity: Severity, policy: Object, manifests: Manifests, problems: Iterable[PolicyProblem]) -> int:
    """Prints each problem on stderr with its file and line; returns their number."""
    from muster.model.finding import Finding
    from muster.model.meta import key

    kind, name = type(policy).__name__, key(policy)
    place = manifests.where.place(kind, name)
    count = 0
    for problem in problems:
        message = f"{problem.path}: {problem.message}"
        line = place.line_of(problem.path)
        click.echo(str(Finding(severity, place.file, line, f"{kind} {name}", "policy", message, problem.fix)), err=True)
        count += 1
    return count


def config_from_flag(config: str | None) -> ConfigText | None:
    """Reads the configuration of -c. It is read before everything else, because it has precedence."""
    from muster.sim.inputs import ConfigText

    return None if config is None else ConfigText(config_text(config), config)


def given_config(config: str | None) -> LoadedConfig | None:
    """Loads the configuration of -c."""
    text = config_from_flag(config)
    return None if text is None else load_and_report(text)


def config_of(objects: Objects, scheduler_names: Sequence[str]) -> LoadedConfig:
    """Loads the configuration that the snapshot or the live cluster names, else the built-in default."""
    return load_and_report(config_from_objects(objects, scheduler_names))


def config_from_objects(objects: Objects, scheduler_names: Sequence[str]) -> ConfigText:
    """Returns the configuration that the snapshot or the live cluster names, else the built-in default."""
    from muster.sim.inputs import config_for

    try:
        return config_for(objects, scheduler_names)
    except InputError as fault:
        raise BadInput(f"muster: {fault}") from None


def scheduler_of(config: str | None) -> Scheduler:
    """Builds a scheduler with the configuration of -c, or with the built-in one."""
    from muster.sim.inputs import default_config

    return load_and_report(config_from_flag(config) or default_config()).scheduler


def load_and_report(text: ConfigText) -> LoadedConfig:
    """Builds a scheduler with that configuration; prints what the loader and the plugins find on stderr."""
    from muster.sim.inputs import load_config

    try:
        loaded = load_config(text)
    except InputError as fault:
        print_findings(fault.findings)
        raise BadInput(f"muster: {fault.message}") from None
    print_findings(loaded.findings)
    warn(loaded)
    return loaded


def warn(loaded: LoadedConfig) -> None:
    """Prints the warnings of a configuration on stderr."""
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
