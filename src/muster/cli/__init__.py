"""The command line: one file for each command.

A command is imported when it is called, and imports the packages it needs when it runs: `muster --help` and shell
completion answer at once.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from io import TextIOWrapper
from traceback import format_exc
from typing import Any, TextIO, cast

import click

from muster import __version__
from muster.cli.help import Group, write_examples

__all__ = ["GROUPS", "VERBS", "main"]

GROUPS: dict[str, dict[str, str]] = {
    "Simulator": {
        "simulate": "muster.cli.simulate:simulate",
        "explain": "muster.cli.explain:explain",
        "ask": "muster.cli.ask:ask",
        "plan": "muster.cli.plan:plan",
        "queues": "muster.cli.queues:queues",
        "validate": "muster.cli.validate:validate",
        "replay": "muster.cli.replay:replay",
        "sweep": "muster.cli.sweep:sweep",
        "trace": "muster.cli.trace:trace",
        "demo": "muster.cli.demo:demo",
    },
    "Scheduler": {
        "scheduler": "muster.cli.scheduler:scheduler",
        "pod-groups": "muster.cli.pod_groups:pod_groups",
        "plugins": "muster.cli.plugins:plugins",
        "workload-kinds": "muster.cli.workload_kinds:workload_kinds",
    },
    "Node groups": {
        "distribute": "muster.cli.distribute:distribute",
        "override": "muster.cli.override:override",
        "controllers": "muster.cli.controllers:controllers",
        "webhook": "muster.cli.webhook:webhook",
        "extender": "muster.cli.extender:extender",
        "edge-gate": "muster.cli.edge_gate:edge_gate",
    },
    "Tools": {
        "dashboard": "muster.cli.dashboard:dashboard",
        "snapshot": "muster.cli.snapshot:snapshot",
        "crds": "muster.cli.crds:crds",
        "manifests": "muster.cli.manifests:manifests",
        "bench": "muster.cli.bench:bench",
    },
}
"""Heading of the help → verb → where its click command is, in the order of the help."""

VERBS = {verb: target for verbs in GROUPS.values() for verb, target in verbs.items()}

LASTING = frozenset({
    "ask", "bench", "controllers", "dashboard", "demo", "edge-gate", "extender", "replay", "scheduler", "sweep",
    "webhook",
})  # fmt: skip
"""The verbs that run for long, or do the same work many times: only they search for garbage while they run."""

EXAMPLES = (
    "muster simulate -f cluster.yaml job.yaml",
    "muster explain default/train-0 -f cluster.yaml job.yaml",
    "muster snapshot prod.ndjson.gz",
    "muster simulate -c scheduler.yaml -f prod.ndjson.gz",
)
"""A first session; the help of each command has an example of its own."""

LIVE = ("aiohttp", "cryptography", "kubernetes", "multidict", "prometheus_client", "uvloop", "yarl")
"""Packages of the extra `live`, and those of their dependencies that are imported, too."""

VERBOSITY = "muster.verbosity"
TRACEBACK_VERBOSITY = 9


class Verbs(Group):
    """A group whose commands are imported when they are called, and that prints a traceback only with -v 9."""

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Without arguments: runs the verb of the command line as the only task of this process.

        What most verbs read and make is needed until they end. They neither search it for garbage nor free it at the
        end: with many pods that takes a fifth of their time.
        """
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start threads for algebra that nobody uses
        if args or settings or not LASTING.isdisjoint(sys.argv[1:2]):
            return self.main(*args, **settings)
        gc.disable()
        try:
            return self.main(*args, **settings)
        except SystemExit as end:
            sys.stdout.flush()
            sys.stderr.flush()
            if isinstance(end.code, int):
                os._exit(end.code)
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def sections(self) -> Mapping[str, Iterable[str]]:
        return GROUPS

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        write_examples(formatter, EXAMPLES)

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


MORE = """\b
`muster COMMAND --help` shows the options of a command and an example.

\b
Shell completion:
bash, in ~/.bashrc: eval "$(_MUSTER_COMPLETE=bash_source muster)"
zsh, in ~/.zshrc:   eval "$(_MUSTER_COMPLETE=zsh_source muster)"
fish:               _MUSTER_COMPLETE=fish_source muster > ~/.config/fish/completions/muster.fish"""


@click.group(cls=Verbs, epilog=MORE, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="muster")
def main() -> None:
    """Schedule pods in gangs and queues, simulate it from manifests, and manage groups of nodes."""
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 gets a ? for what it cannot show
    from muster.cli.answer import VisibleStream

    if not isinstance(sys.stderr, VisibleStream):
        sys.stderr = cast("TextIO", VisibleStream(sys.stderr))
