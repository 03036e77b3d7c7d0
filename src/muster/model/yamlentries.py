"""Reads a YAML document entry by entry, and equal entries once.

The documents of a large file differ in their names and share the rest: thousands of pods have the same `spec:`. The
entries of a mapping that begins at the first column can be cut apart and read by themselves: a line that begins with a
key there cannot belong to the entry before it, unless a flow collection or a quoted text is open, and then the part is
no valid text of its own. A document that cannot be cut, or that uses aliases, is read as a whole.
"""

from __future__ import annotations

import re

import msgspec

from muster.model.yamlevents import YamlError, read_events

__all__ = ["EntryReader"]

_START = re.compile(r"(?:--- *\n)?(?:#[ -~]*\n| *\n)*(?=[A-Za-z])")
_ENTRY = re.compile(r"([A-Za-z]+):(?=[ \n]).*\n?(?:(?: .*)?\n)*(?: .*)?")
_MAX_KNOWN = 4096
_encode = msgspec.json.Encoder().encode


class EntryReader:
    """Reads documents as JSON; it remembers the entries of those before."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}

    def read(self, text: str) -> tuple[bytes, int] | None:
        """Returns a document as JSON without white space, and the lines before its first entry; None if it must be
        read as a whole."""
        start = _START.match(text)
        if start is None:
            return None
        at, found = start.end(), {}
        while at < len(text):
            entry = _ENTRY.match(text, at)
            if entry is None or entry[1] in found:
                return None
            value = self._known.get(entry[0]) or self._read(entry[0], entry[1])
            if value is None:
                return None
            found[entry[1]] = value
            at = entry.end()
        return b"{%b}" % b",".join(found.values()), start[0].count("\n")

    def _read(self, text: str, key: str) -> bytes | None:
        """Returns `"key":value`; None if the text is more or less than that."""
        if "&" in text and "*" in text:
            return None
        try:
            values = [value for value, _ in read_events(text, "", 0)]
            if len(values) != 1 or type(values[0]) is not dict or list(values[0]) != [key]:
                return None
            found = _encode(values[0])[1:-1]
        except (YamlError, ValueError, OverflowError):  # a whole number that JSON readers would round
            return None
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[text] = found
        return found
