"""Custom resources that muster itself does not define: those that plugins of other packages read, and applications of
kinds that only the configuration names.

Each such kind is a type of its own, called by its kind and API group, so that a `StatefulSet` of another group is not
taken for Kubernetes' own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from muster.model.meta import Object
from muster.model.pod import Pod, PodTemplateSpec

__all__ = ["ConfiguredApplication", "CustomApplication", "CustomResource", "custom_kind", "custom_kinds"]

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
            cls.__name__ = f"{cls.__name__}.{cls.group}"


class CustomApplication(CustomResource, kw_only=True):
    """An application of a kind that is not Kubernetes' own: it has pod templates and a number of replicas."""

    template_path: ClassVar[Path] = ("spec", "template")  # "*" stands for each item of a list
    makes: ClassVar[tuple[type[CustomApplication], ...]] = ()  # the kinds of applications that it creates

    @property
    def replicas(self) -> int | None:
        """The number that is divided; None: it has none."""
        raise NotImplementedError

    @property
    def templates(self) -> Sequence[PodTemplateSpec]:
        """What its pods are made from, in the order of the paths."""
        raise NotImplementedError

    def template_index(self, pod: Pod) -> int | None:
        """The position of the template that the pod was made from; None: it is not known."""
        return 0


class ConfiguredApplication(CustomApplication, kw_only=True):
    """What all configured kinds have; the spec is kept as it is written."""

    replicas_path: ClassVar[Path] = ("spec", "replicas")  # empty: it has no number
    description: ClassVar[object] = None  # its KindDescription (muster.workloads)

    spec: dict[str, Any] = {}

    @property
    def replicas(self) -> int | None:
        """The number that is divided; Kubernetes' default of 1 where it is not written."""
        if not self.replicas_path:
            return None
        found = self._at(self.replicas_path)
        return max(found, 0) if isinstance(found, int) and not isinstance(found, bool) else 1

    @property
    def templates(self) -> Sequence[PodTemplateSpec]:
        """What its pods are made from; empty if there is no such thing at the path, or no single path."""
        if not self.template_path:
            return []
        try:
            return [msgspec.convert(self._at(self.template_path), PodTemplateSpec)]
        except msgspec.ValidationError:
            return []

    def _at(self, path: Path) -> object:
        found: object = {"spec": self.spec}
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found


@lru_cache(maxsize=256)
def custom_kind(
    group: str,
    version: str,
    kind: str,
    plural: str,
    template_path: Path,
    replicas_path: Path,
    description: object = None,
    makes: tuple[type[CustomApplication], ...] = (),
) -> type[ConfiguredApplication]:
    """The type of a configured kind; the same for the same configuration."""
    made = msgspec.defstruct(
        kind,
        [("api_version", str, f"{group}/{version}"), ("kind", str, kind)],
        bases=(ConfiguredApplication,),
        namespace={
            "__doc__": f"{kind} of {group}/{version}, by configuration.",
            "group": group,
            "version": version,
            "plural": plural,
            "template_path": template_path,
            "replicas_path": replicas_path,
            "description": description,
            "makes": makes,
        },
        kw_only=True,
    )
    assert issubclass(made, ConfiguredApplication)
    return made


def custom_kinds(objects: Mapping[str, Mapping[str, Object]]) -> list[type[CustomApplication]]:
    """The kinds of applications that are not Kubernetes' own, among objects by kind and key, and those that they make;
    sorted by name."""
    some = [next(iter(table.values()), None) for table in objects.values()]
    found = {type(obj) for obj in some if isinstance(obj, CustomApplication)}
    return sorted({*found, *(made for kind in found for made in kind.makes)}, key=lambda kind: kind.__name__)
