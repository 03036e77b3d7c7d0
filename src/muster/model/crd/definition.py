"""One CustomResourceDefinition: a type, how it is called, what the API server insists on, what `kubectl get` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec.inspect as inspect

from muster.model.crd.schema import AllDemands, schema_of
from muster.model.meta import Object


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; those of priority 1 only show with -o wide."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0

    def plain(self) -> dict[str, Any]:
        value: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**value, "priority": self.priority} if self.priority else value


AGE = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of one kind under one apiVersion."""

    cls: type[Object]
    api_version: str
    plural: str
    short: Sequence[str] = ()
    columns: Sequence[Column] = ()
    demands: AllDemands = field(default_factory=dict)

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.partition("/")[2]

    @property
    def name(self) -> str:
        """The name of the CustomResourceDefinition object."""
        return f"{self.plural}.{self.group}"

    def plain(self) -> dict[str, Any]:
        """The CustomResourceDefinition as a plain value."""
        kind = self.cls.__name__
        names: dict[str, Any] = {
            "kind": kind,
            "listKind": f"{kind}List",
            "plural": self.plural,
            "singular": kind.lower(),
        }
        if self.short:
            names["shortNames"] = list(self.short)
        version: dict[str, Any] = {
            "name": self.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema_of(self.cls, self.demands)},
            "additionalPrinterColumns": [column.plain() for column in (*self.columns, AGE)],
        }
        if self._has_status():
            version["subresources"] = {"status": {}}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group,
                "scope": "Namespaced" if self.cls.namespaced else "Cluster",
                "names": names,
                "versions": [version],
            },
        }

    def _has_status(self) -> bool:
        kind = inspect.type_info(self.cls)
        assert isinstance(kind, inspect.StructType)
        return any(one.encode_name == "status" for one in kind.fields)
