"""`muster manifests`: everything but the CustomResourceDefinitions that a cluster needs to run muster."""

from __future__ import annotations

import click

from muster import __version__
from muster.cli import options
from muster.cli.install.parts import PARTS

_ASKED_FOR = [part.verb for part in PARTS.values() if not part.by_default]


@click.command()
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(list(PARTS)),
    help=f"Only this part. May be given several times; without it: all but {' and '.join(_ASKED_FOR)}.",
)  # fmt: skip
@click.option("--namespace", default="muster-system", show_default=True, metavar="NAME", help="Where the parts run.")
@click.option("--image", default=f"muster:{__version__}", show_default=True, metavar="IMAGE", help="What they run.")
@options.config
@options.output("yaml", "json")
@options.verbosity
def manifests(
    parts: tuple[str, ...], namespace: str, image: str, config: str | None, form: str, verbosity: int
) -> None:
    """Print ServiceAccounts with the least rights, the configuration, Deployments and the queue `default`.

    \b
    muster crds --with-peers --missing | kubectl apply -f -
    muster manifests --image IMAGE | kubectl apply -f -
    """
    from muster.cli.answer import print_objects
    from muster.cli.install import Settings, installation

    settings = Settings(namespace=namespace, image=image, configuration=_configuration(config))
    wanted = [part for part in PARTS.values() if (part.verb in parts if parts else part.by_default)]
    print_objects(installation(settings, wanted), form)


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
