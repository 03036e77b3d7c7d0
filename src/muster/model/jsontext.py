"""Reads JSON text: as plain values, or as objects of the model where the caller can decode the bytes.

Plain values have the scalars of YAML (`yamlevents.resolve`), and a duplicate key is an error. Most JSON text is one
object, a list of objects or one object per line; a caller that gives `decode` gets these objects as `decode` returns
them, many times faster than as dicts. What `decode` returns None for is read as a plain value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from muster.model.yamlevents import MAX_DEPTH, resolve

__all__ = ["CONTENT", "Decode", "json_object", "json_values"]

# JSON without white space, and the apiVersion and kind that the object has if it names none → the object, or None.
Decode = Callable[[bytes | Raw, str, str], Any]

CONTENT = re.compile(r"\S")


class _List(Struct, rename="camel"):
    """A list as the API server and kubectl write it."""

    api_version: str
    kind: str
    items: list[Raw]
    metadata: dict[str, str | int] | UnsetType = UNSET


_decode_list = msgspec.json.Decoder(_List).decode
_encode = msgspec.json.Encoder().encode


def json_values(text: str, decode: Decode | None = None) -> list[tuple[Any, int, int]] | None:
    """Reads one or more JSON values, each with its first position and the one behind it; None if the text is not plain
    JSON and must be read as YAML."""
    found: list[tuple[Any, int, int]] = []
    at = CONTENT.search(text)
    try:
        if decode is not None and at is not None and (whole := json_object(text, decode, lists=True)) is not None:
            return [(whole, at.start(), len(text.rstrip()))]
        while at is not None:
            start = at.start()
            end = text.find("\n", start) + 1 or len(text)
            value = None if decode is None else json_object(text[start:end], decode)
            if value is None:
                value, end = _value(text, start, MAX_DEPTH)
            found.append((value, start, end))
            at = CONTENT.search(text, end)
    except (ValueError, RecursionError):
        return None
    return found


def json_object(text: str | bytes, decode: Decode, *, lists: bool = False) -> Any:
    """Returns the object in a text, or the list with its objects; None if it cannot be decoded.

    With `lists`, items of a list that cannot be decoded are plain values; ValueError if they are not even that.
    """
    try:
        data = msgspec.json.format(text, indent=-1)
        data = data if isinstance(data, bytes) else data.encode()
        found = decode(data, "", "")
        return found if found is not None else _list(data, decode, lists=lists)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _list(data: bytes, decode: Decode, *, lists: bool) -> dict[str, Any] | None:
    listed = _decode_list(data)
    # Shorter: it has another field, a key twice or a character that is written as an escape.
    if not listed.kind.endswith("List") or len(_encode(listed)) != len(data):
        return None
    typed = (listed.api_version, listed.kind.removesuffix("List")) if listed.kind != "List" else ("", "")
    items: list[Any] = []
    for raw in listed.items:
        item = decode(raw, *typed)
        if item is None:
            if not lists:
                return None
            text = bytes(raw).decode()
            item, end = _value(text, 0, MAX_DEPTH - 2)
            if end != len(text):
                raise ValueError("more than one value")
        items.append(item)
    return {"apiVersion": listed.api_version, "kind": listed.kind, "items": items}


def _value(text: str, start: int, depth: int) -> tuple[Any, int]:
    """Returns the plain value at a position, and the position behind it. Raises ValueError or RecursionError."""
    decoder = json.JSONDecoder(object_pairs_hook=_mapping, parse_float=resolve, parse_constant=_refuse)
    value, end = decoder.raw_decode(text, start)
    if _deeper_than(value, depth):
        raise ValueError("nested too deep")
    if re.search(r"\\u[dD]", text[start:end]):
        json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair is not text
    return value, end


def _mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("duplicate key")
    return mapping


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        below = (item.values() if isinstance(item, dict) else item for item in level)
        level = [item for items in below for item in items if type(item) is dict or type(item) is list]
    return bool(level)
