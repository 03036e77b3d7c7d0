"""The table of workload kinds: the descriptions that muster ships, and those that users add."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from muster.model import kinds
from muster.model.custom import ConfiguredApplication, custom_kind
from muster.model.finding import Finding
from muster.model.meta import Object
from muster.workloads.description import KindDescription, read_table

__all__ = ["BUILT_IN", "CONFIG_MAP", "CONFIG_MAP_KEY", "KindTable", "shipped"]

BUILT_IN = "the built-in table"
CONFIG_MAP = "muster-workload-kinds"
CONFIG_MAP_KEY = "workload-kinds.yaml"


@cache
def shipped() -> tuple[KindDescription, ...]:
    """Returns the descriptions that muster ships."""
    text = pkgutil.get_data("muster.workloads", "kinds.yaml")
    assert text is not None
    found, findings = read_table(text.decode(), BUILT_IN)
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
                findings.append(_finding(one, wrong, fix))
            else:
                self._added[one.name] = self._by_name[one.name] = one
        return findings

    def check(self) -> list[Finding]:
        """Returns what is wrong with what the added kinds create: a kind that nothing describes, or a cycle."""
        findings: list[Finding] = []
        for one in self._added.values():
            made, chain = self.child(one), [one]
            if one.creates is not None and made is None and self.defined_child(one) is None:
                wrong = f"creates {one.creates.kind} of {one.creates.api_version}, which no entry describes"
                findings.append(_finding(one, wrong, "describe that kind, too"))
            while made is not None and made not in chain:
                chain.append(made)
                made = self.child(made)
            if made is one:
                wrong = f"the kinds create each other: {' → '.join(kind.kind for kind in [*chain, one])}"
                findings.append(_finding(one, wrong, "describe the pods of one of them"))
        return findings

    def child(self, one: KindDescription) -> KindDescription | None:
        """Returns the described kind that objects of this kind create."""
        if one.creates is None or self.defined_child(one) is not None:
            return None
        return self._by_name.get(kinds.table_name(one.creates.api_version.rpartition("/")[0], one.creates.kind))

    @staticmethod
    def defined_child(one: KindDescription) -> type[Object] | None:
        """Returns the kind that objects of this kind create, if muster defines it."""
        return kinds.find(one.creates.api_version, one.creates.kind) if one.creates is not None else None

    def __iter__(self) -> Iterator[KindDescription]:
        return iter(self._by_name.values())

    def get(self, name: str) -> KindDescription | None:
        """Returns the description of a kind by its name in object tables."""
        return self._by_name.get(name)

    def all_types(self) -> list[type[ConfiguredApplication]]:
        """Returns the type of each kind that muster does not define, once."""
        return list(dict.fromkeys(self.types().values()))

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
        child = self.child(one)
        made = () if child is None or child.name in above else (self.type_of(child, above=(*above, one.name)),)
        return custom_kind(
            one.group, version or one.versions[0], one.kind, plural or one.plural or "objects", one.template_path,
            one.replicas_path, one, made,
        )  # fmt: skip


def _finding(one: KindDescription, wrong: str, fix: str) -> Finding:
    file, _, line = one.source.rpartition(":")
    at = int(line) if line.isdecimal() else None
    return Finding("error", file or one.source, at, one.kind, "workload-kinds", wrong, fix)
