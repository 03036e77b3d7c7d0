"""`muster controllers`: node groups' statuses, bindings to policies, evictions and editions on a live cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.lease import lease as lease_options

if TYPE_CHECKING:
    from muster.process.leadership import LeaseSettings


@click.group(invoke_without_command=True)
@options.kubeconfig
@lease_options("controllers")
@options.configured
@click.option("--settle", type=click.FloatRange(min=0), default=10.0, show_default=True, metavar="SECONDS",
              help="Evict nothing until so long after the last change of a policy, group or number.")  # fmt: skip
@click.option("--rest", type=click.FloatRange(min=0), default=10.0, show_default=True, metavar="SECONDS",
              help="How long a kubelet has to begin the restart of a pod whose image was changed.")  # fmt: skip
@click.option("--eviction-rate", type=click.FloatRange(min=0, min_open=True), default=1.0, show_default=True,
              metavar="PER_SECOND", help="How many pods of all applications are evicted a second.")  # fmt: skip
@click.option("--eviction-burst", type=click.IntRange(min=1), default=5, show_default=True, metavar="N",
              help="How many may be evicted at once after a time without evictions.")  # fmt: skip
@click.option("--daemonset-affinity", type=bool, default=True, show_default=True, metavar="BOOL",
              help="Write the node groups of a DaemonSet as required node affinity into its pod template; false only "
              "reports.")  # fmt: skip
@click.option("--seats/--no-seats", default=True, show_default=True,
              help="Write each pod's seat as its deletion cost, so that a scale-down needs no evictions.")  # fmt: skip
@click.option("--node-labels/--no-node-labels", default=True, show_default=True,
              help="Label nodes with their groups, which the webhook's affinity needs.")  # fmt: skip
@click.option("--allow-privileged-overrides", is_flag=True,
              help="Policies may give pods privileges that their templates have not.")  # fmt: skip
@click.option("--revert-on-unbind", is_flag=True,
              help="Pods get their template back when their application asks for no OverridePolicy more.")  # fmt: skip
@click.option("--exclusive-groups", is_flag=True,
              help="A node is in one group only, the oldest that would contain it; an annotation of the groups tells "
              "the other parts.")  # fmt: skip
@click.option("--webhook-lease", metavar="NS/NAME", help="The Lease of muster webhook: while it is alive, pods "
              "are evicted whose edition only it can make. Default: muster-webhook in the namespace muster runs in, "
              "else in kube-system.")  # fmt: skip
@click.option("--extender-lease", metavar="NS/NAME", help="The Lease of muster extender: no pod is evicted for its "
              "place while nobody renews it. none: it is taken to be alive. Default: muster-extender beside the "
              "ConfigMap of --applications.")  # fmt: skip
@click.option("--scheduler-lease", metavar="NS/NAME", help="The same of muster scheduler, for pods with its name. "
              "Default: muster-scheduler beside the ConfigMap of --applications.")  # fmt: skip
@click.option("--scheduler-name", "scheduler_names", multiple=True, default=("muster", "volcano"), show_default=True,
              metavar="NAME", help="schedulerName of pods that muster scheduler places; may be repeated.")  # fmt: skip
@click.option("--dry-run", is_flag=True,
              help="Write nothing: log what would be evicted and patched, as things stand.")  # fmt: skip
@click.option("--metrics-host", "--host", "metrics_host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Where /healthz, /readyz and /metrics listen.")  # fmt: skip
@click.option("--metrics-port", "--port", "metrics_port", type=click.IntRange(0, 65535), default=8080,
              show_default=True, metavar="PORT", help="Their port; 0 takes any that is free and logs it.")  # fmt: skip
@options.verbosity
def controllers(
    kubeconfig: str | None,
    context: str | None,
    lease: Callable[[], LeaseSettings],
    configured: Callable[[], str],
    settle: float,
    rest: float,
    eviction_rate: float,
    eviction_burst: int,
    daemonset_affinity: bool,
    seats: bool,
    node_labels: bool,
    allow_privileged_overrides: bool,
    revert_on_unbind: bool,
    exclusive_groups: bool,
    webhook_lease: str | None,
    extender_lease: str | None,
    scheduler_lease: str | None,
    scheduler_names: tuple[str, ...],
    dry_run: bool,
    metrics_host: str,
    metrics_port: int,
    verbosity: int,
) -> None:
    """Keep node groups, propagation and override policies true until told to stop (SIGTERM ends gracefully)."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    from muster.cli.live import home_of, own_namespace, run_until_stopped
    from muster.groupctl.controllers.service import Service, Settings
    from muster.process.logs import Log

    leases = {"webhook": webhook_lease, "extender": extender_lease, "scheduler": scheduler_lease}
    for part, name in leases.items():
        if name is not None and name.count("/") != 1 and (name != "none" or part == "webhook"):
            raise click.UsageError(f"--{part}-lease is NAMESPACE/NAME")
    kinds = configured()
    namespace = home_of(kinds)
    settings = Settings(
        lease=lease(),
        configured=kinds,
        kubeconfig=kubeconfig,
        context=context,
        probes_host=metrics_host,
        probes_port=metrics_port,
        settle=settle,
        rest=rest,
        seats=seats,
        node_labels=node_labels,
        privileged=allow_privileged_overrides,
        revert=revert_on_unbind,
        exclusive=exclusive_groups,
        webhook_lease=webhook_lease or f"{own_namespace()}/muster-webhook",
        extender_lease=extender_lease or f"{namespace}/muster-extender",
        scheduler_lease=scheduler_lease or f"{namespace}/muster-scheduler",
        scheduler_names=scheduler_names,
        eviction_rate=eviction_rate,
        eviction_burst=eviction_burst,
        daemonset_affinity=daemonset_affinity,
        dry_run=dry_run,
    )
    run_until_stopped(Service(settings, Log(verbosity)).run)


