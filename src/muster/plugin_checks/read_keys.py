"""Finds which labels and annotations a plugin reads and compares, so that random clusters can have them.

A plugin that reads an annotation nobody sets would pass every check. The labels and annotations of a cluster are
replaced by dictionaries that record the keys they are asked for, with values that record the texts they are compared
with; what is recorded with the plugin and not without it is the plugin's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from muster.model.meta import Object
from muster.plugin_checks.choices import Choices

__all__ = ["ReadKey", "read_keys", "set_keys"]

ReadKey = tuple[str, str, str]
"""Kind, field of its metadata ("labels" or "annotations"), key."""

_FIELDS = ("labels", "annotations")
_VALUES = ("a", "b", "1", "2", "true", "0")
_Record = Callable[..., None]
_MakeValue = Callable[[str, Callable[[str], None]], str]


def _ignore(text: str) -> None:
    """Records nothing: a copy of a value."""


def _plain(text: str, record: Callable[[str], None]) -> str:
    return text


class _Value(str):
    """A value that records the texts it is compared with."""

    __slots__ = ("record",)
    record: Callable[[str], None]

    def __new__(cls, text: str, record: Callable[[str], None] = _ignore) -> _Value:
        made = super().__new__(cls, text)
        made.record = record
        return made

    def __eq__(self, other: object) -> bool:
        if type(other) is str:
            self.record(other)
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class _Recorder(dict[str, str]):
    """A dictionary that records which keys it is asked for, and what their values are compared with."""

    def __init__(self, given: dict[str, str], record: _Record, value: _MakeValue) -> None:
        super().__init__(given)
        self._record = record
        self._make = value

    def get(self, key: str, default: Any = None) -> Any:
        self._record(key)
        return self._value(key) if super().__contains__(key) else default

    def __getitem__(self, key: str) -> str:
        self._record(key)
        return self._value(key)

    def __contains__(self, key: object) -> bool:
        self._record(str(key))
        return super().__contains__(key)

    def __bool__(self) -> bool:
        return True  # an empty one must not be replaced by a plain one

    def __deepcopy__(self, memo: object) -> dict[str, str]:
        return dict(self)

    def _value(self, key: str) -> str:
        return self._make(super().__getitem__(key), lambda text: self._record(key, text))


def read_keys(
    make: Callable[[], Iterable[Object]], work: Callable[[Sequence[Object]], None]
) -> dict[ReadKey, set[str]]:
    """Returns the keys of labels and annotations that are asked for while the work is done, with the texts that their
    values are compared with. The work fails where only a plain `str` is accepted; it is then done with plain values."""
    try:
        return _recorded(make(), work, _Value)
    except Exception:
        return _recorded(make(), work, _plain)


def _recorded(
    objects: Iterable[Object], work: Callable[[Sequence[Object]], None], value: _MakeValue
) -> dict[ReadKey, set[str]]:
    found: dict[ReadKey, set[str]] = {}
    watched = list(objects)
    for obj in watched:
        for field in _FIELDS:
            given = getattr(obj.metadata, field)

            def record(key: str, *texts: str, kind: str = type(obj).__name__, field: str = field) -> None:
                found.setdefault((kind, field, key), set()).update(texts)

            setattr(obj.metadata, field, _Recorder(given, record, value))
    work(watched)
    return found


def set_keys(objects: Iterable[Object], keys: Mapping[ReadKey, set[str]], choices: Choices) -> None:
    """Gives some of the objects a random value under each key, often one that it is compared with."""
    values = {key: (*_VALUES, *2 * sorted(texts)) for key, texts in sorted(keys.items())}
    for obj in objects:
        for (kind, field, key), options in values.items():
            if type(obj).__name__ == kind and choices.flip():
                setattr(obj.metadata, field, {**getattr(obj.metadata, field), key: choices.one_of(options)})
