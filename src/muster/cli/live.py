"""Functions of the commands on a live cluster: they run until SIGTERM or SIGINT, and report why they cannot start."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli.answer import waiting
from muster.cli.reading import BadInput, print_findings
from muster.process.settings import WORKLOAD_KINDS, SettingError, check_readable, config_map_place

if TYPE_CHECKING:
    from muster.cli.install.rights import Right
    from muster.cluster.manifests import Manifests
    from muster.model.finding import Finding
    from muster.model.meta import Object
    from muster.process.component import Component
    from muster.store.errors import Permission


def run_until_stopped(component: Component) -> None:
    """Runs a component until SIGTERM or SIGINT, and reports why it cannot start."""
    from muster.kube.config import NoAccess
    from muster.process.component import run_until_signalled

    try:
        run_until_signalled(component)
    except NoAccess as why:
        raise BadInput(f"muster: {why}") from None
    except OSError as fault:
        raise BadInput(f"muster: cannot listen: {fault.strerror or fault}") from None


def further_kinds(workload_kinds: Iterable[str]) -> list[type[Object]]:
    """Returns the kinds of a cluster to read beside those that muster defines: described workload kinds, also of these
    files, and the kinds that plugins of other packages read."""
    from muster.cycle.registry import third_party_kinds
    from muster.workloads.description import read_table
    from muster.workloads.table import KindTable

    table = KindTable()
    findings: list[Finding] = []
    for file, text in _table_texts(workload_kinds):
        described, wrong = read_table(text, file)
        findings += [*wrong, *table.add(described)]
    print_findings(findings)
    return [*table.all_types(), *third_party_kinds().values()]


def _table_texts(workload_kinds: Iterable[str]) -> list[tuple[str, str]]:
    files = list(workload_kinds)
    try:
        check_readable(WORKLOAD_KINDS, files)
    except SettingError as why:
        raise BadInput(f"muster: {why}") from None
    return [(file, Path(file).read_bytes().decode("utf-8-sig")) for file in files]


def read_cluster(
    kubeconfig: str | None, context: str | None, *, discreet: bool = True, workload_kinds: Sequence[str] = ()
) -> Manifests:
    """Reads the running cluster, as if its snapshot had been given with -f; without `discreet`, the commands and
    environments of containers are read, too.
    """
    from muster.cluster.manifests import read
    from muster.kube import Client, NoAccess, load
    from muster.kube.snapshot import Taken, snapshot
    from muster.store.errors import ApiError

    further = further_kinds(workload_kinds)

    async def lines() -> bytes:
        async with Client(load(kubeconfig, context)) as client:
            lines = snapshot(
                client, Taken(), lambda text: click.echo(text, err=True), further=further, discreet=discreet
            )
            return b"".join([line async for line in lines])

    try:
        with waiting("reading the cluster"):
            manifests = read([("cluster.ndjson", asyncio.run(lines()))], _table_texts(workload_kinds))
    except (NoAccess, ApiError) as fault:
        raise BadInput(f"muster: the cluster cannot be read: {fault}") from None
    print_findings(manifests.findings)
    return manifests


def read_config_map(given: str) -> str:
    """Reads the configuration in a ConfigMap once, with --kubeconfig and --context of the command if it has them."""
    from muster.kube import Client, NoAccess, load
    from muster.process.config_sources import ConfigContent, ConfigMapKey, InvalidConfig

    options = click.get_current_context().params
    try:
        place = config_map_place(given)
    except SettingError as why:
        raise click.UsageError(str(why)) from None

    async def look() -> ConfigContent:
        async with Client(load(options.get("kubeconfig"), options.get("context"))) as client:
            return await ConfigMapKey(client, place, lambda text: click.echo(text, err=True)).read()

    try:
        return asyncio.run(look()).text()
    except (NoAccess, InvalidConfig) as fault:
        raise BadInput(f"muster: -c {given}: {fault}" if isinstance(fault, NoAccess) else str(fault)) from None


def webhook_is_alive(kubeconfig: str | None, context: str | None) -> bool:
    """Returns whether a webhook of muster is registered in the running cluster and has its Lease, in any namespace."""
    from muster.groupctl.liveness import WebhookLiveness, webhook_lease_key
    from muster.kube import Client, NoAccess, load

    async def look() -> bool:
        async with Client(load(kubeconfig, context)) as client:
            life = WebhookLiveness(client, await webhook_lease_key(client), lambda: None, lambda text: None)
            await life.check()
            return life.alive

    try:
        return asyncio.run(look())
    except NoAccess:
        return False


def writes_of(rights: Iterable[Right]) -> tuple[Permission, ...]:
    """Returns the permissions to write that `muster manifests` gives a part."""
    from muster.cli.install.rights import READ
    from muster.store.errors import Permission

    return tuple(
        Permission(verb, resource, right.group, name)
        for right in rights for resource in right.resources for verb in right.verbs if verb not in READ
        for name in right.names or ("",)
    )  # fmt: skip
