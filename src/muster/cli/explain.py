"""`muster explain`: why a pod would go where it goes, or nowhere."""

from __future__ import annotations

import time

import click

from muster.cli import options


@click.command()
@click.argument("pod", metavar="NS/POD")
@options.config
@options.files(required=False)
@click.option("--live", is_flag=True, help="Ask the running cluster instead of manifests.")
@options.kubeconfig
@options.output("table", "json")
@click.option("--sets", is_flag=True, help="Show the node sets that the pod's group is tried on, and how each does.")
@options.now
@options.scheduler_names
@options.keep_going
@options.verbosity
def explain(
    pod: str,
    config: str | None,
    files: tuple[str, ...],
    live: bool,
    kubeconfig: str | None,
    context: str | None,
    form: str,
    sets: bool,
    now: float | None,
    scheduler_names: tuple[str, ...],
    keep_going: bool,
    verbosity: int,
) -> None:
    """Say for every node whether it would take the pod, why not, and how each plugin scores it.

    The answer is about the cluster as the next cycle would find it. Nodes that refuse the pod are scored, too. With
    --live the configuration is that of the running scheduler, unless -c names another.
    """
    from muster.cli.answer import console, print_json, waiting
    from muster.cli.configuration import chosen_from, given, used
    from muster.cli.reading import BadInput, log, read_manifests
    from muster.sim.explain import Unexplained, explain

    told = given(config)
    one = None if told is None else used(told)
    if live == bool(files):
        raise click.UsageError("give either manifests with -f FILE_OR_DIR, or --live")
    if live:
        from muster.cli.live import read_cluster

        manifests = read_cluster(kubeconfig, context)
        start = time.time() if now is None else now
    else:
        manifests = read_manifests(files, keep_going=keep_going)
        start = manifests.latest if now is None else now
    one = one or used(chosen_from(manifests.objects, scheduler_names))
    try:
        with waiting("explaining"):
            answer = explain(one.scheduler, manifests.objects, start, scheduler_names, pod, log, sets)
    except Unexplained as why:
        raise BadInput(f"muster: {why}") from None
    for warning in answer.warnings:
        click.echo(f"warning: {warning}", err=True)
    if form == "json":
        print_json({**answer.as_dict(), "configuration": one.as_dict()})
    else:
        from muster.cli.tables.explained import show_explanation

        click.echo(f"configuration: {one}")
        show_explanation(console(), answer, sets=sets)
