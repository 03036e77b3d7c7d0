"""Reads YAML and JSON text, and writes plain values as YAML.

Every manifest and configuration is read here, so that the same text means the same thing everywhere: one resolver of
scalars (`yamlevents.resolve`), duplicate keys refused, limits on size, depth and aliases. Documents are read one by
one: an invalid document does not affect the others. What is written is read back as the same values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from muster.model.collector import collector_paused
from muster.model.jsontext import CONTENT, Decode, json_object, json_values
from muster.model.yamlentries import EntryReader
from muster.model.yamlevents import MAX_ALIASED, MAX_DEPTH, YamlError, read_events, resolve

__all__ = [
    "MAX_ALIASED", "MAX_CHARACTERS", "MAX_DEPTH", "Document", "YamlError", "dump", "dump_all", "load_all", "load_each",
]  # fmt: skip

MAX_CHARACTERS = 256 * 2**20

# At the start of a line these marks end a document anywhere, even in a block or quoted scalar (YAML 1.2,
# c-forbidden); so a text can be cut there before it is parsed.
_MARK = re.compile(r"^(?:---|\.\.\.)(?=\s|\Z)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^%", re.MULTILINE)
_JSON = re.compile(r"(?:--- *\n)?[ \n]*(?=\{)")
_YAML_ONLY = re.compile(r'\n *:|"[^"]{1000}')  # a key must be short and on the line of its colon


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


def load_each(text: str, name: str, decode: Decode | None = None) -> Iterator[Document | YamlError]:
    """Returns all non-empty documents, with an error in place of each that cannot be read.

    With `decode`, the value of a document in JSON may be the object that `decode` returned, or a list with such items.
    """
    if len(text) > MAX_CHARACTERS:
        yield YamlError(name, 1, f"larger than {MAX_CHARACTERS // 2**20} Mi characters: split the file")
        return
    text = text.removeprefix("\ufeff")
    first = CONTENT.search(text)
    if first is not None and first[0] in "{[":
        values = json_values(text, decode)
        if values is not None:
            line = counted = 0
            for value, start, end in values:
                line += text.count("\n", counted, start)
                counted = start
                yield Document(value, name, line + 1, text[start:end], line)
            return
    line = 0
    entries = EntryReader()
    for part in _parts(text):
        json = None if decode is None else _JSON.match(part)
        value = None if json is None else _json(part[json.end() :], decode)
        read = None if decode is None or json is not None else entries.read(part)
        if json is not None and value is not None:
            yield Document(value, name, line + json[0].count("\n") + 1, part, line)
        elif decode is not None and read is not None:
            data, before = read
            value = decode(data, "", "")
            yield Document(msgspec.json.decode(data) if value is None else value, name, line + before + 1, part, line)
        else:
            try:
                for index, (value, at) in enumerate(read_events(part, name, line)):
                    yield Document(value, name, at, part, line, index)
            except YamlError as error:
                yield error
        line += part.count("\n")


def _json(text: str, decode: Decode | None) -> Any:
    """Returns the object in a document of a stream; None unless JSON and YAML read its text alike."""
    if decode is None or not text.isascii() or not text.replace("\n", "").isprintable():
        return None
    return None if ("\n" in text or len(text) > 1000) and _YAML_ONLY.search(text) else json_object(text, decode)


def _parts(text: str) -> Iterator[str]:
    """Splits the text into its documents. The parts joined are the text, so that lines can be counted."""
    start = 0
    directives = _DIRECTIVE.search(text) is not None
    for mark in _MARK.finditer(text):
        cut = mark.start()
        if mark[0] == "...":
            end = text.find("\n", cut)
            cut = len(text) if end < 0 else end + 1
        elif directives and _DIRECTIVE.search(text, start, cut) and not text.startswith("---", start):
            continue  # %YAML and %TAG lines belong to the document that follows them
        if cut > start:
            yield text[start:cut]
            start = cut
    if start < len(text):
        yield text[start:]


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
