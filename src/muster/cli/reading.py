"""What every verb does with its input: read it, say on stderr what is wrong, go no further if it is unusable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli import VERBOSITY
from muster.cli.answer import waiting

if TYPE_CHECKING:
    from muster.cluster.manifests import Manifests
    from muster.engine.core.session import Message
    from muster.model.finding import Finding

MOST_LINES = 30


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
    """The log of a session: lines up to the verbosity go to stderr."""
    if level <= verbosity():
        click.echo(message if isinstance(message, str) else message(), err=True)


def tell(findings: Iterable[Finding]) -> None:
    """Findings on stderr; notices only when asked for more."""
    chatty = verbosity() > 0
    lines = [str(finding) for finding in findings if chatty or finding.severity != "notice"]
    for line in lines[:MOST_LINES]:
        click.echo(line, err=True)
    if len(lines) > MOST_LINES:
        click.echo(f"… and {len(lines) - MOST_LINES} more; `muster validate` shows all", err=True)


def config_text(path: str) -> str:
    """The text of a configuration: of a file, or of a ConfigMap in the cluster."""
    from muster.config.announced import PREFIX

    if path.startswith(PREFIX):
        from muster.cli.live import read_config_map

        return read_config_map(path)
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{path}: error: is not UTF-8 text (save the file as UTF-8)") from None
    except OSError as fault:
        why = f"cannot be read: {fault.strerror} (look at the path and its permissions)"
        raise BadInput(f"{path}: error: {why}") from None


def read_manifests(paths: Sequence[str], *, keep_going: bool = False) -> Manifests:
    """The objects of `-f`. Faults end the command, unless bad objects are to be set aside."""
    from muster.cluster.manifests import read_paths

    with waiting("reading"):
        manifests = read_paths(paths)
    tell(manifests.findings)
    errors = manifests.errors
    unreadable = [finding for finding in errors if finding.code == "file"]
    if unreadable or (errors and not keep_going):
        way_out = "" if unreadable else "; --keep-going sets bad objects aside and goes on with the others"
        raise BadInput(f"muster: {len(errors)} error{'s'[: len(errors) != 1]} in the input{way_out}")
    refuse_nothing(manifests, paths)
    if manifests.skipped:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(manifests.skipped.items()))
        click.echo(f"skipped: {kinds}", err=True)
    return manifests


def refuse_nothing(manifests: Manifests, paths: Sequence[str]) -> None:
    """Input without one usable object is a mistake in the paths or in the files, not an empty cluster."""
    if not any(manifests.objects.values()):
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(manifests.skipped.items()))
        skipped = f" (skipped: {kinds})" if kinds else ""
        raise BadInput(f"muster: there is no usable object in {', '.join(paths)}{skipped}")
