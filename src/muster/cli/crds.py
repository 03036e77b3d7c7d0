"""`muster crds`: the CustomResourceDefinitions to `kubectl apply`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from muster.cli import options
from muster.cli.help import Command

if TYPE_CHECKING:
    from muster.kube import Client
    from muster.model.crd import Definition


@click.command(cls=Command, example="muster crds --with-peers --missing | kubectl apply -f -")
@click.option("--with-peers", is_flag=True, help="Also those of Volcano, Kueue and KAI, for a cluster without them.")
@click.option("--missing", is_flag=True, help="Only those that the cluster does not serve yet: nothing is replaced.")
@options.kubeconfig
@options.output("yaml", "json")
@options.verbosity
def crds(
    with_peers: bool, missing: bool, kubeconfig: str | None, context: str | None, form: str, verbosity: int
) -> None:
    """Print the CustomResourceDefinitions to apply to a cluster.

    They are those of NodeGroup, PropagationPolicy and OverridePolicy, and with --with-peers those of the kinds of other
    projects that muster reads.
    """
    from muster.cli.answer import print_objects
    from muster.model.crd import OURS, PEERS

    wanted: Sequence[Definition] = (*OURS, *PEERS) if with_peers else OURS
    if missing:
        wanted = _missing(wanted, kubeconfig, context)
        if not wanted:
            click.echo("the cluster has them all: the List is empty, and kubectl apply reports that", err=True)
    print_objects([one.plain() for one in wanted], form)


def _missing(wanted: Sequence[Definition], kubeconfig: str | None, context: str | None) -> list[Definition]:
    """Returns those that the cluster does not serve in any version: a newer version of a peer is not replaced."""
    from muster.cli.reading import BadInput
    from muster.kube import Client, NoAccess, load
    from muster.store.errors import ApiError

    async def look() -> list[Definition]:
        async with Client(load(kubeconfig, context)) as client:
            return [one for one in wanted if not await _serves(client, one)]

    try:
        return asyncio.run(look())
    except (NoAccess, ApiError) as fault:
        raise BadInput(f"muster: cannot read the APIs of the cluster: {fault}") from None


async def _serves(client: Client, definition: Definition) -> bool:
    group = await _discovered(client, f"/apis/{definition.group}")
    for version in group.get("versions", ()):
        served = await _discovered(client, f"/apis/{version['groupVersion']}")
        if any(resource.get("name") == definition.plural for resource in served.get("resources", ())):
            return True
    return False


async def _discovered(client: Client, path: str) -> dict[str, Any]:
    import msgspec

    from muster.store.errors import NotFound

    try:
        answer = msgspec.json.decode(await client.request("GET", path))
    except NotFound:
        return {}
    return answer if isinstance(answer, dict) else {}
