"""The command line: one file for each command.

A command is imported when it is called, and imports the packages it needs when it runs: `muster --help` and shell
completion answer at once.
"""

from __future__ import annotations

import sys
from importlib import import_module
from io import TextIOWrapper
from traceback import format_exc

import click

from muster import __version__

__all__ = ["VERBS", "main"]

VERBS: dict[str, str] = {
    "bench": "muster.cli.bench:bench",
    "controllers": "muster.cli.controllers:controllers",
    "crds": "muster.cli.crds:crds",
    "demo": "muster.cli.demo:demo",
    "distribute": "muster.cli.distribute:distribute",
    "edge-gate": "muster.cli.edge_gate:edge_gate",
    "explain": "muster.cli.explain:explain",
    "extender": "muster.cli.extender:extender",
    "manifests": "muster.cli.manifests:manifests",
    "override": "muster.cli.override:override",
    "plugins": "muster.cli.plugins:plugins",
    "pod-groups": "muster.cli.pod_groups:pod_groups",
    "replay": "muster.cli.replay:replay",
    "scheduler": "muster.cli.scheduler:scheduler",
    "simulate": "muster.cli.simulate:simulate",
    "snapshot": "muster.cli.snapshot:snapshot",
    "sweep": "muster.cli.sweep:sweep",
    "trace": "muster.cli.trace:trace",
    "validate": "muster.cli.validate:validate",
    "webhook": "muster.cli.webhook:webhook",
    "workload-kinds": "muster.cli.workload_kinds:workload_kinds",
}
"""Verb → where its click command is."""

LIVE = ("aiohttp", "cryptography", "kubernetes", "multidict", "prometheus_client", "yarl")
"""Packages of the extra `live`, and those of their dependencies that are imported, too."""

VERBOSITY = "muster.verbosity"
TRACEBACK_VERBOSITY = 9


class Verbs(click.Group):
    """A group whose commands are imported when they are called, and that prints a traceback only with -v 9."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = VERBS.get(cmd_name)
        if target is None:
            return None
        module, _, attribute = target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from muster.config.names import suggest

            raise click.UsageError(f"no such command {args[0]!r}: {suggest(args[0], VERBS)}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort, click.ClickException, BrokenPipeError):
            raise
        except Exception as fault:
            if ctx.meta.get(VERBOSITY, 0) >= TRACEBACK_VERBOSITY:
                click.echo(format_exc(), err=True, nl=False)
            click.echo(f"muster: {_message(fault)}", err=True)
            sys.exit(2)


def _message(fault: Exception) -> str:
    """Returns one line about an unexpected exception."""
    text = " ".join(str(fault).split()) or "no message"
    if isinstance(fault, OSError) and fault.filename is None:
        return f"the answer cannot be written: {fault.strerror or text}"
    if isinstance(fault, ModuleNotFoundError) and (fault.name or "").partition(".")[0] in LIVE:
        needed = "a live cluster needs the extra `live`"
        return f"{fault.name} is not installed: {needed} (pip install 'muster[live]'; in a clone: make venv)"
    from muster.cycle.host import PluginError

    if isinstance(fault, PluginError):
        return f"{text} (report it to the authors of that package; -v 9 shows the stack trace)"
    return f"unexpected {type(fault).__name__}: {text} (a fault of muster itself; -v 9 shows where)"


COMPLETION = """\b
Shell completion, in ~/.bashrc: eval "$(_MUSTER_COMPLETE=bash_source muster)"
in ~/.zshrc: eval "$(_MUSTER_COMPLETE=zsh_source muster)"
for fish: _MUSTER_COMPLETE=fish_source muster > ~/.config/fish/completions/muster.fish"""


@click.group(cls=Verbs, epilog=COMPLETION, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="muster")
def main() -> None:
    """Gather pods onto the right group of nodes."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 gets a ? for what it cannot show
