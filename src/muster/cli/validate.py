"""`muster validate`: what is wrong, what could never schedule, and what a configuration silently does."""

from __future__ import annotations

import click

from muster.cli import options


@click.command()
@options.config
@options.files(required=False)
@options.output("table", "json")
@click.option("--effective", is_flag=True, help="Print the configuration as understood (the findings go to stderr).")
@click.option(
    "--allow-privileged-overrides", "privileged", is_flag=True,
    help="Judge OverridePolicies as controllers with this option do.",
)  # fmt: skip
@options.kubeconfig
@options.scheduler_names
@options.verbosity
def validate(
    config: str | None,
    files: tuple[str, ...],
    form: str,
    effective: bool,
    privileged: bool,
    kubeconfig: str | None,
    context: str | None,
    scheduler_names: tuple[str, ...],
    verbosity: int,
) -> None:
    """Check a configuration and manifests; exit 1 if there is an error in them.

    Says what is wrong and where, what could never schedule and why, and what the configuration does without saying so.
    """
    from muster.cli.answer import console, print_json, waiting
    from muster.cli.configuration import Used, chosen_from, given, warn_of_another
    from muster.cli.reading import refuse_nothing
    from muster.config import DEFAULT_NAME
    from muster.cycle.validation import effective_hash
    from muster.model.finding import in_order
    from muster.model.yamlwrite import dump
    from muster.sim.validate import effective as understood
    from muster.sim.validate import validate_cluster, validate_configuration

    chosen = given(config)
    manifests = None
    if files:
        from muster.cluster.manifests import read_paths

        with waiting("reading"):
            manifests = read_paths(files)
    chosen = chosen or chosen_from({} if manifests is None else manifests.objects, scheduler_names)
    scheduler, findings = validate_configuration(chosen.text, DEFAULT_NAME if chosen.is_default else chosen.source)
    if chosen.is_default and files:
        findings = []  # the built-in configuration is not what was asked about
    if manifests is not None:
        with waiting("validating"):
            found = validate_cluster(scheduler, manifests, scheduler_names, privileged=privileged)
            findings = in_order([*findings, *found])
    unreadable = manifests is not None and any(finding.code == "file" for finding in manifests.errors)
    one = Used(scheduler, chosen, effective_hash(scheduler))
    warn_of_another(chosen, one.hash)
    if form == "json":
        answer: dict[str, object] = {"findings": [finding.as_dict() for finding in findings]}
        answer["configuration"] = one.as_dict()
        if effective:
            answer["effective"] = understood(scheduler)
        print_json(answer)
    elif effective:
        for finding in findings:
            click.echo(str(finding), err=True)
        click.echo(dump(understood(scheduler)), nl=False)
    else:
        from muster.cli.tables.findings import show_findings

        if manifests is not None and not findings:
            refuse_nothing(manifests, files)  # instead of "no findings"
        if chosen.announced is not None:
            click.echo(f"configuration: {one}")
        show_findings(console(), findings)
    if unreadable:
        raise click.exceptions.Exit(2)
    if manifests is not None:
        refuse_nothing(manifests, files)
    if any(finding.severity == "error" for finding in findings):
        raise click.exceptions.Exit(1)
