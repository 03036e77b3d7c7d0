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
@options.scheduler_names
@options.verbosity
def validate(
    config: str | None,
    files: tuple[str, ...],
    form: str,
    effective: bool,
    privileged: bool,
    scheduler_names: tuple[str, ...],
    verbosity: int,
) -> None:
    """Check a configuration and manifests; exit 1 if there is an error in them.

    Says what is wrong and where, what could never schedule and why, and what the configuration does without saying so.
    """
    from muster.cli.answer import console, print_json, waiting
    from muster.cli.reading import config_text, refuse_nothing
    from muster.config import DEFAULT, DEFAULT_NAME
    from muster.model.finding import in_order
    from muster.model.yamlwrite import dump
    from muster.sim.validate import effective as understood
    from muster.sim.validate import validate_cluster, validate_configuration

    text, name = (DEFAULT, DEFAULT_NAME) if config is None else (config_text(config), config)
    scheduler, findings = validate_configuration(text, name)
    if config is None and files:
        findings = []  # the built-in configuration is not what was asked about
    unreadable = False
    manifests = None
    if files:
        from muster.cluster.manifests import read_paths

        with waiting("validating"):
            manifests = read_paths(files)
            found = validate_cluster(scheduler, manifests, scheduler_names, privileged=privileged)
            findings = in_order([*findings, *found])
        unreadable = any(finding.code == "file" for finding in manifests.errors)
    if form == "json":
        answer: dict[str, object] = {"findings": [finding.as_dict() for finding in findings]}
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
        show_findings(console(), findings)
    if unreadable:
        raise click.exceptions.Exit(2)
    if manifests is not None:
        refuse_nothing(manifests, files)
    if any(finding.severity == "error" for finding in findings):
        raise click.exceptions.Exit(1)
