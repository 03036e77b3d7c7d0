"""`muster simulate`: what the scheduler would do with these manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.help import Command

if TYPE_CHECKING:
    from muster.cluster.manifests import Manifests
    from muster.sim.changes import Changes
    from muster.sim.filters import Filter
    from muster.sim.inputs import LoadedConfig
    from muster.sim.result import Comparison, Result


@click.command(cls=Command, example="muster simulate -c scheduler.yaml -f cluster.yaml job.yaml")
@options.config
@options.files(required=True)
@options.output("table", "wide", "json", "html")
@options.filters
@options.changes
@click.option("--diff", is_flag=True, help="Also simulate the unchanged input, and show what the changes (--set, "
              "--remove, --clone-node, --cordon) make different.")  # fmt: skip
@click.option("--compare", type=click.Path(), metavar="FILE_OR_MAP",
              help="A second configuration to run on the same input; shows the difference.")  # fmt: skip
@click.option("--compare-input", "others", type=click.Path(), multiple=True, metavar="FILE_OR_DIR",
              help="A second input for the same configuration; shows the difference. The changes (--set and so on) "
              "apply to it. May be given several times.")  # fmt: skip
@click.option(
    "--cycles", type=click.IntRange(min=1), metavar="N", help="Run at most N cycles. Default: until nothing changes."
)
@options.kubeconfig
@click.option("--fail-on-pending", is_flag=True, help="Exit 1 if a pod stays without a node.")
@options.inputs
def simulate(
    config: str | None,
    files: tuple[str, ...],
    form: str,
    shown: Filter,
    changes: Changes,
    diff: bool,
    compare: str | None,
    others: tuple[str, ...],
    cycles: int | None,
    kubeconfig: str | None,
    context: str | None,
    fail_on_pending: bool,
    inputs: options.Inputs,
) -> None:
    """Show what the scheduler does with manifests or a snapshot.

    The pods are scheduled on an embedded cluster. The manifests are its initial state; Deployments and other workloads
    create their pods. Cycles run until nothing changes: evicted pods end, and the pods that waited for their capacity
    are bound.

    The options --clone-node, --set, --cordon and --remove change the input before it is simulated, in this order.
    """
    from muster.cli.progress import pods_placed
    from muster.cli.reading import BadInput, config_of, given_config, log
    from muster.model.finding import InputError
    from muster.process.memory import keep_freed_memory
    from muster.sim.api import simulate as run
    from muster.sim.changes import changed
    from muster.sim.result import Comparison

    _check(changes, diff=diff, compare=compare, others=others)
    keep_freed_memory()

    def simulated(what: str, manifests: Manifests, one: LoadedConfig) -> Result:
        with pods_placed(what) as started:
            return run(
                manifests, config=one, cycles=cycles, now=inputs.now, scheduler_names=inputs.scheduler_names,
                keep_going=True, feature_gates=inputs.feature_gates, log=log, started=started,
            )  # fmt: skip

    first, second = given_config(config), given_config(compare)
    clusters = [inputs.read(files), *([inputs.read(others)] if others else [])]
    first = first or config_of(clusters[0].objects, inputs.scheduler_names)
    try:
        if diff:
            clusters.append(changed(clusters[0], changes))
        elif changes:
            clusters[-1] = changed(clusters[-1], changes)
        names = _names(first, second, clusters, files, others, changes)
        runs = [(one, first) for one in clusters] if second is None else [(clusters[0], first), (clusters[0], second)]
        results = [
            simulated(f"simulating {name}" if len(runs) > 1 else "simulating", *one)
            for name, one in zip(names, runs, strict=True)
        ]
        parts = [shown.result(result) for result in results]
    except InputError as fault:
        raise BadInput(f"muster: {fault.message}") from None
    for result in results:
        for warning in result.summary.warnings:
            click.echo(f"warning: {warning}", err=True)
    if len(parts) > 1:
        comparison = Comparison((names[0], names[1]), parts[0], parts[1])
        _show_comparison(comparison, (first, second or first), (*files, *others), form, shown)
    else:
        _show(parts[0], first, files, form, shown)
    if fail_on_pending and any(result.pending for result in results):
        raise click.exceptions.Exit(1)


def _check(changes: Changes, *, diff: bool, compare: str | None, others: tuple[str, ...]) -> None:
    if sum((diff, compare is not None, bool(others))) > 1:
        raise click.UsageError("give one of --compare, --compare-input and --diff: each compares two simulations")
    if diff and not changes:
        raise click.UsageError("--diff needs a change of the input: --set, --remove, --clone-node or --cordon")


def _names(
    first: LoadedConfig, second: LoadedConfig | None, clusters: list[Manifests], files: tuple[str, ...],
    others: tuple[str, ...], changes: Changes,
) -> list[str]:  # fmt: skip
    """Returns the name of each simulation, as the difference shows it."""
    if second is not None:
        return [_short(first), _short(second)]
    if len(clusters) == 1:
        return [", ".join(files)]
    if not others:
        return ["unchanged", "changed"]
    return [", ".join(files), f"{', '.join(others)} {changes}".rstrip()]


def _short(one: LoadedConfig) -> str:
    return "default" if one.text.is_default else one.text.source


def _show(result: Result, one: LoadedConfig, files: tuple[str, ...], form: str, shown: Filter) -> None:
    from muster.cli.answer import console, print_json, print_page
    from muster.cli.result_tables import show_result

    if form == "json":
        print_json(result.to_dict())
    elif form == "html":
        from muster.cli.origin import origin_rows
        from muster.sim.report.pages import page

        print_page(page(result, f"{', '.join(files)}, configuration {one}", origin_rows(files, [one]), str(shown)))
    else:
        click.echo(f"configuration: {one}")
        show_result(console(), result, shown)


def _show_comparison(
    comparison: Comparison, pair: tuple[LoadedConfig, LoadedConfig], files: tuple[str, ...], form: str, shown: Filter
) -> None:
    from muster.cli.answer import console, print_json, print_page
    from muster.cli.result_tables import show_comparison
    from muster.sim.difference import Difference, plain_groups

    if form == "json":
        groups = shown.groups(Difference(comparison.first, comparison.second).groups)
        print_json(comparison.to_dict(plain_groups(groups)))
    elif form == "html":
        from muster.cli.origin import origin_rows
        from muster.sim.report.pages import comparison_page

        print_page(comparison_page(comparison, origin_rows(files, pair), str(shown)))
    else:
        same = pair[0] is pair[1]
        click.echo(f"configuration: {pair[0]}" if same else f"configurations: {pair[0]}; {pair[1]}")
        show_comparison(console(), comparison, shown)
