"""`muster manifests`: the objects that a cluster needs to run muster, apart from the CustomResourceDefinitions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from muster import __version__
from muster.cli import options
from muster.cli.help import Command
from muster.cli.install.parts import PARTS

if TYPE_CHECKING:
    from muster.cli.install.parts import Values

_UNREACHED = (
    "muster: warning: without --api-server-cidr the NetworkPolicy muster-webhook blocks requests of the API server "
    "unless they come through konnectivity; its addresses: kubectl get endpointslices -n default kubernetes"
)
_ASKED_FOR = [part.verb for part in PARTS.values() if not part.by_default]


@click.command(cls=Command, example="muster manifests --image registry.example/muster:0.1.0 | kubectl apply -f -")
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(list(PARTS)),
    help=f"Only this part. May be given several times; without it: all but {' and '.join(_ASKED_FOR)}.",
)  # fmt: skip
@click.option("--namespace", default="muster-system", show_default=True, metavar="NAME", help="Their namespace.")
@click.option("--image", default=f"muster:{__version__}", show_default=True, metavar="IMAGE", help="What they run.")
@click.option(
    "--override-metadata", "keys", multiple=True, metavar="KEY",
    help="A label or annotation that OverridePolicies may change on running pods. May be given several times; "
    "others are set on new pods only.",
)  # fmt: skip
@click.option(
    "--api-server-cidr", "api_servers", multiple=True, metavar="ADDRESS",
    help="The source of the API server's requests to the webhook: an address or a network, or several separated by "
    "spaces. The NetworkPolicy admits no other source. May be given several times.",
)  # fmt: skip
@click.option(
    "--webhook-client-ca", metavar="SECRET", default="",
    help="The webhook answers only clients with a certificate of the CA in the key ca.crt of this Secret: the API "
    "server's (docs/tasks/webhook-and-gate.md).",
)  # fmt: skip
@click.option(
    "--accounts-only",
    is_flag=True,
    help="Only the namespace, the accounts and their rights: for parts that run outside, such as a static pod.",
)
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
    keys: tuple[str, ...],
    api_servers: tuple[str, ...],
    webhook_client_ca: str,
    accounts_only: bool,
    values: str | None,
    default_queue: bool,
    config: str | None,
    kubeconfig: str | None,
    context: str | None,
    form: str,
    verbosity: int,
) -> None:
    """Print the objects that run muster in a cluster.

    They are ServiceAccounts with the least rights, the configuration and Deployments. Apply the
    CustomResourceDefinitions of `muster crds` before them.
    """
    from muster.cli import install
    from muster.cli.answer import print_objects

    settings = install.Settings(
        namespace=namespace, image=image, configuration=_configuration(config), values=_values(values),
        api_servers=_networks(api_servers), webhook_client_ca=webhook_client_ca,
        override_metadata=json.dumps(list(keys)),
    )  # fmt: skip
    wanted = [part for part in PARTS.values() if (part.verb in parts if parts else part.by_default)]
    objects = install.installation(settings, wanted)
    if accounts_only:
        objects = [one for one in objects if one["kind"] in install.ACCOUNTS]
    elif any(part.guarded for part in wanted) and not api_servers:
        click.echo(_UNREACHED, err=True)
    if default_queue and not _has_default_queue(kubeconfig, context):
        objects.append(install.default_queue())
    print_objects(objects, form)


def _networks(given: tuple[str, ...]) -> tuple[str, ...]:
    """Returns each as a CIDR."""
    import ipaddress

    found = []
    for text in " ".join(given).split():
        try:
            found.append(str(ipaddress.ip_network(text)))
        except ValueError as fault:
            message = f"--api-server-cidr: {fault} (write 10.0.0.7 or 10.0.0.0/28)"
            raise click.UsageError(message) from None
    return tuple(found)


def _values(path: str | None) -> Values:
    from muster.cli.install.parts import BadValues, Values, read_values
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
    """Returns whether the cluster has the queue `default`. It is then not printed: with our label on it, an
    uninstallation would delete it.
    """
    import asyncio

    from muster.cli.reading import BadInput
    from muster.kube import Client, NoAccess, Writes, load
    from muster.model.scheduling import Queue
    from muster.store.errors import ApiError, NotFound

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
        raise BadInput(f"muster: cannot read the queue `default` of the cluster: {fault}") from None


def _configuration(path: str | None) -> str:
    """Returns the text for the ConfigMap; an invalid configuration is refused here, not in the cluster."""
    from muster.cli.reading import config_from_flag, load_and_report
    from muster.config.loader import DEFAULT
    from muster.config.source import find_configuration
    from muster.model.yamltext import dump

    text = config_from_flag(path)
    if text is None:
        return DEFAULT
    load_and_report(text)
    return dump(find_configuration(text.text, text.source).value)
