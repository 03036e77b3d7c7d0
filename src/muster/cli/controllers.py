"""`muster controllers`: node groups' statuses, bindings to policies, evictions and editions on a live cluster."""

from __future__ import annotations

import click

from muster.cli import options
from muster.cli.flags import flags
from muster.cli.help import Group
from muster.groupctl.controllers.settings import ControllerSettings


@click.group(invoke_without_command=True, cls=Group, example="muster controllers --dry-run --no-leader-elect")
@flags(ControllerSettings, "controllers")
@options.verbosity
def controllers(settings: ControllerSettings, verbosity: int) -> None:
    """Run the controllers of node groups and their policies.

    They update the statuses of NodeGroups, PropagationPolicies and OverridePolicies, bind applications to policies,
    evict and patch pods, until SIGTERM.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    from muster.cli.live import run_until_stopped
    from muster.groupctl.controllers.service import ControllersService
    from muster.process.logs import Log

    run_until_stopped(ControllersService(settings, Log(verbosity)))


@controllers.command(example="muster controllers plan --cluster cluster.yaml -f propagation.yaml")
@options.files(required=False)
@options.kubeconfig
@click.option("--cluster", "clusters", type=click.Path(), multiple=True, metavar="FILE_OR_DIR",
              help="The cluster in manifests or a snapshot, in place of the live one.")  # fmt: skip
@click.option("--webhook/--no-webhook", default=None, help="New pods are made in their group's edition, in namespaces "
              "that have opted in. Default: as in the live cluster; with manifests: no.")  # fmt: skip
@options.config
@options.output("table", "json")
@options.keep_going
@options.verbosity
def plan(
    files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    clusters: tuple[str, ...],
    webhook: bool | None,
    config: str | None,
    form: str,
    keep_going: bool,
    verbosity: int,
) -> None:
    """Show the evictions and patches that manifests would cause.

    The manifests of -f are applied to a copy of the cluster, and nothing is written. Without -f, the current cluster is
    used.
    """
    from muster.cli.answer import console, print_json, row, table, waiting
    from muster.cli.live import read_cluster, webhook_is_alive
    from muster.cli.reading import config_from_flag, config_from_objects, load_and_report, read_manifests
    from muster.sim.applied import overlaid
    from muster.sim.controller_plan import plan as played

    source = config_from_flag(config)
    one = None if source is None else load_and_report(source)
    if clusters:
        there, alive = read_manifests(clusters, keep_going=keep_going), False
    else:
        there = read_cluster(kubeconfig, context, discreet=False)
        alive = webhook_is_alive(kubeconfig, context) if webhook is None else False
    one = one or load_and_report(config_from_objects(there.objects, ("muster", "volcano")))
    changes = read_manifests(files, keep_going=keep_going) if files else None
    objects = overlaid(there.objects, changes.objects if changes is not None else {})
    with waiting("playing"):
        now = max(there.latest, changes.latest if changes is not None else 0.0)
        found = played(one.scheduler, objects, now, webhook=alive if webhook is None else webhook)
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    if form == "json":
        print_json({**found.to_dict(), "configuration": one.to_dict()})
        return
    click.echo(f"configuration: {one}")
    if found.steps:
        steps = table("Planned writes", "after", "what", "kind", "object", "details")
        for step in found.steps:
            row(steps, f"{step.at - found.began:.1f} s", step.verb, step.kind, step.key, step.text)
        console().print(steps)
    verbs = [step.verb for step in found.steps]
    pending = f", {len(found.pending)} pods stay pending" if found.pending else ""
    click.echo(f"{verbs.count('evict')} evictions, {verbs.count('images')} pods with other images{pending}")
