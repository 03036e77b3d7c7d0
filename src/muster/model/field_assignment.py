"""Sets one field of an object by its path, as `--set queue/x.spec.weight=4` does.

A path has the names of a manifest: `spec.weight`, `spec.taints[0].effect`. What follows a map of plain values is its
key (`spec.capability.nvidia.com/gpu`); the key of any other map stands in brackets if it has a dot.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec.inspect as inspect

from muster.model.shape import Problem, below
from muster.model.yamltext import YamlError, load_all

__all__ = ["UnknownField", "assign"]

_FIELD = re.compile(r"([^.\[\]]+)(.*)", re.DOTALL)
_BRACKETS = re.compile(r"\[([^\]]*)\](.*)", re.DOTALL)
_CONTAINERS = inspect.StructType | inspect.ListType | inspect.DictType


class UnknownField(Problem):
    """A field that the type does not have, and the names that it does have there."""

    def __init__(self, path: str, name: str, known: list[str]) -> None:
        super().__init__(path, "there is no such field")
        self.name, self.known = name, known


def assign(cls: type, value: dict[str, Any], path: str, text: str) -> None:
    """Sets the field of the plain `value` of a `cls`; `null` removes it. Raises Problem."""
    _assign(inspect.type_info(cls), value, path, "", text)


def _assign(kind: inspect.Type, value: Any, path: str, above: str, text: str) -> None:
    """Sets what is at `path` inside the value, which is at the path `above`."""
    if isinstance(kind, inspect.StructType):
        match = _FIELD.fullmatch(path)
        if match is None:
            raise Problem(above, f"{path!r} is no field", "write a path like spec.weight")
        name, rest = match.groups()
        part = next((field.type for field in kind.fields if field.encode_name == name), None)
        if part is None:
            raise UnknownField(below(above, name), name, [field.encode_name for field in kind.fields])
        _enter(part, value, name, rest, below(above, name), text)
    elif isinstance(kind, inspect.ListType):
        match = _BRACKETS.fullmatch(path)
        if match is None or not match[1].isdecimal() or int(match[1]) > len(value):
            raise Problem(above, f"is a list of {len(value)}", f"write {above}[N] with a number from 0")
        if int(match[1]) == len(value):
            value.append(None)
        _enter(kind.item_type, value, int(match[1]), match[2], f"{above}[{match[1]}]", text)
    elif isinstance(kind, inspect.DictType):
        match = _BRACKETS.fullmatch(path)
        if match is None:
            plain = not isinstance(_inside(kind.value_type), _CONTAINERS | inspect.AnyType)
            match = re.fullmatch("(.+)()", path, re.DOTALL) if plain else _FIELD.fullmatch(path)
        if match is None or not match[1]:
            raise Problem(above, "has keys", f"write one of them after {above}")
        _enter(kind.value_type, value, match[1], match[2], f"{above}[{match[1]}]", text)
    else:
        raise Problem(above, "has no fields", f"write {above}=VALUE")


def _enter(kind: inspect.Type, value: Any, key: str | int, rest: str, path: str, text: str) -> None:
    """Sets the entry of the container, or goes on inside it."""
    kind = _inside(kind)
    rest = rest.removeprefix(".")
    if rest:
        inner = value[key] if isinstance(key, int) else value.get(key)
        if inner is None:
            inner = [] if isinstance(kind, inspect.ListType) else {}
            value[key] = inner
        _assign(kind, inner, rest, path, text)
        return
    given = _typed(kind, text, path)
    if given is None:
        value.pop(key) if isinstance(key, int) else value.pop(key, None)
    else:
        value[key] = given


def _inside(kind: inspect.Type) -> inspect.Type:
    """Returns the type of an optional value."""
    if isinstance(kind, inspect.UnionType):
        return next((member for member in kind.types if isinstance(member, _CONTAINERS)), kind)
    return kind


def _typed(kind: inspect.Type, text: str, path: str) -> Any:
    """Reads the text as YAML; where a string is expected, a number or a word is taken as it is written."""
    try:
        documents = load_all(text, path)
    except YamlError as fault:
        raise Problem(path, f"{text!r} is not YAML: {fault.message}", "quote it") from None
    value = documents[0].value if documents else ""
    if isinstance(kind, inspect.StrType) and value is not None and not isinstance(value, str | dict | list):
        return text
    return value
