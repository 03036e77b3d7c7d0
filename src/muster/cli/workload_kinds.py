"""`muster workload-kinds`: the described workload kinds, and a check of further tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.answer import row, table
from muster.cli.help import Command

if TYPE_CHECKING:
    from muster.workloads.description import KindDescription


@click.command("workload-kinds", cls=Command, example="muster workload-kinds kinds.yaml")
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE]…")
@options.output("table", "json")
@options.verbosity
def workload_kinds(files: tuple[str, ...], form: str, verbosity: int) -> None:
    """Show the workload kinds that are known by description.

    They are those that muster ships and those of the files. The exit code is 1 if an entry of a file cannot be used.
    """
    from muster.cli.answer import console, print_json
    from muster.cli.reading import print_findings, table_texts
    from muster.model.finding import Finding, in_order
    from muster.workloads.description import read_table
    from muster.workloads.table import KindTable

    known = KindTable()
    findings: list[Finding] = []
    for name, text in table_texts(files):
        described, wrong = read_table(text, name)
        findings += [*wrong, *known.add(described)]
    findings = in_order([*findings, *known.check()])
    rows = [_row(one) for one in sorted(known, key=lambda one: (one.kind, one.group))]
    if form == "json":
        print_json({"kinds": rows, "findings": [finding.to_dict() for finding in findings]})
    else:
        made = table("Workload kinds", "kind", "API versions", "pods", "minimum of a gang", "source")
        for one in rows:
            row(made, one["kind"], ", ".join(one["apiVersions"]), one["pods"], one["minimum"], one["source"])
        console().print(made)
    print_findings(findings)
    raise SystemExit(1 if findings else 0)


def _row(one: KindDescription) -> dict[str, str | list[str]]:
    return {
        "kind": one.kind, "apiVersions": list(one.api_versions), "pods": _pods(one), "minimum": _minimum(one),
        "source": one.source,
    }  # fmt: skip


def _pods(one: KindDescription) -> str:
    """How the pods of a workload are found."""
    if one.creates is not None:
        return f"through {one.creates.kind}"
    if one.pods.owner_labels:
        return f"label {' or '.join(one.pods.owner_labels)}"
    return f"owner, through {' and '.join(one.pods.owner_path)}" if one.pods.owner_path else "owner"


def _minimum(one: KindDescription) -> str:
    if one.creates is not None:
        return f"that of the {one.creates.kind}"
    some = any(pod_set.min_copies is not None for pod_set in one.pod_sets)
    every = "the minimum of each pod set" if some else "all pods"
    given = one.min_member.text.strip("`") if one.min_member is not None else every
    given = f"{given.removesuffix('?')}, else {every}" if given.endswith("?") else given
    return f"{given}; one gang for each {one.pods.gang_label}" if one.pods.gang_label else given
