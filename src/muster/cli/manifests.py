"""`muster manifests`: everything but the CustomResourceDefinitions that a cluster needs to run muster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from muster import __version__
from muster.cli import options
from muster.cli.install.parts import PARTS

if TYPE_CHECKING:
    from muster.cli.install.placement import Values

_ASKED_FOR = [part.verb for part in PARTS.values() if not part.by_default]


@click.command()
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(list(PARTS)),
    help=f"Only this part. May be given several times; without it: all but {' and '.join(_ASKED_FOR)}.",
)  # fmt: skip
@click.option("--namespace", default="muster-system", show_default=True, metavar="NAME", help="Where the parts run.")
@click.option("--image", default=f"muster:{__version__}", show_default=True, metavar="IMAGE", help="What they run.")
@click.option("--values", type=click.Path(), metavar="FILE", help="Where the parts run and what they may use: "
              "nodeSelector, tolerations, affinity, priorityClassName, replicas and resources, as in the chart's "
              "values.yaml.")  # fmt: skip
@click.option("--default-queue", is_flag=True, help="Also print the queue `default`, if the live cluster has none.")
@options.config
@options.kubeconfig
@options.output("yaml", "json")
@options.verbosity
def manifests(
    parts: tuple[str, ...],
    namespace: str,
    image: str,
    values: str | None,
    default_queue: bool,
    config: str | None,
    kubeconfig: str | None,
    context: str | None,
    form: str,
    verbosity: int,
) -> None:
    """Print ServiceAccounts with the least rights, the configuration and Deployments.

    \b
    muster crds --with-peers --missing | kubectl apply -f -
    muster manifests --default-queue --image IMAGE | kubectl apply -f -
    """
    from muster.cli import install
    from muster.cli.answer import print_objects

    settings = install.Settings(namespace, image, _configuration(config), _values(values))
    wanted = [part for part in PARTS.values() if (part.verb in parts if parts else part.by_default)]
    objects = install.installation(settings, wanted)
    if default_queue and not _has_default_queue(kubeconfig, context):
        objects.append(install.default_queue())
    print_objects(objects, form)


def _values(path: str | None) -> Values:
    from muster.cli.install.placement import BadValues, Values, read_values
    from muster.cli.reading import BadInput, config_text
    from muster.model.yamltext import YamlError, load_all

    if path is None:
        return Values()
    try:
        documents = load_all(config_text(path), path)
        values, passed_over = read_values(documents[0].value if documents else {}, list(PARTS.values()))
    except YamlError as fault:
        raise BadInput(f"{path}:{fault.line}: error: {fault.message}") from None
    except BadValues as fault:
        raise BadInput(f"{path}: error: {fault}") from None
    if passed_over:
        click.echo(f"{path}: only the Helm chart uses {', '.join(passed_over)}", err=True)
    return values


def _has_default_queue(kubeconfig: str | None, context: str | None) -> bool:
    """A queue that is there stays as it is: with our label on it, uninstalling would delete it."""
    import asyncio

    from muster.cli.reading import BadInput
    from muster.kube import Client, NoAccess, Writes, load
    from muster.kube.errors import ApiError, NotFound
    from muster.model.scheduling import Queue

    async def look() -> bool:
        async with Client(load(kubeconfig, context)) as client:
            try:
                await Writes(client).get(Queue, "default")
            except NotFound:
                return False
            return True

    try:
        return asyncio.run(look())
    except (NoAccess, ApiError) as fault:
        raise BadInput(f"muster: cannot ask the cluster for its queue `default`: {fault}") from None


def _configuration(path: str | None) -> str:
    """The text for the ConfigMap; what cannot be used is refused here, not in the cluster."""
    from muster.cli.configuration import given, used
    from muster.config.default import DEFAULT
    from muster.config.source import find_configuration
    from muster.model.yamlwrite import dump

    told = given(path)
    if told is None:
        return DEFAULT
    used(told)
    return dump(find_configuration(told.text, told.source).value)
