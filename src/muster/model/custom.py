"""Custom resources that muster itself does not define: those that plugins of other packages read, and applications of
kinds that only the configuration names.

Each such kind is a type of its own, called by its kind and API group, so that a `StatefulSet` of another group is not
taken for Kubernetes' own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from muster.model.meta import Object
from muster.model.pod import PodTemplateSpec

__all__ = ["CustomApplication", "CustomResource", "custom_kind", "custom_kinds"]

Path = tuple[str, ...]


class CustomResource(Object, kw_only=True):
    """A custom resource that a plugin of another package reads. Derive a class, named as the kind, and give it `group`,
    `version`, `plural`, `namespaced` and typed fields (`spec`, `status`).
    """

    group: ClassVar[str] = ""
    version: ClassVar[str] = ""
    plural: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        if cls.group and "group" in vars(cls):
            cls.kind_name = cls.__name__
            cls.__name__ = f"{cls.__name__}.{cls.group}"

    kind_name: ClassVar[str] = ""  # as manifests write it


class CustomApplication(CustomResource, kw_only=True):
    """What all configured kinds have; the spec is kept as it is written."""

    template_path: ClassVar[Path] = ("spec", "template")
    replicas_path: ClassVar[Path] = ("spec", "replicas")  # empty: it has no number

    spec: dict[str, Any] = {}

    @property
    def replicas(self) -> int | None:
        """The number that is divided; Kubernetes' default of 1 where it is not written."""
        if not self.replicas_path:
            return None
        found = self._at(self.replicas_path)
        return max(found, 0) if isinstance(found, int) and not isinstance(found, bool) else 1

    @property
    def template(self) -> PodTemplateSpec | None:
        """What its pods are made from; None if there is no such thing at the path."""
        try:
            return msgspec.convert(self._at(self.template_path), PodTemplateSpec)
        except msgspec.ValidationError:
            return None

    def _at(self, path: Path) -> object:
        found: object = {"spec": self.spec}
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found


@lru_cache(maxsize=256)
def custom_kind(
    group: str, version: str, kind: str, plural: str, template_path: Path, replicas_path: Path
) -> type[CustomApplication]:
    """The type of a configured kind; the same for the same configuration."""
    made = msgspec.defstruct(
        kind,
        [("api_version", str, f"{group}/{version}"), ("kind", str, kind)],
        bases=(CustomApplication,),
        namespace={
            "__doc__": f"{kind} of {group}/{version}, by configuration.",
            "group": group,
            "version": version,
            "plural": plural,
            "template_path": template_path,
            "replicas_path": replicas_path,
        },
        kw_only=True,
    )
    assert issubclass(made, CustomApplication)
    return made


def custom_kinds(objects: Mapping[str, Mapping[str, Object]]) -> list[type[CustomApplication]]:
    """The configured kinds among objects by kind and key, in the order of their names."""
    some = (next(iter(table.values()), None) for _, table in sorted(objects.items()))
    return [type(obj) for obj in some if isinstance(obj, CustomApplication)]
