"""`muster override`: a workload's pod template as a node group runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from muster.cli import options
from muster.cli.help import Command
from muster.cli.reading import policy_file

Template = dict[str, Any]
Path = tuple[str, ...]


@click.command(cls=Command, example="muster override --policy override.yaml --nodegroup beijing -f deployment.yaml")
@policy_file
@click.option("--nodegroup", required=True, metavar="NAME", help="The node group whose edition is shown.")
@options.files(required=True)
@options.output("table", "json")
@click.option(
    "--allow-privileged-overrides", "privileged", is_flag=True,
    help="Allow the policy to grant service accounts, host access and privileges.",
)  # fmt: skip
@options.workload_kinds
@options.verbosity
def override(
    policy: str, nodegroup: str, files: tuple[str, ...], form: str, privileged: bool, workload_kinds: tuple[str, ...],
    verbosity: int,
) -> None:  # fmt: skip
    """Show the pod template of a workload as a node group runs it.

    The rules of the OverridePolicy for the node group are applied to the template. A Pod is shown as a whole. Of a
    workload with several templates, such as a Volcano Job, all are shown.
    """
    from muster.cli.answer import print_json
    from muster.cli.reading import BadInput, print_problems, read_policy
    from muster.groups.override import OverrideError, edition, faults
    from muster.groups.override.policy import warnings
    from muster.model.groups import OverridePolicy
    from muster.model.yamltext import dump

    found, manifests = read_policy(policy, OverridePolicy)
    print_problems("warning", found, manifests, warnings(found.spec))
    place, templates, bases = _workload(files, workload_kinds)
    if print_problems("error", found, manifests, faults(found.spec, bases)):
        raise BadInput(f"muster: {policy} cannot be used")
    group = nodegroup.lower()
    if group != nodegroup:
        click.echo(f"warning: node group {nodegroup!r} is read as {group!r}", err=True)
    try:
        made = [edition(found.spec, [group], one, privileged=privileged, bases=bases) for one in templates]
    except OverrideError as fault:
        raise BadInput(f"{policy}: error: {found.metadata.name} on {place}: {fault}") from None
    for warning in dict.fromkeys(warning for one in made for warning in one.warnings):
        click.echo(f"{policy}: warning: {warning}", err=True)
    editions = [one.template for one in made]
    if form == "json":
        print_json(editions[0] if len(editions) == 1 else editions)
    else:
        click.echo("---\n".join(map(dump, editions)), nl=False)


def _workload(files: tuple[str, ...], tables: tuple[str, ...]) -> tuple[str, list[Template], tuple[Path, ...]]:
    """The pod templates of the only workload in the files, as they are written there; its place, and where they stand
    in the workload. A ConfigMap groupmanagement-config beside it may name its kind."""
    from muster.cli.reading import BadInput, print_findings
    from muster.cluster.documents import contents, values
    from muster.model.finding import Finding

    findings: list[Finding] = []
    objects: list[tuple[str, Template]] = []
    for name, data in contents(files, findings):
        for item in values(name, data):
            if isinstance(item, Finding):
                findings.append(item)
                continue
            value, place = item
            listed = value.get("items") if isinstance(value, dict) else None
            at = f"{place.file}:{place.line_of('')}"
            objects += [(at, one) for one in (listed if isinstance(listed, list) else [value]) if isinstance(one, dict)]
    print_findings(findings)
    if findings:
        raise BadInput("muster: the workload cannot be read")
    paths = dict(path for at, one in objects for path in _named(at, one))
    found: list[tuple[str, list[Template], tuple[Path, ...]]] = []
    for at, one in objects:
        there = _templates(one, paths)
        if there is not None:
            found.append((at, there[0], (there[1],) if there[1] else ()))
        elif (several := _described_templates(at, one, tables)) is not None:
            found.append((at, *several))
    if len(found) != 1:
        places = f" ({', '.join(at for at, _, _ in found)})" if found else ""
        raise BadInput(f"{', '.join(files)}: error: {len(found)} objects with a pod template{places}; give one")
    return found[0]


def _named(place: str, value: Template) -> Iterator[tuple[tuple[object, object], tuple[str, ...]]]:
    """The kinds that the ConfigMap names, each with the place of its template."""
    from muster.cli.reading import BadInput
    from muster.groups.custom_applications import CONFIG_KEY, CONFIG_NAME, BadConfiguration, read_custom_applications

    if value.get("kind") != "ConfigMap" or (value.get("metadata") or {}).get("name") != CONFIG_NAME:
        return
    try:
        for one in read_custom_applications(str((value.get("data") or {}).get(CONFIG_KEY, ""))):
            yield (f"{one.group}/{one.version}", one.kind), one.template_path
    except BadConfiguration as fault:
        raise BadInput(f"{place}: error: {fault}") from None


def _templates(
    value: Template, paths: Mapping[tuple[object, object], tuple[str, ...]]
) -> tuple[list[Template], tuple[str, ...]] | None:
    """A Pod itself; of any other object what stands at its kind's place, or at spec.template (a CronJob's). Each of
    several templates gets the name of its list item, as Volcano names the template of a task."""
    from muster.groups.applications import template_path, template_values
    from muster.model.custom import CustomApplication
    from muster.model.kinds import find

    if value.get("kind") == "Pod":
        return ([value], ()) if isinstance(value.get("spec"), dict) else None
    usual = (("spec", "jobTemplate", "spec", "template"), ("spec", "template"))
    own = paths.get((value.get("apiVersion"), value.get("kind")))
    known = find(str(value.get("apiVersion")), str(value.get("kind")))
    if own is None and known is not None and issubclass(known, CustomApplication):
        own = template_path(known)
    for path in usual if own is None else (own,):
        found = template_values(path, value)
        if "*" in path:
            items = template_values(path[:-1], value)
            found = [_named_after(item, one) for item, one in zip(items, found, strict=True)]
        found = [one for one in found if isinstance(one.get("spec"), dict)]
        if found:
            return found, path
    return None


def _described_templates(
    place: str, value: Template, tables: tuple[str, ...]
) -> tuple[list[Template], tuple[Path, ...]] | None:
    """The templates of a workload of a described kind, each with the name of its pod set, and their paths."""
    from muster.cli.reading import BadInput, print_findings, table_texts
    from muster.groups.applications import template_values
    from muster.workloads.description import read_table
    from muster.workloads.expressions import BadExpression
    from muster.workloads.table import KindTable

    if "/" not in str(value.get("apiVersion")):
        return None
    table = KindTable()
    for name, text in table_texts(tables):
        described, wrong = read_table(text, name)
        print_findings([*wrong, *table.add(described)])
    kind = value.get("kind")
    known = next((one for one in table if one.kind == kind and value["apiVersion"] in one.api_versions), None)
    if known is None:
        return None
    paths = known.template_paths
    if not paths:
        what = f"creates a {known.creates.kind}" if known.creates is not None else "has no plain path to its templates"
        raise BadInput(f"{place}: error: {kind} {what} (its description is at {known.source}): it cannot be overridden")
    found: list[Template] = []
    for pod_set, path in zip(known.pod_sets, paths, strict=True):
        for variables, one in zip(_entries(path, value), template_values(path, value), strict=False):
            try:
                found.append(_named_after({"name": pod_set.name.fill(variables)}, one))
            except BadExpression as fault:
                raise BadInput(f"{place}: error: {fault}") from None
    found = [one for one in found if isinstance(one.get("spec"), dict)]
    return (found, paths) if found else None


def _entries(path: Path, value: Any) -> list[dict[str, Any]]:
    """The variables item and key of each template at the path."""
    if "*" not in path:
        return [{}]
    for step in path[: path.index("*")]:
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, dict):
        return [{"key": key, "item": item} for key, item in value.items()]
    return [{"key": str(i), "item": item} for i, item in enumerate(value if isinstance(value, list) else ())]


def _named_after(item: Template, template: Template) -> Template:
    name = item.get("name")
    meta = template.get("metadata") or {}
    return {"metadata": {"name": name, **meta}, **_rest(template)} if isinstance(name, str) and name else template


def _rest(template: Template) -> Template:
    return {field: value for field, value in template.items() if field != "metadata"}
