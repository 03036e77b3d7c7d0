"""`muster distribute`: how a PropagationPolicy divides a number of replicas."""

from __future__ import annotations

import click

from muster.cli import options
from muster.cli.help import Command
from muster.cli.reading import policy_file

_MAX_REPLICAS = 2**53


@click.command(cls=Command, example="muster distribute --policy propagation.yaml --replicas 10")
@policy_file
@click.option(
    "--replicas", required=True, type=click.IntRange(0, _MAX_REPLICAS), metavar="N",
    help="The number of replicas to divide.",
)
@click.option("--uid", default="", help="The application's uid, which breaks ties.")
@options.output("table", "json")
@options.verbosity
def distribute(policy: str, replicas: int, uid: str, form: str, verbosity: int) -> None:
    """Show how many of N replicas each node group gets.

    It also shows how many replicas get no node group. If the same file has NodeGroups, only these exist; without
    NodeGroups every name is accepted.
    """
    from muster.cli.answer import console, print_json
    from muster.cli.reading import BadInput, print_problems, read_policy
    from muster.groups.propagation import parse_propagation
    from muster.model.groups import NodeGroup, PropagationPolicy

    found, manifests = read_policy(policy, PropagationPolicy)
    parsed = parse_propagation(found.spec, list(manifests.of(NodeGroup)) or None)
    print_problems("warning", found, manifests, parsed.warnings)
    if print_problems("error", found, manifests, parsed.errors):
        raise BadInput(f"muster: {policy} cannot be used")
    quotas = parsed.quotas(replicas, uid)
    if form == "json":
        print_json({"groups": {name: q.desired for name, q in quotas.groups.items()}, "unplaced": quotas.unplaced})
        return
    from muster.cli.answer import row, table

    shown = table(f"{replicas} replicas by {found.metadata.name} ({parsed.strategy})", "node group", "replicas")
    for name, quota in quotas.groups.items():
        row(shown, name, quota.desired)
    if quotas.unplaced:
        row(shown, "(no place)", quotas.unplaced, style="yellow")
    console().print(shown)
