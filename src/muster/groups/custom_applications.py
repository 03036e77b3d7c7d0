"""Custom kinds of applications, as the ConfigMap `groupmanagement-config` names them.

applications:
- group: apps.kruise.io
  version: v1alpha1
  kind: CloneSet
  podTemplatePath: spec.template   # default; dots or a JSON pointer
  replicasPath: spec.replicas      # default; "" = no replicas
  plural: clonesets                # optional, by default from the API server's discovery
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct

from muster.model.custom import ConfiguredApplication, Path, custom_kind
from muster.model.yamltext import YamlError, load_all

if TYPE_CHECKING:
    from muster.workloads.table import KindTable

__all__ = ["CONFIG_KEY", "CONFIG_NAME", "BadConfiguration", "CustomApplicationConfig", "read_custom_applications"]

CONFIG_NAME = "groupmanagement-config"
CONFIG_KEY = "config.yaml"

_Name = Annotated[str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9]*$", max_length=63)]
_Group = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", max_length=253)]
_Lower = Annotated[str, Meta(pattern=r"^[a-z0-9]*$", max_length=63)]


class BadConfiguration(ValueError):
    """The configuration is invalid; the message says where and why."""


class CustomApplicationConfig(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One custom kind. Without a plural its resource path is not known yet."""

    group: _Group
    version: _Lower
    kind: _Name
    pod_template_path: str = "spec.template"
    replicas_path: str = "spec.replicas"
    plural: _Lower = ""

    @property
    def name(self) -> str:
        """The name of the kind in object tables."""
        return f"{self.kind}.{self.group}"

    @property
    def template_path(self) -> Path:
        """The path of the pod template."""
        return _path(self.pod_template_path)

    def type(self, plural: str, table: KindTable | None = None) -> type[ConfiguredApplication]:
        """The type of its objects, which are served under that plural. The table's description of the kind, if there
        is one, says what makes a gang."""
        paths = (self.template_path, _path(self.replicas_path))
        described = table.get(self.name) if table is not None else None
        if described is None:
            from muster.workloads.description import from_paths  # few clusters need it

            described = from_paths(f"{self.group}/{self.version}", self.kind, plural, *paths, CONFIG_NAME)
        return custom_kind(self.group, self.version, self.kind, plural, *paths, described)

    def contradiction(self, table: KindTable) -> str:
        """How the entry contradicts the table's description of the kind; empty if it does not."""
        described = table.get(self.name)
        if described is None:
            return ""
        pairs = (
            ("podTemplatePath", self.template_path, described.template_path),
            ("replicasPath", _path(self.replicas_path), described.replicas_path),
        )
        for name, here, there in pairs:
            if here != there:
                other = f"has {'.'.join(there)}" if there else "has no single path for it"
                return f"{self.name}: {name} is {'.'.join(here)}, but its description at {described.source} {other}"
        return ""


class _Document(Struct, forbid_unknown_fields=True):
    applications: list[Any] = []


def read_custom_applications(text: str, name: str = CONFIG_KEY) -> list[CustomApplicationConfig]:
    """Returns the kinds sorted by name. Raises BadConfiguration for the first invalid entry."""
    try:
        documents = load_all(text, name)
    except YamlError as fault:
        raise BadConfiguration(str(fault)) from None
    if not documents:
        return []
    if len(documents) > 1:
        raise BadConfiguration(f"{name}: {len(documents)} documents (write one)")
    try:
        entries = msgspec.convert(documents[0].value, _Document).applications
    except msgspec.ValidationError as fault:
        raise BadConfiguration(f"{name}: {fault}") from None
    found: dict[str, CustomApplicationConfig] = {}
    for i, entry in enumerate(entries):
        place = f"{name}: applications[{i}]"
        try:
            one = msgspec.convert(entry, CustomApplicationConfig)
        except msgspec.ValidationError as fault:
            raise BadConfiguration(f"{place}: {fault}") from None
        for field, path in (("podTemplatePath", one.pod_template_path), ("replicasPath", one.replicas_path)):
            if (path and _path(path)[0] != "spec") or (field == "podTemplatePath" and not path):
                raise BadConfiguration(f"{place}.{field}: {path!r} does not lie in spec (write it like spec.template)")
        if one.name in found:
            raise BadConfiguration(f"{place}: {one.name} is named twice")
        found[one.name] = one
    return [found[name] for name in sorted(found)]


def _path(text: str) -> Path:
    """`spec.template` or `/spec/template`, in steps."""
    if text.startswith("/"):
        return tuple(step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/"))
    return tuple(step for step in text.split(".") if step)
