"""Reads YAML and JSON text, and writes plain values as YAML.

Every manifest and configuration is read here, so that the same text means the same thing everywhere: one resolver of
scalars (`yamlevents.resolve`), duplicate keys refused, limits on size, depth and aliases. Documents are read one by
one: an invalid document does not affect the others. What is written is read back as the same values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from muster.model.collector import collector_paused
from muster.model.yamlevents import MAX_ALIASED, MAX_DEPTH, YamlError, read_events, resolve

__all__ = [
    "MAX_ALIASED", "MAX_CHARACTERS", "MAX_DEPTH", "Document", "YamlError", "dump", "dump_all", "load_all", "load_each",
]  # fmt: skip

MAX_CHARACTERS = 256 * 2**20

# At the start of a line these marks end a document anywhere, even in a block or quoted scalar (YAML 1.2,
# c-forbidden); so a text can be cut there before it is parsed.
_MARK = re.compile(r"^(?:---|\.\.\.)(?=\s|\Z)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^%", re.MULTILINE)
_CONTENT = re.compile(r"\S")


@dataclass(slots=True)
class Document:
    """One document: its value in plain dicts, lists and scalars, and its place in its file."""

    value: Any
    name: str
    line: int
    _text: str = field(repr=False)
    _offset: int = field(repr=False)
    _index: int = field(repr=False, default=0)
    _node: Any = field(repr=False, default=None, compare=False)

    def line_of(self, path: Sequence[str | int]) -> int:
        """Returns the line of the key or list item at ``path``; if it does not exist, that of its last existing parent.
        """
        if self._node is None:
            self._node = self._compose()
        node, line = self._node, self.line
        for step in path:
            below = _below(node, step)
            if below is None:
                break
            mark, node = below
            line = mark.start_mark.line + 1 + self._offset
        return line

    def _compose(self) -> Any:
        """Composes the node tree again from the text; only when a line is needed."""
        try:
            with collector_paused():  # a big tree of small objects: the search for garbage takes four times the reading
                loader = yaml.CBaseLoader(self._text)
                for _ in range(self._index):
                    loader.check_node()
                    loader.get_node()
                return loader.get_node() if loader.check_node() else False
        except yaml.YAMLError:  # JSON that is no valid YAML, such as surrogate pairs: the line of the document is used
            return False


def load_all(text: str, name: str) -> list[Document]:
    """Returns all non-empty documents; raises ``YamlError`` for the first that cannot be read."""
    documents: list[Document] = []
    for document in load_each(text, name):
        if isinstance(document, YamlError):
            raise document
        documents.append(document)
    return documents


def load_each(text: str, name: str) -> Iterator[Document | YamlError]:
    """Returns all non-empty documents, with an error in place of each that cannot be read."""
    if len(text) > MAX_CHARACTERS:
        yield YamlError(name, 1, f"larger than {MAX_CHARACTERS // 2**20} Mi characters: split the file")
        return
    text = text.removeprefix("\ufeff")
    first = _CONTENT.search(text)
    if first is not None and first[0] in "{[":
        documents = _json(text, name)
        if documents is not None:
            yield from documents
            return
    line = 0
    for part in _parts(text):
        try:
            for index, (value, at) in enumerate(read_events(part, name, line)):
                yield Document(value, name, at, part, line, index)
        except YamlError as error:
            yield error
        line += part.count("\n")


def _parts(text: str) -> Iterator[str]:
    """Splits the text into its documents. The parts joined are the text, so that lines can be counted."""
    start = 0
    for mark in _MARK.finditer(text):
        cut = mark.start()
        if mark[0] == "...":
            end = text.find("\n", cut)
            cut = len(text) if end < 0 else end + 1
        elif _DIRECTIVE.search(text, start, cut) and not text.startswith("---", start):
            continue  # %YAML and %TAG lines belong to the document that follows them
        if cut > start:
            yield text[start:cut]
            start = cut
    if start < len(text):
        yield text[start:]


def _json(text: str, name: str) -> list[Document] | None:
    """Reads the text as one or more JSON values; None if it is not plain JSON and must be read as YAML."""
    decoder = json.JSONDecoder(object_pairs_hook=_mapping, parse_float=resolve, parse_constant=_refuse)
    documents: list[Document] = []
    line = 0
    counted = 0
    at = _CONTENT.search(text)
    try:
        while at is not None:
            start = at.start()
            value, end = decoder.raw_decode(text, start)
            if _deeper_than(value, MAX_DEPTH):
                return None
            line += text.count("\n", counted, start)
            counted = start
            part = text[start:end]
            if re.search(r"\\u[dD]", part):
                json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair is not text
            documents.append(Document(value, name, line + 1, part, line))
            at = _CONTENT.search(text, end)
    except (ValueError, RecursionError):
        return None
    return documents


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


def _below(node: Any, step: str | int) -> tuple[Any, Any] | None:
    """Returns the node with the place, and the node to continue from."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and 0 <= step < len(node.value):
        return node.value[step], node.value[step]
    if not isinstance(node, yaml.MappingNode):
        return None
    merged: list[Any] = []
    for key, value in node.value:
        if key.value == step:
            return key, value
        if key.value == "<<":
            merged.extend(value.value if isinstance(value, yaml.SequenceNode) else [value])
    for mapping in merged:
        below = _below(mapping, step)
        if below is not None:
            return below
    return None


class _Writer(yaml.CSafeDumper):
    """PyYAML's writer; it quotes texts that would be read as something else and never writes an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(writer: _Writer, text: str) -> yaml.ScalarNode:
    style = None
    if not isinstance(resolve(text), str):
        style = '"'
    elif "\n" in text and not any(line.endswith((" ", "\t")) for line in text.splitlines()):
        style = "|"
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _text)


def dump(value: Any) -> str:
    """Returns one value as YAML; the order of its keys is kept."""
    return dump_all([value])


def dump_all(values: list[Any]) -> str:
    """Returns several documents as YAML."""
    text: str = yaml.dump_all(
        values, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=2**20, explicit_start=len(values) > 1
    )
    return text
