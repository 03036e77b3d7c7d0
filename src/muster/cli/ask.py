"""`muster ask`: whether a job runs now, and the smallest changes that would let it run."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import click

from muster.cli import options, selection
from muster.cli.help import Command

if TYPE_CHECKING:
    from rich.console import Console

    from muster.model.meta import LabelSelector
    from muster.sim.ask.answer import Answer, FirstAnswer, Proposal
    from muster.sim.changes import Changes


@click.command(cls=Command, example="muster ask -f job.yaml --cluster cluster.yaml")
@options.config
@options.files(required=True)
@selection.cluster_files
@options.changes
@options.kubeconfig
@selection.namespace("The namespace of manifests that name none.")
@selection.manifest_labels
@click.option("--when", is_flag=True, help="Give the expected start, from the known durations of running pods.")
@click.option("--first", "first_only", is_flag=True, help="Answer only whether it runs now, and search for no changes.")
@options.output("table", "json")
@options.inputs
def ask(
    config: str | None,
    files: tuple[str, ...],
    clusters: tuple[str, ...],
    changes: Changes,
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    labels: LabelSelector | None,
    when: bool,
    first_only: bool,
    form: str,
    inputs: options.Inputs,
) -> None:
    """Ask whether a job runs now, and which changes would let it.

    The job (-f) is simulated on the cluster after everything that waits already. If it does not run now, the smallest
    change of each kind is searched: fewer pods, another queue, more quota, evictions, more nodes. Each is verified by a
    simulation. Nothing is written to the cluster or to files. The options --clone-node, --set, --cordon and --remove
    change the cluster first, in this order.
    """
    from muster.cli.answer import console, print_json
    from muster.cli.progress import progress
    from muster.cli.reading import BadInput, config_of, given_config, log
    from muster.model.finding import InputError
    from muster.process.memory import keep_freed_memory
    from muster.sim.api import question
    from muster.sim.changes import changed

    keep_freed_memory()
    one = given_config(config)
    job = inputs.read(files)
    job = selection.with_labels(job, labels)
    there, now = inputs.read_files_or_live(clusters, kubeconfig, context, discreet=False)
    one = one or config_of(there.objects, inputs.scheduler_names)
    gc.freeze()  # the objects of the input stay; every trial would search them for garbage
    began = time.perf_counter()
    try:
        there = changed(there, changes)
        with progress("deciding"):
            asked = question(job, there, one, now, namespace, inputs.scheduler_names, inputs.feature_gates, log)
    except InputError as why:
        raise BadInput(f"muster: {why.message}") from None
    log(1, f"the first answer took {time.perf_counter() - began:.2f} s after the input was read")
    for warning in asked.warnings:
        click.echo(f"warning: {warning}", err=True)
    if form != "json":
        click.echo(f"configuration: {one}")
        show_first(console(), asked.first)
    with progress("searching for changes", "simulations") as shown:
        asked.count_trials(shown.update)
        before = asked.first.text
        answer = asked.complete([] if first_only else list(asked.proposals()), when=when, searched=not first_only)
    answer.configuration = one
    if form == "json":
        print_json(answer.to_dict())
    else:
        for number, proposal in enumerate(answer.proposals, 1):
            show_proposal(console(), number, proposal)
        show_rest(console(), answer, more=answer.first.text.removeprefix(before).strip())


def show_first(console: Console, first: FirstAnswer) -> None:
    """Prints whether the job runs, and where."""
    from muster.cli.answer import counted, styled

    console.print(styled(first.text, "bold"), soft_wrap=True)
    if first.binds:
        console.print(styled(f"Nodes: {counted(first.binds.values())}."), soft_wrap=True)


def show_proposal(console: Console, number: int, proposal: Proposal) -> None:
    """Prints a change as a sentence and as YAML."""
    from muster.cli.answer import styled

    if number == 1:
        console.print("It runs with one of these changes, each verified by simulation:")
    console.print(styled(f"{number}. {proposal.text}"), soft_wrap=True)
    for line in proposal.yaml.splitlines():
        console.print(styled(f"     {line}"), soft_wrap=True)


def show_rest(console: Console, answer: Answer, more: str) -> None:
    """Prints the expected start, and what was not tried."""
    from muster.cli.answer import styled

    for line in (more, *answer.notes, answer.start.text if answer.start is not None else ""):
        if line:
            console.print(styled(line), soft_wrap=True)