@controllers.command()
@options.files(required=False)
@options.kubeconfig
@click.option("--cluster", "clusters", type=click.Path(), multiple=True, metavar="FILE_OR_DIR",
              help="The cluster in manifests or a snapshot, in place of the live one.")  # fmt: skip
@click.option("--webhook/--no-webhook", default=None, help="New pods are made in their group's edition, in namespaces "
              "that have opted in. Default: as in the live cluster; in manifests nobody does.")  # fmt: skip
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
    """Show the evictions and patches that changed manifests (-f) would cause, before they happen.

    Without -f: what the cluster as it stands would see. Nothing is written.
    """
    from muster.cli.answer import print_json, waiting
    from muster.cli.configuration import chosen_from, given, used
    from muster.cli.live import read_cluster, webhook_is_alive
    from muster.cli.reading import read_manifests
    from muster.sim.plan import overlaid
    from muster.sim.plan import plan as played

    told = given(config)
    one = None if told is None else used(told)
    if clusters:
        there, alive = read_manifests(clusters, keep_going=keep_going), False
    else:
        there = read_cluster(kubeconfig, context, discreet=False)
        alive = webhook_is_alive(kubeconfig, context) if webhook is None else False
    one = one or used(chosen_from(there.objects, ("muster", "volcano")))
    changes = read_manifests(files, keep_going=keep_going) if files else None
    objects = overlaid(there.objects, changes.objects if changes is not None else {})
    with waiting("playing"):
        now = max(there.latest, changes.latest if changes is not None else 0.0)
        found = played(one.scheduler, objects, now, webhook=alive if webhook is None else webhook)
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    if form == "json":
        print_json({**found.as_dict(), "configuration": one.as_dict()})
        return
    click.echo(f"configuration: {one}")
    for step in found.steps:
        click.echo(f"{step.at - found.began:8.1f} s  {step.verb:<7} {step.kind} {step.key}  {step.text}".rstrip())
    verbs = [step.verb for step in found.steps]
    pending = f", {len(found.pending)} pods are left pending" if found.pending else ""
    click.echo(f"{verbs.count('evict')} evictions, {verbs.count('images')} pods with other images{pending}")
