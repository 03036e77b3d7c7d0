"""Reads the input of simulate, explain and validate: a cluster and a scheduler configuration.

A cluster is given as files, folders, objects of the model or plain dicts. What cannot be used raises `InputError`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct
from yaml import YAMLError

from muster.cluster.documents import contents
from muster.cluster.manifests import Manifests, read
from muster.config import DEFAULT, DEFAULT_NAME
from muster.config.announced_config import BUILT_IN, PREFIX, AnnouncedConfig, announced_configs_in
from muster.cycle.configure import configure, effective_hash, validate_configuration
from muster.cycle.scheduler import Scheduler
from muster.engine.core.state import Objects
from muster.model.finding import Finding, InputError, in_order
from muster.model.kinds import plain
from muster.model.meta import Object, seconds
from muster.model.yamltext import dump

PathName = str | os.PathLike[str]
ClusterPart = PathName | Object | Mapping[str, Any]
Cluster = ClusterPart | Iterable[ClusterPart] | Manifests
"""A path, an object, a list that may hold both, or manifests that were read before."""

SCHEDULER_NAMES = ("muster", "volcano")


# --- the cluster


def read_cluster(
    cluster: Cluster, workload_kinds: Sequence[PathName] = (), progress: Callable[[int, int], None] | None = None
) -> Manifests:
    """Reads every part of the cluster; what cannot be read becomes a finding. `workload_kinds` are the files with
    descriptions of further workload kinds. `progress` is called with the documents that are read, and how many there
    are."""
    if isinstance(cluster, Manifests):
        return cluster
    unreadable: list[Finding] = []
    manifests = read(_sources(cluster, unreadable), table_texts(workload_kinds), progress)
    manifests.findings = in_order([*unreadable, *manifests.findings])
    return manifests


def table_texts(paths: Sequence[PathName]) -> list[tuple[str, str]]:
    """Reads tables of workload kinds: the name and the text of each. Raises InputError."""
    return [(os.fspath(path), file_text(os.fspath(path))) for path in paths]


def usable_cluster(
    cluster: Cluster,
    *,
    keep_going: bool = False,
    workload_kinds: Sequence[PathName] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Manifests:
    """Reads the cluster; raises InputError if an object cannot be used (unless `keep_going`) or there is none."""
    manifests = read_cluster(cluster, workload_kinds, progress)
    errors = manifests.errors
    if errors and (not keep_going or any(finding.code == "file" for finding in errors)):
        raise InputError(f"{len(errors)} error{'s'[: len(errors) != 1]} in the input", manifests.findings)
    require_objects(manifests, cluster)
    return manifests


def require_objects(manifests: Manifests, cluster: Cluster) -> None:
    """Raises InputError if there is no usable object: a mistake in the paths or files, not an empty cluster."""
    if not any(manifests.objects.values()):
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(manifests.skipped.items()))
        skipped = f" (skipped: {kinds})" if kinds else ""
        raise InputError(f"there is no usable object in {_names(cluster)}{skipped}", manifests.findings)


def start_time(now: float | str | None, manifests: Manifests) -> float:
    """Returns the time at which the simulation starts, by default the latest timestamp in the input."""
    try:
        return manifests.latest if now is None else seconds(now) if isinstance(now, str) else float(now)
    except ValueError as error:
        raise InputError(f"now: {error} (write it like 2026-01-31T08:00:00Z)") from None


def _sources(cluster: object, unreadable: list[Finding]) -> Iterator[tuple[str, bytes | Mapping[str, Any]]]:
    parts = [cluster] if isinstance(cluster, str | os.PathLike | Mapping | Object) else cluster
    if not isinstance(parts, Iterable):
        raise InputError(f"a cluster is given as paths or objects, not as {type(cluster).__name__}")
    paths: list[PathName] = []
    for i, part in enumerate(parts):
        match part:
            case str() | os.PathLike():
                paths.append(part)
            case Object():
                yield f"objects[{i}]", plain(part)
            case Mapping():
                yield f"objects[{i}]", part
            case _:
                raise InputError(f"objects[{i}] is neither a path nor an object, but {type(part).__name__}")
    yield from contents(paths, unreadable)


def _names(cluster: object) -> str:
    parts = [cluster] if isinstance(cluster, str | os.PathLike) else cluster
    paths = [os.fspath(p) for p in parts if isinstance(p, str | os.PathLike)] if isinstance(parts, Iterable) else []
    return ", ".join(paths) or "the input"


# --- the configuration


class ConfigText(Struct, frozen=True):
    """The text of a configuration and its source; `announced` if a scheduler of the cluster announced it."""

    text: str
    source: str
    announced: AnnouncedConfig | None = None
    is_default: bool = False
    warning: str = ""


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A scheduler with its configuration, and what was found in the configuration."""

    scheduler: Scheduler
    text: ConfigText
    hash: str
    findings: tuple[Finding, ...] = field(default=(), repr=False)

    @property
    def warnings(self) -> list[str]:
        """Says that the default is used instead of an announced configuration, or that the announced one changed."""
        one = self.text.announced
        found = [self.text.warning] if self.text.warning else []
        if one is not None and one.hash != self.hash:
            found.append(
                f"{one.source} has the hash {self.hash}, but the scheduler of the Lease {one.lease} uses {one.hash}: "
                "it refused the change or has not seen it yet (see the events of the ConfigMap)"
            )
        return found

    def to_dict(self) -> dict[str, object]:
        """Returns the value of `configuration` in -o json."""
        found: dict[str, object] = {"source": self.text.source, "hash": self.hash}
        one = self.text.announced
        return found if one is None else {**found, "lease": one.lease, "running": one.running}

    def __str__(self) -> str:
        one = self.text.announced
        if one is None:
            return self.text.source
        who = "the running scheduler" if one.running else "a scheduler that does not run"
        return f"{self.text.source} (hash {self.hash}), of {who} (Lease {one.lease})"


