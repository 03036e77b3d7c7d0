"""Where the parts run and what they may use: the values that `muster manifests --values` and the Helm chart share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from muster.cli.install.parts import Part

PRIORITY_CLASS = "system-cluster-critical"
# Value → what it has to be.
PLACES: dict[str, type] = {"nodeSelector": dict, "tolerations": list, "affinity": dict, "priorityClassName": str}
OF_PART: dict[str, type] = {**PLACES, "replicas": int, "resources": dict}
CHART_ONLY = frozenset({"image", "enabled", "configuration", "defaultQueue"})
"""Values of the chart that are options of `muster manifests`."""
_WORDS = {dict: "a mapping", list: "a list", str: "a text", int: "a number"}


class BadValues(Exception):
    """Values that cannot be used, in one line."""


def value_key(part: Part) -> str:
    """The part's key among the values: a template can only name keys without hyphens."""
    first, *rest = part.verb.split("-")
    return first + "".join(word.title() for word in rest)


@dataclass(frozen=True, slots=True)
class Values:
    """`places` are the defaults of all parts; `parts` has the values of single parts by their keys."""

    places: Mapping[str, Any] = field(default_factory=lambda: {"priorityClassName": PRIORITY_CLASS})
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def placement(self, part: Part) -> dict[str, Any]:
        """Fields of the pod's spec. A value of the part replaces the default; empty ones are left out."""
        own = self.parts.get(value_key(part), {})
        found = {key: own.get(key) or self.places.get(key) for key in PLACES}
        return {key: value for key, value in found.items() if value}

    def sized(self, part: Part) -> Part:
        """The part with its replicas and resources."""
        own = self.parts.get(value_key(part), {})
        part = replace(part, replicas=own.get("replicas", part.replicas))
        if "resources" not in own:
            return part
        requests, limits = (tuple((own["resources"].get(key) or {}).items()) for key in ("requests", "limits"))
        return replace(part, requests=requests, limits=limits)


def read_values(plain: object, parts: Sequence[Part]) -> tuple[Values, list[str]]:
    """The values of a file, and the keys in it that only the chart knows."""
    if not isinstance(plain, dict):
        raise BadValues("the values should be a mapping, as in deploy/helm/muster/values.yaml")
    keys = {value_key(part) for part in parts}
    passed_over: list[str] = []
    own = {key: value for key, value in plain.items() if key in keys}
    for key, value in own.items():
        if not isinstance(value, dict):
            raise BadValues(f"{key} should be a mapping")
        own[key] = _checked(value, f"{key}.", OF_PART, passed_over)
    rest = {key: value for key, value in plain.items() if key not in keys}
    places = {"priorityClassName": PRIORITY_CLASS, **_checked(rest, "", PLACES, passed_over, keys)}
    return Values(places, own), passed_over


def _checked(
    given: Mapping[str, Any], where: str, known: Mapping[str, type], passed_over: list[str],
    others: frozenset[str] | set[str] = frozenset(),
) -> dict[str, Any]:  # fmt: skip
    from muster.config.names import suggest  # `muster --help` imports this file, and needs no configuration

    found = {}
    for key, value in given.items():
        if key in CHART_ONLY:
            passed_over.append(f"{where}{key}")
        elif key not in known:
            raise BadValues(f"unknown value {where}{key}: {suggest(str(key), [*known, *others])}")
        elif value is not None and (not isinstance(value, known[key]) or isinstance(value, bool)):
            raise BadValues(f"{where}{key} should be {_WORDS[known[key]]}")
        elif value is not None:
            found[key] = value
    return found
