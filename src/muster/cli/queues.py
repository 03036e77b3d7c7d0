"""`muster queues`: which jobs wait, in which order they are served, and what their queues have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from muster.cli import options, selection
from muster.cli.answer import plural, row, some, styled, table
from muster.cli.help import Command

if TYPE_CHECKING:
    from rich.console import Console

    from muster.sim.waiting_jobs import WaitingJob, WaitingJobs

MAX_REASON_CHARS = 90  # in the table; -o wide shows all


@click.command(cls=Command, example="muster queues -f cluster.yaml job.yaml")
@options.config
@options.files(required=False)
@click.option("--live", is_flag=True, help="Use the running cluster, which is the default without -f.")
@options.kubeconfig
@selection.shown
@click.option("--queue", "only", multiple=True, metavar="NAME",
              help="Show only this queue. May be given several times.")  # fmt: skip
@options.output("table", "wide", "json")
@options.inputs
def queues(
    config: str | None,
    files: tuple[str, ...],
    live: bool,
    kubeconfig: str | None,
    context: str | None,
    shown: selection.Shown,
    only: tuple[str, ...],
    form: str,
    inputs: options.Inputs,
) -> None:
    """Show the waiting jobs in the order in which they are served.

    Each job has its position over all queues and in its queue, the pods that wait and what they request, and the reason
    that the next cycle gives. The second table has the share of each queue.
    """
    from muster.cli.answer import console, print_json, waiting
    from muster.cli.reading import BadInput, config_of, given_config, log
    from muster.config.names import suggest
    from muster.model.finding import InputError
    from muster.sim.api import queues as run

    if live and files:
        raise click.UsageError("give either manifests with -f FILE_OR_DIR, or --live")
    one = given_config(config)
    manifests, now = inputs.read_files_or_live(files, kubeconfig, context)
    one = one or config_of(manifests.objects, inputs.scheduler_names)
    try:
        with waiting("ordering"):
            found = run(
                manifests, config=one, now=now, scheduler_names=inputs.scheduler_names, keep_going=True,
                feature_gates=inputs.feature_gates, log=log,
            )  # fmt: skip
    except InputError as why:
        raise BadInput(f"muster: {why.message}") from None
    for name in only:
        if name not in found.shares and not any(job.queue == name for job in found.jobs):
            raise BadInput(f"muster: there is no queue {name!r}: {suggest(name, found.shares)}")
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    jobs = [job for job in found.jobs if shown.has(job.namespace, job.labels) and (not only or job.queue in only)]
    shares = {name: share for name, share in found.shares.items() if not only or name in only}
    found = replace(found, jobs=jobs, shares=shares)
    if form == "json":
        print_json(found.to_dict())
        return
    click.echo(f"configuration: {one}")
    show_waiting(console(), found, wide=form == "wide")


def show_waiting(console: Console, found: WaitingJobs, *, wide: bool) -> None:
    """Prints the waiting jobs and the shares of the queues."""
    if found.jobs:
        _jobs(console, found.jobs, wide=wide)
    _shares(console, found)
    pods = sum(len(job.pods) for job in found.jobs)
    console.print(styled(f"{plural(len(found.jobs), 'job')} with {plural(pods, 'pod')} waiting", "bold"))


def _jobs(console: Console, jobs: list[WaitingJob], *, wide: bool) -> None:
    from muster.model.meta import timestamp
    from muster.model.quantity import display

    more = ["priority", "minimum", "since", "which"] if wide else []
    waiting = table("Waiting jobs in the order in which they are served", "position", "queue", "in queue", "group",
                    "pods", "requests", *more, "next cycle")  # fmt: skip
    for job in jobs:
        requests = ", ".join(f"{display(name, n)} {name}" for name, n in sorted(job.requests.items())) or "nothing"
        extra = [job.priority, job.minimum, timestamp(job.since), some(job.pods)] if wide else []
        count = f"{len(job.pods)} of {job.size}"
        position, of_queue = (n or "–" for n in (job.position, job.queue_position))
        row(waiting, position, job.queue or "–", of_queue, job.group, count, requests, *extra, _next(job, wide=wide))
    console.print(waiting)


def _next(job: WaitingJob, *, wide: bool) -> str:
    """Says what the next cycle does: it binds the pods, or the reason why it leaves them."""
    if job.reason is None:
        return f"binds {plural(job.binds, 'pod')}" if job.binds else ""
    text = job.reason.text
    if not wide and len(text) > MAX_REASON_CHARS:
        text = f"{text[: MAX_REASON_CHARS - 1].rsplit(' ', 1)[0]} …"
    return f"binds {plural(job.binds, 'pod')}; {text}" if job.binds else text


def _shares(console: Console, found: WaitingJobs) -> None:
    from muster.model.quantity import display

    waiting: dict[str, int] = {}
    for job in found.jobs:
        waiting[job.queue] = waiting.get(job.queue, 0) + 1
    shares = table("Queues", "queue", "waiting", "resource", "allocated", "deserved", "capability")
    for name, share in found.shares.items():
        parts = share.allocated, share.deserved, share.capability
        resources = sorted({name for part in parts for name, amount in part.items() if amount} - {"pods"})
        for i, resource in enumerate(resources or [""]):
            cells = [
                display(resource, part[resource]) if resource in part else "–"
                for part in parts
            ]
            first = (name, waiting.get(name, 0)) if i == 0 else ("", "")
            row(shares, *first, resource or "–", *cells)
    if found.shares:
        console.print(shares)
