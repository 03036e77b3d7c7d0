"""`muster manifests`: everything but the CustomResourceDefinitions that a cluster needs to run muster."""

from __future__ import annotations

import json

import click

from muster import __version__
from muster.cli import options
from muster.cli.install.parts import PARTS

_UNREACHED = (
    "muster: warning: without --api-server-cidr the NetworkPolicy muster-webhook lets no API server reach the webhook "
    "unless it comes by konnectivity; its addresses: kubectl get endpointslices -n default kubernetes"
)
_ASKED_FOR = [part.verb for part in PARTS.values() if not part.by_default]


@click.command()
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(list(PARTS)),
    help=f"Only this part. May be given several times; without it: all but {' and '.join(_ASKED_FOR)}.",
)  # fmt: skip
@click.option("--namespace", default="muster-system", show_default=True, metavar="NAME", help="Where the parts run.")
@click.option("--image", default=f"muster:{__version__}", show_default=True, metavar="IMAGE", help="What they run.")
@click.option(
    "--override-metadata", "keys", multiple=True, metavar="KEY",
    help="A label or annotation that OverridePolicies may change on running pods. May be given several times; "
    "others are given to new pods only.",
)  # fmt: skip
@click.option(
    "--api-server-cidr", "api_servers", multiple=True, metavar="ADDRESS",
    help="Where the API server's requests to the webhook come from: an address or a network, or several separated by "
    "spaces. The NetworkPolicy lets nobody else reach the webhook. May be given several times.",
)  # fmt: skip
@click.option(
    "--webhook-client-ca", metavar="SECRET", default="",
    help="The webhook answers only clients with a certificate of the CA in the key ca.crt of this Secret: the API "
    "server's (docs/webhook-and-gate.md).",
)  # fmt: skip
@click.option(
    "--accounts-only", is_flag=True,
    help="Only the namespace, the accounts and their rights: for parts that run outside, such as a static pod.",
)
@options.config
@options.output("yaml", "json")
@options.verbosity
def manifests(
    parts: tuple[str, ...],
    namespace: str,
    image: str,
    keys: tuple[str, ...],
    api_servers: tuple[str, ...],
    webhook_client_ca: str,
    accounts_only: bool,
    config: str | None,
    form: str,
    verbosity: int,
) -> None:
    """Print ServiceAccounts with the least rights, the configuration, Deployments and the queue `default`.

    \b
    muster crds --with-peers --missing | kubectl apply -f -
    muster manifests --image IMAGE | kubectl apply -f -
    """
    from muster.cli.answer import print_objects
    from muster.cli.install import ACCOUNTS, Settings, installation

    settings = Settings(
        namespace=namespace, image=image, configuration=_configuration(config), api_servers=_networks(api_servers),
        webhook_client_ca=webhook_client_ca, override_metadata=json.dumps(list(keys)),
    )  # fmt: skip
    wanted = [part for part in PARTS.values() if (part.verb in parts if parts else part.by_default)]
    objects = installation(settings, wanted)
    if accounts_only:
        objects = [one for one in objects if one["kind"] in ACCOUNTS]
    elif any(part.guarded for part in wanted) and not api_servers:
        click.echo(_UNREACHED, err=True)
    print_objects(objects, form)


def _networks(given: tuple[str, ...]) -> tuple[str, ...]:
    """Each as a CIDR."""
    import ipaddress

    found = []
    for text in " ".join(given).split():
        try:
            found.append(str(ipaddress.ip_network(text)))
        except ValueError as fault:
            message = f"--api-server-cidr: {fault} (write 10.0.0.7 or 10.0.0.0/28)"
            raise click.UsageError(message) from None
    return tuple(found)


def _configuration(path: str | None) -> str:
    """The text for the ConfigMap; what cannot be used is refused here, not in the cluster."""
    from muster.cli.reading import config_text, read_config
    from muster.config.default import DEFAULT
    from muster.config.source import find_configuration
    from muster.model.yamlwrite import dump

    read_config(path)
    return DEFAULT if path is None else dump(find_configuration(config_text(path), path).value)
