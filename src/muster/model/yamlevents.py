"""Converts the events of the YAML parser into plain values, and enforces the limits while it reads.

The events come one after the other, so no depth of nesting can exhaust the stack, and an alias is counted when it is
used. (A faster parser in front of this, ryaml, was measured: the proof that it would read a text the same way costs
what it saves.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

__all__ = ["MAX_ALIASED", "MAX_DEPTH", "Scalar", "YamlError", "read_events", "resolve"]

Event = Any  # one of PyYAML's; its stubs do not know which has an anchor, a tag, a place

MAX_DEPTH = 200
MAX_ALIASED = 100_000

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS: dict[str, tuple[type, ...]] = {
    _TAG + "null": (type(None),),
    _TAG + "bool": (bool,),
    _TAG + "int": (int,),
    _TAG + "float": (int, float),
}
_COLLECTION_TAGS = (None, "!", _TAG + "map", _TAG + "seq")
_MERGE = "\0<<"  # the plain key <<; no key in a text can be written like this
_OPEN = object()  # the value of an anchor whose node has not ended yet

Scalar = None | bool | int | float | str

_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
# A leading zero is text: YAML 1.1 reads 010 as eight and YAML 1.2 as ten, so both readings are possible.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?")
_MAX_DIGITS = 1000  # far beyond any quantity, and below the length Python refuses to convert


def resolve(text: str) -> Scalar:
    """Returns the value of a plain scalar.

    ``true``/``false``, ``null`` and decimal numbers have their values; everything else is text. So ``yes``, ``on``,
    ``0o7``, ``0x1F``, ``010``, ``1_000``, ``1:30``, dates, ``.inf`` and ``.nan`` are text, and ``1e3`` is a float. No
    text is read as a value that JSON could not represent.
    """
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MAX_DIGITS or text[0] not in "-+.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if isfinite(number) else text
    return text


class YamlError(ValueError):
    """Raised for a text that cannot be read, with the line and the reason."""

    def __init__(self, file: str, line: int, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.file = file
        self.line = line
        self.message = message


class _Collection:
    """A mapping or sequence that is being read."""

    __slots__ = ("anchor", "key", "merged", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.value: Any = value
        self.anchor = anchor
        self.key: str | None = None
        self.merged: list[dict[str, Any]] | None = None


class _Reader:
    """Reads the documents of one text; ``offset`` is the number of lines before it in its file."""

    def __init__(self, name: str, offset: int) -> None:
        self.name = name
        self.offset = offset
        self.stack: list[_Collection] = []
        self.anchors: dict[str, Any] = {}
        self.aliased = 0
        self.scalars: dict[str, Scalar] = {}
        self.root: Any = None

    def error(self, event: Event, message: str) -> YamlError:
        return YamlError(self.name, event.start_mark.line + 1 + self.offset, message)

    def open(self, event: Event, value: dict[str, Any] | list[Any]) -> None:
        if event.tag not in _COLLECTION_TAGS:
            raise self.error(event, f"the tag {event.tag} is not known here: leave it out")
        if len(self.stack) >= MAX_DEPTH:
            raise self.error(event, f"nested deeper than {MAX_DEPTH} levels")
        if self.stack:
            above = self.stack[-1]
            if type(above.value) is dict and above.key is None:
                raise self.error(event, "a key must be text, not a mapping or a list")
        if event.anchor is not None:
            self.anchors[event.anchor] = _OPEN
        self.stack.append(_Collection(value, event.anchor))

    def close(self, event: Event) -> None:
        done = self.stack.pop()
        value = done.value
        if done.merged is not None:
            whole: dict[str, Any] = {}
            # the first of several wins; the keys of the mapping itself win over all of them
            for mapping in reversed(done.merged):
                whole.update(mapping)
            whole.update(value)
            value = whole
        if done.anchor is not None:
            self.anchors[done.anchor] = value
        self.put(event, value)

    def scalar(self, event: Event) -> None:
        text: str = event.value
        plain = event.implicit[0] and event.tag is None  # libyaml calls a text with the tag "!" plain
        if self.stack:
            above = self.stack[-1]
            if type(above.value) is dict and above.key is None:
                self.name_entry(event, above, text, plain)
                return
        value: Scalar
        if plain:
            try:
                value = self.scalars[text]
            except KeyError:
                value = self.scalars[text] = resolve(text)
        else:
            value = text if event.tag is None else self.tagged(event, text)
        if event.anchor is not None:
            self.anchors[event.anchor] = value
        self.put(event, value)

    def name_entry(self, event: Event, above: _Collection, text: str, plain: bool) -> None:
        """Returns a scalar as a key. Keys are text as written: ``1: a`` has the key "1", as in Kubernetes."""
        if plain and text == "<<":
            if above.merged is None:
                above.merged = []
            above.key = _MERGE
            return
        if plain and text == "":
            raise self.error(event, "a key is missing before ':'")
        if text in above.value:
            raise self.error(event, f"the key {text!r} is given twice in one mapping: remove one")
        if event.anchor is not None:
            self.anchors[event.anchor] = text
        above.key = text

    def tagged(self, event: Event, text: str) -> Scalar:
        if event.tag in ("!", _TAG + "str"):
            return text
        wanted = _SCALAR_TAGS.get(event.tag)
        if wanted is None:
            raise self.error(event, f"the tag {event.tag} is not known here: leave it out")
        value = resolve(text)
        if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
            raise self.error(event, f"{text!r} does not match its tag {event.tag}")
        return value

    def alias(self, event: Event) -> None:
        if event.anchor not in self.anchors:
            raise self.error(event, f"the alias *{event.anchor} has no anchor &{event.anchor} before it")
        value = self.anchors[event.anchor]
        if value is _OPEN:
            raise self.error(event, f"the alias *{event.anchor} is inside the value that it refers to")
        if self.stack:
            above = self.stack[-1]
            if type(above.value) is dict and above.key is None:
                if not isinstance(value, str):
                    raise self.error(event, "a key must be text")
                self.name_entry(event, above, value, plain=False)
                return
        self.put(event, self.copy(event, value, len(self.stack)))

    def copy(self, event: Event, value: Any, depth: int) -> Any:
        """Copies the value of an alias, so that changing one place does not change another."""
        self.aliased += 1
        if self.aliased > MAX_ALIASED:
            raise self.error(event, f"aliases expand to more than {MAX_ALIASED} values")
        if depth > MAX_DEPTH:
            raise self.error(event, f"nested deeper than {MAX_DEPTH} levels by aliases")
        if type(value) is dict:
            return {key: self.copy(event, below, depth + 1) for key, below in value.items()}
        if type(value) is list:
            return [self.copy(event, below, depth + 1) for below in value]
        return value

    def put(self, event: Event, value: Any) -> None:
        if not self.stack:
            self.root = value
            return
        above = self.stack[-1]
        if type(above.value) is list:
            above.value.append(value)
            return
        if above.key == _MERGE and above.merged is not None:
            mappings = value if isinstance(value, list) else [value]
            if not all(isinstance(mapping, dict) for mapping in mappings):
                raise self.error(event, "'<<' takes a mapping or a list of mappings")
            above.merged.extend(mappings)
        else:
            above.value[above.key] = value
        above.key = None


def read_events(text: str, name: str, offset: int) -> Iterator[tuple[Any, int]]:
    """Yields the value and the first line of each non-empty document of the text."""
    reader = _Reader(name, offset)
    line = 0
    empty = False
    try:
        parser = yaml.CBaseLoader(text)
        while True:
            event: Event = parser.get_event()
            kind = type(event)
            if kind is ScalarEvent:
                if not reader.stack:
                    empty = event.value == "" and event.implicit[0]
                    line = event.start_mark.line + 1 + offset
                reader.scalar(event)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                if not reader.stack:
                    empty = False
                    line = event.start_mark.line + 1 + offset
                reader.open(event, {} if kind is MappingStartEvent else [])
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                reader.close(event)
            elif kind is AliasEvent:
                reader.alias(event)
            elif kind is DocumentStartEvent:
                reader.anchors.clear()
                reader.aliased = 0
            elif kind is DocumentEndEvent:
                if not empty:
                    yield reader.root, line
            elif kind is StreamEndEvent:
                return
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = ", ".join(part for part in (error.context, error.problem) if part) or "not YAML"
        line = mark.line if mark else 0
        if re.match(r" *\t", "".join(text.split("\n", line + 1)[line : line + 1])):
            reason += ": the line is indented with a tab, use spaces"
        raise YamlError(name, line + 1 + offset, reason) from None
    except yaml.reader.ReaderError as error:
        before = text.encode("utf-8", "replace")[: error.position].count(b"\n")
        raise YamlError(name, before + 1 + offset, f"not readable as text: {error.reason}") from None
    except UnicodeError:
        raise YamlError(name, 1 + offset, "not readable as text: not valid UTF-8") from None
