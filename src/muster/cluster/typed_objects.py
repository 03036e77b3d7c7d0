"""Decodes the JSON bytes of valid objects without plain values in between.

An object is decoded here only if reading it as a plain value would report nothing. Everything else (a duplicate key, a
field that the kind does not have, a wrong type or value, a float, deep nesting, a pod template, which must be kept as
written) gives None and is read as a plain value, with findings and their lines.

Equal specs and statuses of pods and nodes are decoded and checked once, and the objects share them: nothing may change
them in place.
"""

from __future__ import annotations

from typing import Any, NoReturn

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from muster.cluster.unknown_names import unknown_fields
from muster.groups.applications import templates_of
from muster.model import kinds
from muster.model.core import Node, Pod
from muster.model.custom import CustomApplication
from muster.model.meta import Object, ObjectMeta, seconds
from muster.model.timestamps import of_metadata
from muster.validation.object_checks import check

__all__ = ["ObjectDecoder"]

_SHARING = (Pod, Node)
_MAX_SHARED = 4096  # the specs of running pods are all different: they need not be remembered
_MAX_BRACKETS = 100  # a text with at most so many is not nested too deep, even as an item of a list


class _Parts(Struct, rename="camel", omit_defaults=True):
    """An object whose parts are not decoded yet."""

    api_version: str = ""
    kind: str = ""
    metadata: Raw | UnsetType = UNSET
    spec: Raw | UnsetType = UNSET
    status: Raw | UnsetType = UNSET


def _refuse_float(text: str) -> NoReturn:
    raise ValueError(f"{text} can be written in several ways")


_split = msgspec.json.Decoder(_Parts).decode
_plain = msgspec.json.Decoder(float_hook=_refuse_float).decode
_encode = msgspec.json.Encoder().encode


class ObjectDecoder:
    """Decodes objects; it remembers what equal objects share as long as it lives."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], _Kind | None] = {}

    def decode(self, data: bytes | Raw, api_version: str = "", kind: str = "") -> Object | None:
        """Returns the object in JSON bytes without white space; None if it must be read as a plain value.

        `api_version` and `kind` are those of an object that does not name them.
        """
        try:
            given = _split(data)
            if len(_encode(given)) != len(data):  # it has other fields, or a key twice
                return None
            of_kind = given.api_version or api_version, given.kind or kind
            if of_kind not in self._kinds:
                self._kinds[of_kind] = _kind(*of_kind)
            decoder = self._kinds[of_kind]
            return None if decoder is None else decoder.read(given, *of_kind)
        except (ValueError, RecursionError):  # msgspec.DecodeError is a ValueError
            return None


def _kind(api_version: str, kind: str) -> _Kind | None:
    cls = kinds.find(api_version, kind)
    if cls is None or not {"spec", "status"}.issubset(cls.__struct_fields__):
        return None
    return None if issubclass(cls, CustomApplication) or templates_of(cls()) else _Kind(cls)


class _Kind:
    """Decodes the objects of one kind."""

    def __init__(self, cls: type[Object]) -> None:
        self._cls: type[Any] = cls
        self._metadata, self._spec, self._status = (_Part(cls, name) for name in ("metadata", "spec", "status"))
        self._checked: dict[tuple[bytes, bytes], tuple[Any, Any]] = {}  # specs and statuses without faults

    def read(self, given: _Parts, api_version: str, kind: str) -> Object | None:
        meta: ObjectMeta | None = self._metadata.read(_bytes(given.metadata))
        if meta is None or not meta.name or "/" in meta.name or "/" in meta.namespace:
            return None
        parts = _bytes(given.spec), _bytes(given.status)
        known = self._checked.get(parts)
        if known is not None:
            for _, text in of_metadata(meta):
                seconds(text)
            return self._new(api_version, kind, meta, *known)
        spec, status = self._spec.read(parts[0]), self._status.read(parts[1])
        if spec is None or status is None:
            return None
        made = self._new(api_version, kind, meta, spec, status)
        if any(check(made)):
            return None
        if self._cls in _SHARING:
            _remember(self._checked, parts, (spec, status))
        return made

    def _new(self, api_version: str, kind: str, meta: ObjectMeta, spec: object, status: object) -> Object:
        made: Object = self._cls(api_version=api_version, kind=kind, metadata=meta, spec=spec, status=status)
        return made


class _Part:
    """Decodes one part of the objects of a kind: metadata, spec or status."""

    def __init__(self, cls: type[Object], name: str) -> None:
        self._cls, self._name = cls, name
        self._type: type[Struct] = next(one.type for one in msgspec.structs.fields(cls) if one.name == name)
        self._decode = msgspec.json.Decoder(self._type).decode
        self._shares = cls in _SHARING and name != "metadata"
        self._shared: dict[bytes, Any] = {}

    def read(self, data: bytes) -> Any:
        """Returns the part; None if it must be read as a plain value."""
        value = self._shared.get(data)
        if value is None:
            value = self._decode(data) if data else self._type()
            if data and not self._is_clean(data, value):
                return None
            if self._shares:
                _remember(self._shared, data, value)
        return value

    def _is_clean(self, data: bytes, value: Any) -> bool:
        """Returns whether the text has no unknown field and no duplicate key: written again, it has the same length.

        Only floats can become longer; metadata has none.
        """
        if self._name == "metadata" and len(_encode(value)) == len(data):
            return True
        if data.count(b"{") + data.count(b"[") > _MAX_BRACKETS:
            return False
        plain = _plain(data)
        return len(_encode(plain)) == len(data) and not any(unknown_fields(self._cls, {self._name: plain}))


def _bytes(raw: Raw | UnsetType) -> bytes:
    return b"" if raw is UNSET else bytes(raw)


def _remember(known: dict[Any, Any], key: object, value: object) -> None:
    if len(known) >= _MAX_SHARED:
        known.clear()
    known[key] = value
