"""`muster simulate`: what the scheduler would do with these manifests."""

from __future__ import annotations

import click

from muster.cli import options


@click.command()
@options.config
@options.files(required=True)
@options.output("table", "json")
@click.option(
    "--cycles", type=click.IntRange(min=1), metavar="N", help="At most N cycles. Without it: until nothing changes."
)
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
    now: float | None,
    fail_on_pending: bool,
    scheduler_names: tuple[str, ...],
    keep_going: bool,
    verbosity: int,
) -> None:
    """Schedule the pods in manifests on an embedded cluster and say what happened to each."""
    from muster.cli.answer import print_json
    from muster.cli.reading import log, read_config, read_manifests, tell
    from muster.cycle.scheduler import Scheduler
    from muster.sim.simulate import simulate as run

    scheduler = Scheduler(read_config(config))
    tell(scheduler.findings())
    manifests = read_manifests(files, keep_going=keep_going)
    result = run(scheduler, manifests.objects, manifests.latest if now is None else now, scheduler_names, cycles, log)
    print_json(result.as_dict())
    if fail_on_pending and result.pending:
        raise click.exceptions.Exit(1)
