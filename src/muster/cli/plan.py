"""`muster plan`: what changes if manifests are applied to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli import options, selection
from muster.cli.answer import counted, plural, row, some, styled, table
from muster.cli.help import Command
from muster.model.natural_order import natural

if TYPE_CHECKING:
    from rich.console import Console

    from muster.model.meta import LabelSelector
    from muster.sim.applied import ApplyPlan
    from muster.sim.difference import GroupDifference


@click.command(cls=Command, example="muster plan -f job.yaml --cluster cluster.yaml")
@options.config
@options.files(required=True)
@selection.cluster_files
@options.kubeconfig
@selection.namespace("The namespace of manifests that name none.")
@selection.manifest_labels
@options.output("table", "wide", "json")
@options.inputs
def plan(
    config: str | None,
    files: tuple[str, ...],
    clusters: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    labels: LabelSelector | None,
    form: str,
    inputs: options.Inputs,
) -> None:
    """Show what changes if manifests are applied to a cluster.

    Two simulations are compared, without and with the manifests (-f): the objects that are created or changed, and the
    pods that are bound, moved, evicted or waiting because of them, by group. Nothing is written to the cluster.
    """
    from muster.cli.answer import console, print_json, waiting
    from muster.cli.reading import BadInput, config_of, given_config, log
    from muster.model.finding import InputError
    from muster.sim.api import plan as run

    one = given_config(config)
    changes = inputs.read(files)
    changes = selection.with_labels(changes, labels)
    there, now = inputs.read_files_or_live(clusters, kubeconfig, context, discreet=False)
    one = one or config_of(there.objects, inputs.scheduler_names)
    try:
        with waiting("simulating"):
            found = run(
                changes, there, config=one, now=now, namespace=namespace, scheduler_names=inputs.scheduler_names,
                keep_going=True, feature_gates=inputs.feature_gates, log=log,
            )  # fmt: skip
    except InputError as why:
        raise BadInput(f"muster: {why.message}") from None
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    if form == "json":
        print_json(found.to_dict())
    else:
        click.echo(f"configuration: {one}")
        show_plan(console(), found)


def show_plan(console: Console, found: ApplyPlan) -> None:
    """Prints the objects, then what differs by group."""
    if found.changes:
        objects = table("Objects", "", "kind", "name", "fields")
        for change in found.changes:
            row(objects, "create" if change.created else "change", change.kind, change.name, _fields(change.fields))
        console.print(objects)
    groups = found.difference.groups
    if groups:
        console.print(differences(groups))
    counts = {kind: sum(len(getattr(group, kind)) for group in groups) for kind in KINDS}
    parts = [f"{plural(n, 'pod')} {_WORDS[kind]}" for kind, n in counts.items() if n]
    unchanged = f"; {plural(found.unchanged, 'object')} unchanged" if found.unchanged else ""
    console.print(styled((", ".join(parts) or "No pod is affected") + unchanged, "bold"))


KINDS = ("bound", "moved", "evicted", "spared", "waiting", "removed")
_WORDS = {
    "bound": "bound", "moved": "on another node", "evicted": "evicted", "spared": "no longer evicted",
    "waiting": "waiting", "removed": "removed",
}  # fmt: skip


def differences(groups: list[GroupDifference]) -> object:
    """Returns the table of what differs, a row for each group and kind of difference."""
    found = table("Decisions that differ, by group", "group", "queue", "", "pods", "details")
    for group in sorted(groups, key=lambda group: natural(group.group)):
        first = True
        for kind in KINDS:
            pods = getattr(group, kind)
            if pods:
                name = (group.group, group.queue or "–") if first else ("", "")
                row(found, *name, _WORDS[kind], len(pods), _details(group, kind))
                first = False
    return found


def _details(group: GroupDifference, kind: str) -> str:
    match kind:
        case "bound" | "removed":
            return f"on {counted(getattr(group, kind).values())}"
        case "moved":
            return some([f"{pod}: {before} → {after}" for pod, (before, after) in group.moved.items()], 3)
        case "waiting":
            reasons = dict.fromkeys(group.waiting.values())
            return some(list(reasons), 2)
    evictions = group.evicted if kind == "evicted" else group.spared
    return some([f"{e.pod} from {e.node} for {e.by} ({e.rule})" for e in evictions], 3)


def _fields(patch: object, path: str = "") -> str:
    """Returns a merge patch as one line: `spec.weight=4, spec.parent removed`."""
    if isinstance(patch, dict):
        return ", ".join(filter(None, (_fields(value, f"{path}.{name}" if path else name)
                                       for name, value in patch.items())))  # fmt: skip
    return f"{path} removed" if patch is None else f"{path}={patch}"
