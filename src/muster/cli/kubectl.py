"""`kubectl muster`: explain, ask, queues and plan as a plugin of kubectl, on the live cluster unless files are given.

kubectl runs the program `kubectl-muster` with the words after `kubectl muster`. Like kubectl's own commands these use
the namespace of the kubeconfig's context unless -n or -A is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from muster.cli import VERBS, Verbs
from muster.cli.help import Group, write_examples
from muster.cli.options import Inputs
from muster.cli.selection import Selector, Shown

if TYPE_CHECKING:
    from muster.model.meta import LabelSelector

COMMANDS = ("explain", "ask", "queues", "plan")
EXAMPLES = (
    "kubectl muster explain train-0 -n team",
    "kubectl muster ask -f job.yaml",
    "kubectl muster queues -A",
    "kubectl muster plan -f job.yaml",
)
MAX_EXPLAINED = 10  # groups that -l or -A may explain; each takes a simulation


class Plugin(Verbs):
    """The commands of the plugin, which are those of `muster` with kubectl's defaults."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def sections(self) -> dict[str, Sequence[str]]:
        return {"Commands": COMMANDS}

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        Group.format_help_text(self, ctx, formatter)
        write_examples(formatter, EXAMPLES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return _explain() if cmd_name == "explain" else super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            where = f": muster itself has it, as `muster {args[0]}`" if args[0] in VERBS else ""
            raise click.UsageError(f"no such command {args[0]!r}{where}; there are {', '.join(COMMANDS)}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if ctx.resilient_parsing:
            return name, command, rest  # completion: what the user has not typed yet is still to be offered
        if {"-h", "--help"}.isdisjoint(rest) and not _has(rest, "-n", "--namespace", "-A", "--all-namespaces"):
            rest = ["-n", namespace_of(_value(rest, "--kubeconfig"), _value(rest, "--context")), *rest]
        return name, command, rest


@click.group(cls=Plugin, context_settings={"help_option_names": ["-h", "--help"]})
def kubectl_muster() -> None:
    """Explain, plan and order the decisions of the muster scheduler in this cluster."""


def main() -> None:
    """Runs the plugin under the name that users type."""
    kubectl_muster(prog_name="kubectl muster")


def _has(args: Sequence[str], *names: str) -> bool:
    """Returns whether one of the options is given: `-n x`, `-nx`, `--namespace x` or `--namespace=x`."""
    return any(
        arg == name or arg.startswith(f"{name}=") or (name[1] != "-" and arg.startswith(name) and arg[1] != "-")
        for arg in args for name in names
    )  # fmt: skip


def _value(args: Sequence[str], name: str) -> str | None:
    for i, arg in enumerate(args):
        if arg.startswith(f"{name}="):
            return arg.partition("=")[2]
        if arg == name and i + 1 < len(args):
            return args[i + 1]
    return None


def namespace_of(kubeconfig: str | None, context: str | None) -> str:
    """Returns the namespace of the context in the kubeconfig; `default` if it names none or there is no kubeconfig."""
    from muster.kube.config import NoAccess, default_namespace

    try:
        return default_namespace(kubeconfig, context)
    except NoAccess:
        return "default"  # the command itself reports it


def _explain() -> click.Command:
    """Returns `explain` on the live cluster, where -l and -A select the groups whose waiting pods are explained."""
    from muster.cli.explain import explain as base

    run: Any = base.callback

    def explain(pod: str | None, labels: LabelSelector | None, all_namespaces: bool, **values: Any) -> None:
        values["live"] = not values["files"]
        if pod is not None:
            run(pod=pod, **values)
            return
        if labels is None and not all_namespaces:
            raise click.UsageError("name a pod (or KIND/NAME), or select waiting pods with -l SELECTOR or -A")
        shown = Shown("" if all_namespaces else values.get("namespace") or "", labels)
        for name in _waiting_pods(shown, values):
            run(pod=name, **{**values, "namespace": None})

    params = [param for param in base.params if param.name != "pod"]
    pods = click.Argument(["pod"], required=False, metavar="[POD]")
    made = type(base)(
        "explain", callback=explain, params=[pods, *params], help=base.help,
        example="kubectl muster explain train-0 -n team",
    )  # fmt: skip
    made.params += [
        click.Option(["-l", "--selector", "labels"], type=Selector(), metavar="SELECTOR",
                     help="Explain the first waiting pod of each group with matching labels (app=web,tier!=db)."),
        click.Option(["-A", "--all-namespaces"], is_flag=True, help="Select groups in all namespaces."),
    ]  # fmt: skip
    return made


def _waiting_pods(shown: Shown, values: dict[str, Any]) -> list[str]:
    """Returns the first waiting pod of each selected group, in the order in which the scheduler serves them."""
    from muster.cli.reading import BadInput, config_of
    from muster.sim.api import queues

    inputs = Inputs.taken_from(dict(values))
    there, now = inputs.read_files_or_live(values["files"], values["kubeconfig"], values["context"])
    names = inputs.scheduler_names
    jobs = queues(there, config=config_of(there.objects, names), now=now, scheduler_names=names, keep_going=True).jobs
    pods = [job.pods[0] for job in jobs if shown.has(job.namespace, job.labels)]
    if not pods:
        raise BadInput("muster: no pod that waits for a node is selected")
    if len(pods) > MAX_EXPLAINED:
        click.echo(f"the first {MAX_EXPLAINED} of {len(pods)} groups; select fewer with -n or -l", err=True)
    return pods[:MAX_EXPLAINED]
