"""`muster override`: a workload's pod template as a node group runs it."""

from __future__ import annotations

from typing import Any

import click

from muster.cli import options
from muster.cli.policy import policy_file

Template = dict[str, Any]


@click.command()
@policy_file
@click.option("--nodegroup", required=True, metavar="NAME", help="The node group whose edition is wanted.")
@options.files(required=True)
@options.output("table", "json")
@click.option(
    "--allow-privileged-overrides", "privileged", is_flag=True,
    help="Let the policy give what it may not otherwise: service accounts, host access, privileges.",
)  # fmt: skip
@options.verbosity
def override(
    policy: str, nodegroup: str, files: tuple[str, ...], form: str, privileged: bool, verbosity: int
) -> None:
    """Show the pod template (for a Pod: the pod) of a workload with an OverridePolicy's rules for a node group."""
    from muster.cli.answer import print_json
    from muster.cli.policy import read_policy, tell_troubles
    from muster.cli.reading import BadInput
    from muster.groups.override import OverrideError, edition, faults
    from muster.groups.override.policy import warnings
    from muster.model.groups import OverridePolicy
    from muster.model.yamlwrite import dump

    found, manifests = read_policy(policy, OverridePolicy)
    tell_troubles("warning", found, manifests, warnings(found.spec))
    if tell_troubles("error", found, manifests, faults(found.spec)):
        raise BadInput(f"muster: {policy} cannot be used")
    group = nodegroup.lower()
    if group != nodegroup:
        click.echo(f"warning: node group {nodegroup!r} is read as {group!r}", err=True)
    place, template = _workload(files)
    try:
        made = edition(found.spec, [group], template, privileged=privileged)
    except OverrideError as fault:
        raise BadInput(f"{policy}: error: {found.metadata.name} on {place}: {fault}") from None
    for warning in made.warnings:
        click.echo(f"{policy}: warning: {warning}", err=True)
    if form == "json":
        print_json(made.template)
    else:
        click.echo(dump(made.template), nl=False)


def _workload(files: tuple[str, ...]) -> tuple[str, Template]:
    """The pod template of the only workload in the files, as it is written there, and where it stands."""
    from muster.cli.reading import BadInput, tell
    from muster.cluster.sources import contents
    from muster.cluster.texts import values
    from muster.model.finding import Finding

    findings: list[Finding] = []
    found: list[tuple[str, Template]] = []
    for name, data in contents(files, findings):
        for item in values(name, data):
            if isinstance(item, Finding):
                findings.append(item)
                continue
            value, place = item
            listed = value.get("items") if isinstance(value, dict) else None
            for one in listed if isinstance(listed, list) else [value]:
                template = _template(one)
                if template is not None:
                    found.append((f"{place.file}:{place.line_of('')}", template))
    tell(findings)
    if findings:
        raise BadInput("muster: the workload cannot be read")
    if len(found) != 1:
        places = f" ({', '.join(place for place, _ in found)})" if found else ""
        raise BadInput(f"{', '.join(files)}: error: {len(found)} objects with a pod template{places}; give one")
    return found[0]


def _template(value: Any) -> Template | None:
    """A Pod itself; of any other object what stands at spec.template, or in a CronJob below its jobTemplate."""
    if not isinstance(value, dict):
        return None
    if value.get("kind") == "Pod":
        return value if isinstance(value.get("spec"), dict) else None
    for path in (("spec", "jobTemplate", "spec", "template"), ("spec", "template")):
        inner: Any = value
        for step in path:
            inner = inner.get(step) if isinstance(inner, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("spec"), dict):
            return inner
    return None
