"""What the verbs on a live cluster share: they run until SIGTERM or SIGINT, and say clearly why they cannot begin."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli.answer import waiting
from muster.cli.reading import BadInput, tell
from muster.config.announced import PREFIX

if TYPE_CHECKING:
    from muster.cli.install.rights import Right
    from muster.cluster.manifests import Manifests
    from muster.store.errors import Permission

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def run_until_stopped(serve: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run it; the event it is given is set by the first signal."""
    import uvloop

    from muster.kube.config import NoAccess

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await serve(stop)

    try:
        uvloop.run(main())  # API calls over TLS cost half the CPU time of asyncio's own loop
    except NoAccess as why:
        raise BadInput(f"muster: {why}") from None
    except OSError as fault:
        raise BadInput(f"muster: cannot listen: {fault.strerror or fault}") from None


def read_cluster(kubeconfig: str | None, context: str | None, *, discreet: bool = True) -> Manifests:
    """The running cluster as it stands, as if its snapshot had been given with -f; without `discreet`, what containers
    run is read, too."""
    from muster.cluster.manifests import read
    from muster.kube import Client, NoAccess, load
    from muster.kube.snapshot import Taken, snapshot
    from muster.store.errors import ApiError

    async def lines() -> bytes:
        async with Client(load(kubeconfig, context)) as client:
            told = snapshot(client, Taken(), lambda text: click.echo(text, err=True), discreet=discreet)
            return b"".join([line async for line in told])

    try:
        with waiting("reading the cluster"):
            manifests = read([("cluster.ndjson", asyncio.run(lines()))])
    except (NoAccess, ApiError) as fault:
        raise BadInput(f"muster: the cluster cannot be read: {fault}") from None
    tell(manifests.findings)
    return manifests


def config_map_place(given: str) -> str:
    """NAMESPACE/NAME[/KEY] of `configmap:…`; without a namespace the one that muster runs in."""
    parts = given.removeprefix(PREFIX).split("/")
    if len(parts) > 3 or not all(parts):
        raise click.UsageError(f"-c {PREFIX}… is {PREFIX}NAMESPACE/NAME, {PREFIX}NAMESPACE/NAME/KEY or {PREFIX}NAME")
    return "/".join(parts if len(parts) > 1 else [own_namespace(), *parts])


def read_config_map(given: str) -> str:
    """The configuration in a ConfigMap, read once, by --kubeconfig and --context of the command if it has them."""
    from muster.kube import Client, NoAccess, load
    from muster.process.config_sources import ConfigContent, ConfigMapKey, InvalidConfig

    place, options = config_map_place(given), click.get_current_context().params

    async def look() -> ConfigContent:
        async with Client(load(options.get("kubeconfig"), options.get("context"))) as client:
            return await ConfigMapKey(client, place, lambda text: click.echo(text, err=True)).read()

    try:
        return asyncio.run(look()).text()
    except (NoAccess, InvalidConfig) as fault:
        raise BadInput(f"muster: -c {given}: {fault}" if isinstance(fault, NoAccess) else str(fault)) from None


def webhook_is_alive(kubeconfig: str | None, context: str | None) -> bool:
    """Whether a webhook of muster is registered in the running cluster and holds its Lease, wherever that is."""
    from muster.groupctl.controllers.webhook_lease import WebhookLiveness, webhook_lease_key
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
    """The permissions to write among what `muster manifests` gives a part."""
    from muster.cli.install.rights import READ
    from muster.store.errors import Permission

    return tuple(
        Permission(verb, resource, right.group, name)
        for right in rights for resource in right.resources for verb in right.verbs if verb not in READ
        for name in right.names or ("",)
    )  # fmt: skip


def own_namespace(outside: str = "kube-system") -> str:
    """The namespace of the pod we run in; outside a cluster by default kube-system, which is always there."""
    try:
        return _NAMESPACE.read_text(encoding="utf-8").strip() or outside
    except OSError:
        return outside


def home_of(configured: str) -> str:
    """The namespace of the other parts: that of the ConfigMap of further kinds if one is named, else our own."""
    named = configured.partition("/")[0]
    return own_namespace() if named == own_namespace("kubeedge") else named


def own_pod() -> str:
    """The pod we run in as NAMESPACE/NAME, by the environment that `muster manifests` gives it; empty outside one."""
    name, namespace = os.environ.get("POD_NAME", ""), os.environ.get("POD_NAMESPACE", "")
    return f"{namespace}/{name}" if name and namespace else ""
