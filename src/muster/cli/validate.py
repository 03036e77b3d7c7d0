"""`muster validate`: finds errors, pods that could never be scheduled, and settings without effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.answer import plural, styled
from muster.cli.help import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from muster.model.finding import Finding


@click.command(cls=Command, example="muster validate -c scheduler.yaml -f cluster.yaml job.yaml")
@options.config
@options.files(required=False)
@options.output("table", "json")
@click.option("--effective", is_flag=True, help="Print the configuration as understood (the findings go to stderr).")
@click.option(
    "--allow-privileged-overrides", "privileged", is_flag=True,
    help="Check OverridePolicies as controllers with this option do.",
)  # fmt: skip
@options.kubeconfig
@options.workload_kinds
@options.scheduler_names
@options.feature_gates
@options.verbosity
def validate(
    config: str | None,
    files: tuple[str, ...],
    form: str,
    effective: bool,
    privileged: bool,
    kubeconfig: str | None,
    context: str | None,
    workload_kinds: tuple[str, ...],
    scheduler_names: tuple[str, ...],
    feature_gates: dict[str, bool] | None,
    verbosity: int,
) -> None:
    """Check a configuration and manifests.

    Prints errors with their places, pods that could never be scheduled and why, and settings of the configuration that
    have no effect or an unexpected one. The exit code is 1 if there is an error.
    """
    from muster.cli.answer import console, print_json, waiting
    from muster.cli.reading import BadInput, config_from_flag, config_from_objects, warn
    from muster.model.finding import InputError
    from muster.model.yamltext import dump
    from muster.sim.api import validate as run
    from muster.sim.inputs import read_cluster, require_objects

    text = config_from_flag(config)
    with waiting("reading", "documents") as shown:
        manifests = read_cluster(files, workload_kinds, shown.update) if files else None
    text = text or config_from_objects({} if manifests is None else manifests.objects, scheduler_names)
    with waiting("validating"):
        answer = run(
            manifests, config=text, privileged=privileged, scheduler_names=scheduler_names, feature_gates=feature_gates
        )
    warn(answer.configuration)
    try:
        if form == "json":
            print_json(answer.to_dict(effective=effective))
        elif effective:
            for finding in answer.findings:
                click.echo(str(finding), err=True)
            click.echo(dump(answer.effective), nl=False)
        else:
            if manifests is not None and not answer.findings:
                require_objects(manifests, files)  # instead of "no findings"
            if text.announced is not None:
                click.echo(f"configuration: {answer.configuration}")
            show_findings(console(), answer.findings)
        if manifests is not None:
            if any(finding.code == "file" for finding in manifests.errors):
                raise click.exceptions.Exit(2)
            require_objects(manifests, files)
    except InputError as fault:
        raise BadInput(f"muster: {fault.message}") from None
    if not answer.ok:
        raise click.exceptions.Exit(1)


STYLES = {"error": "bold red", "warning": "yellow", "notice": "cyan"}


def show_findings(console: Console, findings: Sequence[Finding]) -> None:
    for finding in findings:
        parts = [
            styled(f"{finding.place}: " if finding.place else "", "bold"),
            styled(f"{finding.severity}: ", STYLES[finding.severity]),
            styled(f"{finding.object}: " if finding.object else ""),
            styled(finding.message),
            styled(f" [{finding.code}]", "dim"),
        ]
        console.print(styled().join(parts))
        if finding.fix:
            console.print(styled(f"    → {finding.fix}", "dim"))
    counts = {severity: sum(1 for f in findings if f.severity == severity) for severity in STYLES}
    text = ", ".join(plural(n, severity) for severity, n in counts.items() if n)
    console.print(styled(text or "no findings", "bold"))
