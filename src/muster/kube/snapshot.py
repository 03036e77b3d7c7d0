"""Reads the cluster into a snapshot: the kinds that simulate reads, page by page, without confidential content.

Secrets are not read, and of ConfigMaps only those that schedulers name as their configuration. What the containers
run (command, arguments, environment) is left out, and so is the copy of it that kubectl keeps in an
annotation: no decision depends on it, and it can contain passwords.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.config import DEFAULT
from muster.config.announced_config import BUILT_IN, PREFIX, AnnouncedConfig
from muster.config.source import NoConfiguration, content_of
from muster.groups.applications import templates_of
from muster.kube.client import Client
from muster.kube.lease import Lease
from muster.kube.list_watch import Report, Selection, list_all
from muster.kube.resources import SOURCES, Resource, sources_of
from muster.kube.writes import Writes
from muster.model.batch import ControllerRevision
from muster.model.core import ConfigMap, Container, Node, Pod, PodSpec
from muster.model.custom import ConfiguredApplication, CustomResource
from muster.model.kinds import plain
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.store import errors

# Without these a snapshot is of no use; others may be forbidden to the one who takes it.
NEEDED: tuple[type[Object], ...] = (Pod, Node)
# A ControllerRevision is an old template, and only what containers run would be needed from it.
_LEFT_OUT = (ConfigMap, ControllerRevision)
# Pods come first: what they refer to was made before them, so it is in the lists that are taken after.
KINDS: tuple[type[Object], ...] = (Pod, *(kind for kind in SOURCES if kind not in (Pod, *_LEFT_OUT)))

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Taken(msgspec.Struct):
    """The contents of a snapshot: the number of objects of each kind, and the kinds that could not be read."""

    counts: Counter[str] = msgspec.field(default_factory=Counter)
    forbidden: list[str] = msgspec.field(default_factory=list)
    schedulers: list[AnnouncedConfig] = msgspec.field(default_factory=list)


async def snapshot(
    client: Client, taken: Taken, report: Report, *, further: Iterable[type[Object]] = (), discreet: bool = True
) -> AsyncIterator[bytes]:
    """Yields one line of JSON for each object; `taken` counts what was written.

    `further` are kinds besides KINDS: described workload kinds, and those that plugins of other packages read. Without
    `discreet`, what containers run is written, too; the caller must keep it confidential.
    """
    for kind in dict.fromkeys((*KINDS, *await _served(client, list(further)))):
        seen: set[str] = set()
        for versions in sources_of(kind):
            for obj in await _objects(client, versions, taken, report):
                key = key_of(obj)
                if key in seen:
                    report(f"{kind.__name__} {key} exists twice; that of {obj.api_version} is ignored")
                    continue
                seen.add(key)
                taken.counts[kind.__name__] += 1
                yield _line(_discreet(obj) if discreet else obj)
    for one in await _schedulers(client, taken, report):
        taken.schedulers.append(one)
        yield _line(one.config_map())


async def _served(client: Client, kinds: list[type[Object]]) -> list[type[Object]]:
    """Returns the kinds whose API group is served: others would be reported as forbidden."""
    if not kinds:
        return []
    try:
        answer = msgspec.json.decode(await client.request("GET", "/apis"))
    except errors.ApiError:
        return kinds
    groups = {group["name"] for group in answer.get("groups", ())}
    return [kind for kind in kinds if not issubclass(kind, CustomResource) or kind.group in groups]


async def _schedulers(client: Client, taken: Taken, report: Report) -> list[AnnouncedConfig]:
    """Returns the configurations that schedulers announce on their Leases."""
    try:
        found = await announced(client, report)
    except errors.Forbidden as error:
        taken.forbidden.append("leases.coordination.k8s.io")
        report(f"the scheduler's configuration is left out: {error.message}")
        return []
    for one in found:
        if not one.lease:
            report("no scheduler of muster runs in this cluster, and none has left its configuration")
        elif not one.running:
            report(f"the scheduler of the Lease {one.lease} does not run; its last configuration was {one.source}")
        if one.fault:
            report(f"{one.source}, the configuration of the Lease {one.lease}, is left out: {one.fault}")
    return found


def _line(obj: Object) -> bytes:
    return msgspec.json.encode(plain(obj)) + b"\n"


async def _objects(client: Client, versions: tuple[Resource, ...], taken: Taken, report: Report) -> list[Object]:
    for resource in versions:
        try:
            objects, _ = await list_all(client, Selection(resource), report)
        except errors.NotFound:
            continue  # the cluster does not have this kind, or not in this version
        except errors.Forbidden as error:
            if resource.kind in NEEDED:
                raise
            taken.forbidden.append(resource.name)
            report(f"{resource.name} is left out: {error.message}")
            return []
        return sorted(objects, key=key_of)
    return []


def _discreet(obj: Object) -> Object:
    """The object without what its containers run. Freshly decoded, so it may be changed in place."""
    obj.metadata.annotations.pop(_APPLIED, None)
    if isinstance(obj, ConfiguredApplication):
        obj.spec = _hushed(obj.spec)
    for spec in _pod_specs(obj):
        for container in (*spec.containers, *spec.init_containers):
            _hush(container)
    return obj


def _pod_specs(obj: Object) -> list[PodSpec]:
    return [obj.spec] if isinstance(obj, Pod) else [template.spec for template in templates_of(obj)]


def _hush(container: Container) -> None:
    container.command, container.args, container.env = [], [], []


# Where kinds of operators have what their containers run, also outside of pod templates.
_CONFIDENTIAL = frozenset({
    "args", "arguments", "command", "entrypoint", "env", "envFrom", "envVars", "hadoopConf", "lifecycle",
    "rayStartParams", "runtimeEnvYAML", "serveConfigV2", "sparkConf",
})  # fmt: skip


def _hushed(value: Any) -> Any:
    """The spec of a described kind, which is kept as it is written, without what containers run."""
    match value:
        case dict():
            return {name: _hushed(inner) for name, inner in value.items() if name not in _CONFIDENTIAL}
        case list():
            return [_hushed(inner) for inner in value]
    return value


LABELS = "app.kubernetes.io/name=muster,app.kubernetes.io/component=scheduler"
CLOCK_SKEW_S = 5.0
"""How far the clocks of the scheduler's machine and of ours may differ before a live Lease looks expired."""
_LEASES = Resource(Lease, "coordination.k8s.io", "v1", "leases")


