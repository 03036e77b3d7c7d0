"""The one policy that `--policy` names, with the places of its fields for messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import click

from muster.cli.options import F
from muster.cli.reading import BadInput, read_manifests

if TYPE_CHECKING:
    from muster.cluster.manifests import Manifests
    from muster.groups.propagation import PolicyProblem
    from muster.model.finding import Severity
    from muster.model.meta import Object

P = TypeVar("P", bound="Object")


def policy_file(command: F) -> F:
    return click.option(
        "--policy", required=True, type=click.Path(), metavar="FILE", help="The manifest of the policy; - is stdin."
    )(command)


def read_policy(path: str, kind: type[P]) -> tuple[P, Manifests]:
    """The file's only policy of that kind."""
    manifests = read_manifests([path])
    found = list(manifests.of(kind).values())
    if len(found) == 1:
        return found[0], manifests
    what = kind.__name__
    if not found:
        raise BadInput(f"{path}: error: there is no {what} in it (give the file that has one)")
    names = ", ".join(policy.metadata.name for policy in found)
    raise BadInput(f"{path}: error: there are {len(found)} of kind {what}: {names} (give a file with one)")


def print_problems(severity: Severity, policy: Object, manifests: Manifests, problems: Iterable[PolicyProblem]) -> int:
    """Prints each on stderr with its file and line; returns how many there were."""
    from muster.model.finding import Finding
    from muster.model.meta import key

    kind, name = type(policy).__name__, key(policy)
    place = manifests.where.place(kind, name)
    count = 0
    for problem in problems:
        message = f"{problem.path}: {problem.message}"
        line = place.line_of(problem.path)
        click.echo(str(Finding(severity, place.file, line, f"{kind} {name}", "policy", message, problem.fix)), err=True)
        count += 1
    return count
