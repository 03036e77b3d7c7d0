"""`muster simulate`: what the scheduler would do with these manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli import options

if TYPE_CHECKING:
    from muster.cli.configuration import Used
    from muster.sim.compare import Comparison
    from muster.sim.result import Result


@click.command()
@options.config
@options.files(required=True)
@options.output("table", "json", "html")
@click.option(
    "--cycles", type=click.IntRange(min=1), metavar="N", help="At most N cycles. Without it: until nothing changes."
)
@click.option("--compare", type=click.Path(), metavar="FILE_OR_MAP",
              help="A second configuration to run on the same input.")  # fmt: skip
@options.kubeconfig
@options.now
@click.option("--fail-on-pending", is_flag=True, help="Exit 1 if a pod is left without a node.")
@options.scheduler_names
@options.keep_going
@options.verbosity
def simulate(
    config: str | None,
    files: tuple[str, ...],
    form: str,
    cycles: int | None,
    compare: str | None,
    kubeconfig: str | None,
    context: str | None,
    now: float | None,
    fail_on_pending: bool,
    scheduler_names: tuple[str, ...],
    keep_going: bool,
    verbosity: int,
) -> None:
    """Schedule the pods in manifests on an embedded cluster and say what happened to each.

    The cluster in the manifests is taken as it stands; Deployments and other workloads make their pods. Cycles are run
    until nothing changes any more: evicted pods go, those that waited for their room are bound.
    """
    from muster.cli.answer import waiting
    from muster.cli.configuration import chosen_from, given, used
    from muster.cli.reading import log, read_manifests
    from muster.sim.compare import Comparison
    from muster.sim.memory import keep_freed_memory
    from muster.sim.simulate import simulate as run

    keep_freed_memory()

    first, second = (None if one is None else used(one) for one in (given(config), given(compare)))
    manifests = read_manifests(files, keep_going=keep_going)
    first = first or used(chosen_from(manifests.objects, scheduler_names))
    start = manifests.latest if now is None else now
    with waiting("simulating"):
        objects, unusable = manifests.objects, manifests.unusable
        results = [
            run(one.scheduler, objects, start, scheduler_names, cycles, log, unusable)
            for one in (first, second) if one is not None
        ]  # fmt: skip
    for result in results:
        for warning in result.summary.warnings:
            click.echo(f"warning: {warning}", err=True)
    if second is not None:
        comparison = Comparison((_short(first), _short(second)), results[0], results[1])
        _show_comparison(comparison, (first, second), form)
    else:
        _show(results[0], first, ", ".join(files), form)
    if fail_on_pending and any(result.pending for result in results):
        raise click.exceptions.Exit(1)


def _short(one: Used) -> str:
    return "default" if one.chosen.is_default else one.chosen.source


def _show(result: Result, one: Used, title: str, form: str) -> None:
    from muster.cli.answer import console, print_json, print_page

    if form == "json":
        summary = {**result.summary.as_dict(), "configuration": one.as_dict()}
        print_json({**result.as_dict(), "summary": summary})
    elif form == "html":
        from muster.sim.html import page

        print_page(page(result, f"{title}, configuration {one}"))
    else:
        from muster.cli.tables.simulated import show_result

        click.echo(f"configuration: {one}")
        show_result(console(), result)


def _show_comparison(comparison: Comparison, pair: tuple[Used, Used], form: str) -> None:
    from muster.cli.answer import console, print_json, print_page

    if form == "json":
        print_json({**comparison.as_dict(), "configurations": [one.as_dict() for one in pair]})
    elif form == "html":
        from muster.sim.html import comparison_page

        print_page(comparison_page(comparison))
    else:
        from muster.cli.tables.simulated import show_comparison

        click.echo(f"configurations: {pair[0]}; {pair[1]}")
        show_comparison(console(), comparison)
