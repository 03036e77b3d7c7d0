"""The configuration that a scheduler announces: on its Lease, and in a snapshot as a ConfigMap with the text.

A scheduler writes `lease_annotations` on its Lease. A snapshot has one ConfigMap for each such Lease, under the
Lease's name, with the same annotations. If no scheduler has announced anything, it has one without a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from muster.model.core import ConfigMap
from muster.model.meta import Object, ObjectMeta

__all__ = ["BUILT_IN", "PREFIX", "AnnouncedConfig", "announced_configs_in", "lease_annotations"]

PREFIX = "configmap:"
"""Begins a source that is a ConfigMap: configmap:NAMESPACE/NAME[/KEY]."""
BUILT_IN = "built-in default"
SOURCE = "muster.io/configuration"
HASH = "muster.io/configuration-hash"
NAMES = "muster.io/scheduler-names"
LEASE = "muster.io/scheduler-lease"
RUNNING = "muster.io/scheduler-running"
_KEY = "scheduler.conf"
_NO_LEASE = "kube-system/no-scheduler"


def lease_annotations(source: str, digest: str, names: Iterable[str]) -> dict[str, str]:
    """Returns the annotations that a scheduler writes on its Lease."""
    return {SOURCE: source, HASH: digest, NAMES: ",".join(names)}


class AnnouncedConfig(Struct, frozen=True):
    """The configuration of one scheduler. `lease` is empty where no scheduler has announced one."""

    lease: str = ""
    running: bool = False
    source: str = ""
    hash: str = ""
    names: tuple[str, ...] = ()
    text: str | None = None
    fault: str = ""
    """Why there is no text."""

    @classmethod
    def of_lease(cls, lease: str, notes: Mapping[str, str], *, running: bool) -> AnnouncedConfig | None:
        """Reads the annotations of a Lease; returns None if the scheduler that wrote it announces nothing."""
        if SOURCE not in notes:
            return None
        names = tuple(filter(None, notes.get(NAMES, "").split(",")))
        return cls(lease, running, notes[SOURCE], notes.get(HASH, ""), names)

    def config_map(self) -> ConfigMap:
        """Returns the ConfigMap that represents it in a snapshot."""
        namespace, _, name = (self.lease or _NO_LEASE).partition("/")
        notes = lease_annotations(self.source, self.hash, self.names) if self.lease else {}
        notes = {**notes, LEASE: self.lease, RUNNING: "true" if self.running else "false"}
        data = {} if self.text is None else {_KEY: self.text}
        return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, annotations=notes), data=data)


def announced_configs_in(objects: Mapping[str, Mapping[str, Object]]) -> list[AnnouncedConfig]:
    """Returns the announced configurations of a snapshot, by name of the Lease; none for other manifests."""
    found = []
    for _, one in sorted(objects.get("ConfigMap", {}).items()):
        notes = one.metadata.annotations
        if not isinstance(one, ConfigMap) or RUNNING not in notes:
            continue
        running = notes[RUNNING] == "true"
        announced = AnnouncedConfig.of_lease(notes.get(LEASE, ""), notes, running=running) or AnnouncedConfig()
        found.append(AnnouncedConfig(
            announced.lease, running, announced.source, announced.hash, announced.names, one.data.get(_KEY)
        ))  # fmt: skip
    return found