async def announced(client: Client, report: Report, now: Callable[[], float] = time.time) -> list[AnnouncedConfig]:
    """By the names of the Leases. Where there is none, one without a Lease; Forbidden if Leases cannot be listed."""
    try:
        leases, _ = await list_all(client, Selection(_LEASES, labels=LABELS), report)
    except errors.NotFound:
        leases = []
    found = []
    for lease in leases:
        assert isinstance(lease, Lease)
        meta = lease.metadata
        running = _is_running(lease, now())
        one = AnnouncedConfig.of_lease(f"{meta.namespace}/{meta.name}", meta.annotations, running=running)
        if one is not None:
            found.append(await _with_text(client, one))
    return sorted(found, key=lambda one: one.lease) or [AnnouncedConfig()]


def _is_running(lease: Lease, now: float) -> bool:
    """Returns whether the Lease has a holder that renewed it within its duration."""
    spec = lease.spec
    if not spec.holder_identity or not spec.renew_time:
        return False
    try:
        renewed = datetime.fromisoformat(spec.renew_time).timestamp()
    except ValueError:
        return False
    return now <= renewed + (spec.lease_duration_seconds or 0) + CLOCK_SKEW_S


async def _with_text(client: Client, one: AnnouncedConfig) -> AnnouncedConfig:
    if one.source == BUILT_IN:
        return replace(one, text=DEFAULT)
    if not one.source.startswith(PREFIX):
        return replace(one, fault="a file of the scheduler's machine is not in the cluster")
    namespace, name, key = [*one.source.removeprefix(PREFIX).split("/"), ""][:3]
    try:
        there = await Writes(client).get(ConfigMap, f"{namespace}/{name}")
        return replace(one, text=content_of(there, key).decode("utf-8-sig"))
    except (errors.ApiError, NoConfiguration, UnicodeDecodeError) as fault:
        return replace(one, fault=str(fault))
