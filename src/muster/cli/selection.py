"""Which cluster a command reads instead of the live one, and which of its objects the answer shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from muster.cli.options import Command

if TYPE_CHECKING:
    from muster.cluster.manifests import Manifests
    from muster.model.meta import LabelSelector


def cluster_files(command: Command) -> Command:
    return click.option(
        "--cluster", "clusters", type=click.Path(), multiple=True, metavar="FILE_OR_DIR",
        help="The cluster in manifests or a snapshot, instead of the live one. May be given several times.",
    )(command)  # fmt: skip



@dataclass(frozen=True, slots=True)
class Shown:
    """Which objects an answer shows: those of a namespace, and those with a matching label."""

    namespace: str  # "": all
    labels: LabelSelector | None  # None: all

    def has(self, namespace: str, labels: Iterable[Mapping[str, str]]) -> bool:
        if self.namespace and namespace != self.namespace:
            return False
        if self.labels is None:
            return True
        from muster.model.selectors import matches

        return any(matches(self.labels, one) for one in labels)


class Selector(click.ParamType["LabelSelector"]):
    """A label selector as kubectl takes it."""

    name = "selector"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> LabelSelector:
        from muster.model.meta import LabelSelector
        from muster.model.selectors import selector_of_text

        if isinstance(value, LabelSelector):
            return value
        try:
            return selector_of_text(str(value))
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


def manifest_labels(command: Command) -> Command:
    """`-l` of commands that apply manifests, as the parameter `labels`."""
    return click.option(
        "-l", "--selector", "labels", type=Selector(), metavar="SELECTOR",
        help="Use only the manifests whose labels match (app=web,tier!=db).",
    )(command)  # fmt: skip


def with_labels(manifests: Manifests, labels: LabelSelector | None) -> Manifests:
    """Returns the manifests whose labels match; an error if there is none."""
    if labels is None:
        return manifests
    from muster.cli.reading import BadInput
    from muster.model.selectors import matches

    found = {
        kind: {key: obj for key, obj in of_kind.items() if matches(labels, obj.metadata.labels)}
        for kind, of_kind in manifests.objects.items()
    }
    if not any(found.values()):
        raise BadInput("muster: no manifest has labels that match -l")
    return replace(manifests, objects=found)


def namespace(text: str) -> Callable[[Command], Command]:
    """`-n`, with this help."""
    return click.option("-n", "--namespace", default="", metavar="NAMESPACE", help=text)


def shown(command: Command) -> Command:
    """`-n`, `-A` and `-l`, as the parameter `shown`."""

    @wraps(command)
    def gathered(*, namespace: str, all_namespaces: bool, labels: LabelSelector | None, **others: Any) -> None:
        command(shown=Shown("" if all_namespaces else namespace, labels), **others)

    with_labels = click.option(
        "-l", "--selector", "labels", type=Selector(), metavar="SELECTOR",
        help="Show only groups with a pod whose labels, or those of its group, match (app=web,tier!=db).",
    )(gathered)  # fmt: skip
    with_all = click.option(
        "-A", "--all-namespaces", is_flag=True, help="Show all namespaces, which is the default without -n."
    )(with_labels)
    return namespace("Show only this namespace.")(with_all)
