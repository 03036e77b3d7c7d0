"""`muster explain`: why a pod would go where it goes, or nowhere."""

from __future__ import annotations

import click

from muster.cli import options


@click.command()
@click.argument("pod", metavar="NS/POD")
@options.config
@options.files(required=True)
@options.output("table", "json")
@options.now
@options.scheduler_names
@options.keep_going
@options.verbosity
def explain(
    pod: str,
    config: str | None,
    files: tuple[str, ...],
    form: str,
    now: float | None,
    scheduler_names: tuple[str, ...],
    keep_going: bool,
    verbosity: int,
) -> None:
    """Say for every node whether it would take the pod, why not, and how each plugin scores it."""
    from muster.cli.answer import print_json
    from muster.cli.reading import BadInput, log, read_config, read_manifests, tell
    from muster.cycle.scheduler import Scheduler
    from muster.sim.explain import Unexplained, explain

    scheduler = Scheduler(read_config(config))
    tell(scheduler.findings())
    manifests = read_manifests(files, keep_going=keep_going)
    start = manifests.latest if now is None else now
    try:
        answer = explain(scheduler, manifests.objects, start, scheduler_names, pod, log)
    except Unexplained as why:
        raise BadInput(f"muster: {why}") from None
    print_json(answer.as_dict())