Configuration = PathName | Mapping[str, Any] | ConfigText | LoadedConfig | None
"""A file, the plain value of a configuration, or None: the one in the snapshot, else the built-in default."""


def config_text(config: Configuration) -> ConfigText | None:
    """Reads the text of a configuration; None if none is given."""
    match config:
        case None | ConfigText():
            return config
        case LoadedConfig():
            return config.text
        case Mapping():
            try:
                return ConfigText(dump(dict(config)), "config")
            except YAMLError as error:
                raise InputError(f"config: {error}") from None
        case str() | os.PathLike():
            return ConfigText(file_text(os.fspath(config)), os.fspath(config))
    raise InputError(f"a configuration is given as a path or a mapping, not as {type(config).__name__}")


def config_for(objects: Objects, scheduler_names: Sequence[str]) -> ConfigText:
    """Returns the configuration that the snapshot or the live cluster names, else the built-in default."""
    found = announced_configs_in(objects)
    if not found:
        return default_config()
    ours = [one for one in found if one.lease and set(one.names) & set(scheduler_names)]
    # One that runs counts for more than one that has ended.
    ours = [one for one in ours if one.running] or ours
    if not ours:
        others = [f"{one.lease} ({', '.join(one.names)})" for one in found if one.lease]
        why = f"the schedulers there have other names: {'; '.join(others)}" if others else "no scheduler runs there"
        return default_config(f"the cluster names no configuration, {why}")
    if len({(one.source, one.text) for one in ours}) > 1:
        choices = ", ".join(f"{one.source} (Lease {one.lease})" for one in ours)
        raise InputError(f"the cluster has several schedulers: choose with -c or --scheduler-name: {choices}")
    one = ours[0]
    if one.text is None:
        why = f"{one.source}, the configuration of the Lease {one.lease}, is not there (give it with -c)"
        return default_config(why)
    return ConfigText(one.text, one.source, one)


def default_config(why: str = "") -> ConfigText:
    """Returns the built-in default; `why` says why it is used where a cluster has schedulers."""
    warning = f"{why}; the built-in default is used" if why else ""
    return ConfigText(DEFAULT, BUILT_IN, is_default=True, warning=warning)


def load_config(text: ConfigText) -> LoadedConfig:
    """Builds a scheduler with the configuration; raises InputError if it cannot be used."""
    config, findings = configure(text.text, text.source)
    if any(finding.severity == "error" for finding in findings):
        one = text.announced
        kept = f"; the scheduler of the Lease {one.lease} still uses {one.hash} (give that with -c)" if one else ""
        raise InputError(f"{text.source} cannot be used{kept}", findings)
    scheduler = Scheduler(config)
    found = (*findings, *in_order(scheduler.findings()))
    return LoadedConfig(scheduler, text, effective_hash(scheduler), found)


def check_config(text: ConfigText) -> LoadedConfig:
    """Builds a scheduler with the configuration as far as it can be used, and finds all that is wrong with it."""
    scheduler, findings = validate_configuration(text.text, DEFAULT_NAME if text.is_default else text.source)
    return LoadedConfig(scheduler, text, effective_hash(scheduler), tuple(findings))


def file_text(path: str) -> str:
    if path.startswith(PREFIX):
        raise InputError(f"{path}: error: a ConfigMap of a live cluster is read by the command line only")
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        fault = Finding("error", path, None, "", "file", "is not UTF-8 text", "save the file as UTF-8")
    except OSError as error:
        why = f"cannot be read: {error.strerror}"
        fault = Finding("error", path, None, "", "file", why, "look at the path and its permissions")
    raise InputError(f"{path} cannot be read", [fault])
