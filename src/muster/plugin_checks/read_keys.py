"""Finds which labels and annotations a plugin reads, so that random clusters can have them.

A plugin that reads an annotation nobody sets would pass every check. The labels and annotations of a cluster are
replaced by dictionaries that record the keys they are asked for; what is asked with the plugin and not without it is
the plugin's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from muster.model.meta import Object
from muster.plugin_checks.choices import Choices

__all__ = ["ReadKey", "read_keys", "set_keys"]

ReadKey = tuple[str, str, str]
"""Kind, field of its metadata ("labels" or "annotations"), key."""

_FIELDS = ("labels", "annotations")
_VALUES = ("a", "b", "1", "2", "true", "0")


class _Recorder(dict[str, str]):
    """A dictionary that records which keys it is asked for."""

    def __init__(self, given: dict[str, str], record: Callable[[str], None]) -> None:
        super().__init__(given)
        self._record = record

    def get(self, key: str, default: Any = None) -> Any:
        self._record(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self._record(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._record(str(key))
        return super().__contains__(key)

    def __bool__(self) -> bool:
        return True  # an empty one must not be replaced by a plain one

    def __deepcopy__(self, memo: object) -> dict[str, str]:
        return dict(self)


def read_keys(objects: Iterable[Object], work: Callable[[Sequence[Object]], None]) -> set[ReadKey]:
    """The keys of labels and annotations that are asked for while the work is done."""
    found: set[ReadKey] = set()
    watched = list(objects)
    for obj in watched:
        for field in _FIELDS:
            given = getattr(obj.metadata, field)

            def record(key: str, kind: str = type(obj).__name__, field: str = field) -> None:
                found.add((kind, field, key))

            setattr(obj.metadata, field, _Recorder(given, record))
    work(watched)
    return found


def set_keys(objects: Iterable[Object], keys: Iterable[ReadKey], choices: Choices) -> None:
    """Give some of the objects a random value under each key."""
    wanted = sorted(keys)
    for obj in objects:
        for kind, field, key in wanted:
            if type(obj).__name__ == kind and choices.flip():
                setattr(obj.metadata, field, {**getattr(obj.metadata, field), key: choices.one_of(_VALUES)})
