"""The schedulers of a cluster by their Leases, each with the configuration that it announces."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from muster.config import DEFAULT
from muster.config.announced import BUILT_IN, PREFIX, Announced
from muster.config.source import NoConfiguration, content_of
from muster.kube.client import Client
from muster.kube.lease import Lease
from muster.kube.lists import Report, Selection, list_all
from muster.kube.resources import Resource
from muster.kube.writes import Writes
from muster.model.core import ConfigMap
from muster.store import errors

LABELS = "app.kubernetes.io/name=muster,app.kubernetes.io/component=scheduler"
CLOCK_SKEW_S = 5.0
"""How far the clocks of the scheduler's machine and of ours may differ before a live Lease looks expired."""
_LEASES = Resource(Lease, "coordination.k8s.io", "v1", "leases")


async def announced(client: Client, report: Report, now: Callable[[], float] = time.time) -> list[Announced]:
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
        one = Announced.of_lease(f"{meta.namespace}/{meta.name}", meta.annotations, running=running)
        if one is not None:
            found.append(await _with_text(client, one))
    return sorted(found, key=lambda one: one.lease) or [Announced()]


def _is_running(lease: Lease, now: float) -> bool:
    """Somebody holds it, and renewed it within its duration."""
    spec = lease.spec
    if not spec.holder_identity or not spec.renew_time:
        return False
    try:
        renewed = datetime.fromisoformat(spec.renew_time).timestamp()
    except ValueError:
        return False
    return now <= renewed + (spec.lease_duration_seconds or 0) + CLOCK_SKEW_S


async def _with_text(client: Client, one: Announced) -> Announced:
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
