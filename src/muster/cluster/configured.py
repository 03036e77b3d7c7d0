"""The further kinds of applications that the ConfigMap `groupmanagement-config` names, as far as manifests show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster.cluster.place import Place
from muster.groups.custom_applications import CONFIG_KEY, CONFIG_NAME, BadConfiguration, read_custom_applications
from muster.model.core import ConfigMap
from muster.model.custom import CustomApplication
from muster.model.finding import Finding
from muster.model.meta import Object, key

__all__ = ["could_be_configured", "kinds_named_by"]


def could_be_configured(api_version: str, value: dict[str, Any]) -> bool:
    """Whether an object of a kind that muster does not define may be read: a ConfigMap further on may name the kind as
    one that makes pods, or a third-party plugin may read it.
    """
    return "/" in api_version


def kinds_named_by(
    objects: Iterable[tuple[Object, Place]], findings: list[Finding]
) -> dict[tuple[str, str], type[CustomApplication]]:
    """By apiVersion and kind. A text that cannot be used names none, and a warning says why."""
    named: dict[tuple[str, str], type[CustomApplication]] = {}
    for obj, place in objects:
        if not isinstance(obj, ConfigMap) or obj.metadata.name != CONFIG_NAME:
            continue
        try:
            kinds = read_custom_applications(obj.data.get(CONFIG_KEY, ""))
        except BadConfiguration as fault:
            message = f"{fault}; only the kinds that are built in are read"
            about = f"ConfigMap {key(obj)}"
            line = place.line_of("")
            findings.append(Finding("warning", place.file, line, about, "configured-kinds", message, "mend the entry"))
            continue
        # Nothing is served here, so the plural is of no use.
        named.update({(f"{one.group}/{one.version}", one.kind): one.type(one.plural or "objects") for one in kinds})
    return named
