"""Compares a plain value with a type of the model: which fields have the wrong type or an unknown name, and where.

It runs only if something is wrong or must be reported; msgspec decodes valid values.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec.inspect as inspect

# Fields of metadata that Kubernetes writes and the model does not use.
_METADATA = frozenset({"managedFields", "selfLink"})


class Problem(ValueError):
    """An unusable field: its path as Kubernetes writes it, the problem and the fix."""

    def __init__(self, path: str, message: str, fix: str = "") -> None:
        self.path = path
        self.message = f"{path}: {message}" if path else message
        self.fix = fix
        super().__init__(f"{self.message}: {fix}" if fix else self.message)


def problems(cls: type, value: object) -> list[Problem]:
    """Yields the fields of `value` whose type differs from that in `cls`; null counts as absent."""
    found: list[Problem] = []
    _compare(_type(cls), value, "", found)
    return found


class Unknown(NamedTuple):
    """A field that a type does not have, and the names it does have there."""

    path: str
    name: str
    known: tuple[str, ...]


def unknown_fields(cls: type, value: object) -> list[Unknown]:
    """Yields the fields of `value` that `cls` does not have. `status` is not checked."""
    found: list[Unknown] = []
    _names(_type(cls), value, "", found)
    return found


def without_nulls(cls: type, value: object) -> Any:
    """Returns `value` without the nulls that `cls` does not need: to Kubernetes a null field is an absent field."""
    return _absent(_type(cls), value)


@lru_cache(maxsize=256)
def _type(cls: type) -> inspect.Type:
    return inspect.type_info(cls)


_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


def steps(path: str) -> list[str | int]:
    """Splits a path into keys and indices."""
    return [int(inside) if inside.isdecimal() else (inside or name) for inside, name in _STEP.findall(path)]


def below(path: str, name: str) -> str:
    """Returns the path of a field of the value at `path`."""
    return f"{path}.{name}" if path else name


def _parts(kind: inspect.Type, value: object, path: str) -> list[tuple[inspect.Type, object, str]]:
    """Yields the typed values inside a value: fields, items, entries."""
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        return [
            (field.type, value[field.encode_name], below(path, field.encode_name))
            for field in kind.fields
            if field.encode_name in value
        ]
    if isinstance(kind, inspect.ListType) and isinstance(value, list):
        return [(kind.item_type, item, f"{path}[{i}]") for i, item in enumerate(value)]
    if isinstance(kind, inspect.DictType) and isinstance(value, dict):
        return [(kind.value_type, item, f"{path}[{name}]") for name, item in value.items()]
    if isinstance(kind, inspect.UnionType):
        for member in kind.types:
            if isinstance(member, inspect.StructType | inspect.ListType | inspect.DictType):
                return _parts(member, value, path)
    return []


def _compare(kind: inspect.Type, value: object, path: str, found: list[Problem]) -> None:
    if value is None:
        # A null item of a list is no absent field; a null text is the empty text there, as Go reads it.
        if path.endswith("]") and not _takes(kind, value) and not isinstance(kind, inspect.StrType):
            found.append(Problem(path, "is empty", f"give {_wanted(kind)} or leave the entry out"))
        return
    if not _takes(kind, value):
        found.append(_mismatch(kind, value, path))
        return
    if isinstance(kind, inspect.DictType) and isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                found.append(
                    Problem(f"{path}[{_yaml(name)}]", "the key must be a string", f'quote it: "{_yaml(name)}"')
                )
    for part, item, place in _parts(kind, value, path):
        _compare(part, item, place, found)


def _takes(kind: inspect.Type, value: object) -> bool:
    if isinstance(kind, inspect.UnionType):
        return any(_takes(member, value) for member in kind.types)
    if isinstance(kind, inspect.AnyType):
        return True
    if isinstance(kind, inspect.StructType | inspect.DictType):
        return isinstance(value, dict)
    if isinstance(kind, inspect.ListType):
        return isinstance(value, list)
    if isinstance(kind, inspect.StrType):
        return isinstance(value, str)
    if isinstance(kind, inspect.BoolType):
        return isinstance(value, bool)
    if isinstance(kind, inspect.IntType):
        if not isinstance(value, int) or isinstance(value, bool):
            return False
        return (kind.ge is None or value >= kind.ge) and (kind.le is None or value <= kind.le)
    if isinstance(kind, inspect.FloatType):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(kind, inspect.NoneType) and value is None


def _mismatch(kind: inspect.Type, value: object, path: str) -> Problem:
    wanted = _wanted(kind)
    if wanted == "a string" and isinstance(value, bool | int | float):
        return Problem(path, "must be a string", f'quote it: "{_yaml(value)}"')
    if wanted in ("a whole number", "true or false") and isinstance(value, str):
        return Problem(path, f"must be {wanted}", f'take away the quotes, or replace "{value}"')
    if wanted == "a whole number" and isinstance(value, int) and not isinstance(value, bool):
        return Problem(path, "is out of range", "write a number nearer to zero")
    return Problem(path, f"must be {wanted}, not {_given(value)}", f"write {wanted} there")


def _wanted(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.UnionType):
        names = [_wanted(member) for member in kind.types if not isinstance(member, inspect.NoneType)]
        if "a number" in names and "a string" in names:
            return "a quantity"
        return " or ".join(names)
    for known, name in _NAMES:
        if isinstance(kind, known):
            return name
    return "something else"


_NAMES: tuple[tuple[type[inspect.Type], str], ...] = (
    (inspect.StructType, "a mapping"),
    (inspect.DictType, "a mapping"),
    (inspect.ListType, "a list"),
    (inspect.StrType, "a string"),
    (inspect.BoolType, "true or false"),
    (inspect.IntType, "a whole number"),
    (inspect.FloatType, "a number"),
)


def _given(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f'the text "{value[:40]}"'
    return _yaml(value)


def _yaml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _names(kind: inspect.Type, value: object, path: str, found: list[Unknown]) -> None:
    if isinstance(kind, inspect.UnionType):
        for member in kind.types:
            if isinstance(member, inspect.StructType):
                return _names(member, value, path, found)
    if isinstance(kind, inspect.StructType) and isinstance(value, dict):
        known = tuple(field.encode_name for field in kind.fields)
        passed = _METADATA if path == "metadata" else frozenset()
        found.extend(
            Unknown(below(path, str(name)), str(name), known)
            for name in value
            if name not in known and name not in passed
        )
    for part, item, place in _parts(kind, value, path):
        if place != "status":
            _names(part, item, place, found)
    return None


def _absent(kind: inspect.Type, value: object) -> object:
    if isinstance(value, list):
        return [
            "" if item is None and isinstance(part, inspect.StrType) else _absent(part, item)
            for part, item, _ in _parts(kind, value, "")
        ] or value
    if not isinstance(value, dict):
        return value
    if isinstance(kind, inspect.UnionType):
        for member in kind.types:
            if isinstance(member, inspect.StructType | inspect.DictType):
                return _absent(member, value)
    if isinstance(kind, inspect.DictType):
        empty = "" if isinstance(kind.value_type, inspect.StrType) else None
        return {name: empty if item is None else _absent(kind.value_type, item) for name, item in value.items()}
    if isinstance(kind, inspect.StructType):
        types = {field.encode_name: field.type for field in kind.fields}
        return {
            name: _absent(types[name], item)
            for name, item in value.items()
            if name in types and (item is not None or _takes(types[name], None))
        }
    return value
