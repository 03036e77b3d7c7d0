"""The table of workload kinds: the descriptions that muster ships, and those that users add."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from muster.model import kinds
from muster.model.custom import ConfiguredApplication, custom_kind
from muster.model.finding import Finding
from muster.workloads.description import KindDescription, read_table

__all__ = ["CONFIG_MAP", "CONFIG_MAP_KEY", "KindTable", "shipped"]

CONFIG_MAP = "muster-workload-kinds"
CONFIG_MAP_KEY = "workload-kinds.yaml"


@cache
def shipped() -> tuple[KindDescription, ...]:
    """Returns the descriptions that muster ships."""
    text = pkgutil.get_data("muster.workloads", "kinds.yaml")
    assert text is not None
    found, findings = read_table(text.decode(), "the built-in table")
    assert not findings, findings
    return tuple(found)


@dataclass(slots=True)
class KindTable:
    """Descriptions by kind. A description that a user adds replaces the shipped description of its kind."""

    _by_name: dict[str, KindDescription] = field(default_factory=lambda: {one.name: one for one in shipped()})
    _added: dict[str, KindDescription] = field(default_factory=dict)

    def add(self, descriptions: Iterable[KindDescription]) -> list[Finding]:
        """Adds descriptions; a second description of a kind is an error, and the first one stays in use."""
        findings: list[Finding] = []
        for one in descriptions:
            first = self._added.get(one.name)
            wrong = ""
            if first is not None and first is not one:
                wrong = f"{one.kind} of {one.group} is described twice, also at {first.source}"
                fix = "remove one of the two"
            elif kinds.find(one.api_versions[0], one.kind) is not None:
                wrong = f"{one.kind} of {one.api_versions[0]} is a kind that muster defines"
                fix = "remove the entry"
            if wrong:
                file, _, line = one.source.rpartition(":")
                at = int(line) if line.isdecimal() else None
                findings.append(Finding("error", file or one.source, at, one.kind, "workload-kinds", wrong, fix))
            else:
                self._added[one.name] = self._by_name[one.name] = one
        return findings

    def __iter__(self) -> Iterator[KindDescription]:
        return iter(self._by_name.values())

    def get(self, name: str) -> KindDescription | None:
        """Returns the description of a kind by its name in object tables."""
        return self._by_name.get(name)

    def types(self) -> dict[tuple[str, str], type[ConfiguredApplication]]:
        """Returns the type of each kind that muster does not define, by apiVersion and kind."""
        return {
            (version, one.kind): self.type_of(one)
            for one in self._by_name.values()
            for version in one.api_versions
            if kinds.find(version, one.kind) is None
        }

    def type_of(
        self, one: KindDescription, plural: str = "", version: str = "", above: tuple[str, ...] = ()
    ) -> type[ConfiguredApplication]:
        """Returns the type of a kind's objects, which are served under that plural and version. `above` are the kinds
        that create it, which it does not create in turn."""
        child = None
        if one.creates is not None:
            group = one.creates.api_version.rpartition("/")[0]
            child = self._by_name.get(kinds.table_name(group, one.creates.kind))
        made = () if child is None or child.name in above else (self.type_of(child, above=(*above, one.name)),)
        return custom_kind(
            one.group, version or one.versions[0], one.kind, plural or one.plural or "objects", one.template_path,
            one.replicas_path, one, made,
        )  # fmt: skip
