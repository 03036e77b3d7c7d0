"""Reads Go's regular expressions into a tree. What Go refuses is refused: references back, looking around, `**`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from muster.engine.pattern.characters import (
    ANY,
    ANY_BUT_NEWLINE,
    CONTROL,
    PERL,
    POSIX,
    Characters,
    Ranges,
    others,
)

MOST_REPEATS = 1000
DEEPEST = 100


class PatternError(ValueError):
    """Not an expression that Go would take."""


class Place(Enum):
    """A place between characters."""

    BEGIN = "^"
    END = "$"
    EDGE = "\\b"  # of a word
    INSIDE = "\\B"


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Node
    least: int
    most: int | None


Node = Characters | Place | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True)
class _Flags:
    fold: bool = False
    newline: bool = False  # `.` takes a line's end, too


def read(text: str) -> Node:
    reader = _Reader(text)
    tree = reader.choice(_Flags(), 0)
    if not reader.at_end:
        raise PatternError("unexpected )")
    return tree


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def at_end(self) -> bool:
        return self.at >= len(self.text)

    def sees(self, text: str) -> bool:
        return self.text.startswith(text, self.at)

    def takes(self, text: str) -> bool:
        if not self.sees(text):
            return False
        self.at += len(text)
        return True

    def next(self) -> str:
        if self.at_end:
            raise PatternError("ends too early")
        self.at += 1
        return self.text[self.at - 1]

    def until(self, end: str, what: str) -> str:
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise PatternError(f"missing {end} after {what}")
        found, self.at = self.text[self.at : stop], stop + len(end)
        return found

    # --- structure

    def choice(self, flags: _Flags, depth: int) -> Node:
        if depth > DEEPEST:
            raise PatternError("nests too deeply")
        ways: list[Node] = []
        parts: list[Node] = []
        while not self.at_end and not self.sees(")"):
            if self.takes("|"):
                ways.append(Sequence(tuple(parts)))
                parts = []
                continue
            if self.takes("(?"):
                flags, inside = self._after_question_mark(flags)
                if inside is None:
                    continue
                part = self._group(inside, depth)
            elif self.takes("("):
                part = self._group(flags, depth)
            elif self.takes("\\Q"):
                parts += [Characters(_one(c), flags.fold) for c in self._quoted()]
                continue
            else:
                part = self._single(flags)
            parts.append(self._repeated(part))
        ways.append(Sequence(tuple(parts)))
        return ways[0] if len(ways) == 1 else Choice(tuple(ways))

    def _group(self, flags: _Flags, depth: int) -> Node:
        inside = self.choice(flags, depth + 1)
        if not self.takes(")"):
            raise PatternError("missing )")
        return inside

    def _after_question_mark(self, flags: _Flags) -> tuple[_Flags, _Flags | None]:
        """(The flags from here on, those inside the group; None: it was no group but a change of flags.)"""
        if self.takes("P<") or (self.takes("<") and not self.sees("=") and not self.sees("!")):
            name = self.until(">", "(?P<")
            if not name.isidentifier() or not name.isascii():
                raise PatternError(f"{name!r} is no name of a group")
            return flags, flags
        given, on = flags, True
        while True:
            flag = self.next()
            if flag == "i":
                given = replace(given, fold=on)
            elif flag == "s":
                given = replace(given, newline=on)
            elif flag == "-" and on:
                on = False
            elif flag == ":":
                return flags, given
            elif flag == ")":
                return given, None
            elif flag not in "mU":  # lines and greed make no difference to whether a name matches
                raise PatternError(f"(?{flag} is not known here")

    def _quoted(self) -> str:
        """What stands between \\Q and \\E, or the end."""
        stop = self.text.find("\\E", self.at)
        text = self.text[self.at :] if stop < 0 else self.text[self.at : stop]
        self.at = len(self.text) if stop < 0 else stop + 2
        return text

    def _repeated(self, part: Node) -> Node:
        bounds = self._bounds()
        if bounds is None:
            return part
        self.takes("?")  # lazy: makes no difference to whether a name matches
        if self._bounds() is not None:
            raise PatternError("repeats a repetition")
        least, most = bounds
        if least > MOST_REPEATS or (most or 0) > MOST_REPEATS or (most is not None and most < least):
            raise PatternError(f"repeats {least} to {most} times")
        return Repeat(part, least, most)

    def _bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.takes(sign):
                return bounds
        if not self.sees("{"):
            return None
        stop = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : max(stop, self.at)].partition(",")
        if not _number(low) or (high and not _number(high)):
            return None  # Go: then the brace stands for itself
        self.at = stop + 1
        if comma and not high:
            return int(low), None
        return int(low), int(high or low)

    # --- single characters and places

    def _single(self, flags: _Flags) -> Node:
        character = self.next()
        if character == ".":
            return ANY if flags.newline else ANY_BUT_NEWLINE
        if character in "^$":
            return Place(character)
        if character in "*+?":
            raise PatternError(f"nothing to repeat before {character}")
        if character == "[":
            return Characters(self._class(), flags.fold)
        if character != "\\":
            return Characters(_one(character), flags.fold)
        escaped = self.next()
        places = {"A": Place.BEGIN, "z": Place.END, "b": Place.EDGE, "B": Place.INSIDE}
        return places.get(escaped) or Characters(self._escaped(escaped), flags.fold)

    def _escaped(self, letter: str) -> Ranges:
        if letter.lower() in PERL:
            known = PERL[letter.lower()]
            return known if letter.islower() else others(known)
        if letter in CONTROL:
            return _one(CONTROL[letter])
        if letter == "x":
            code = self.until("}", "\\x{") if self.takes("{") else self.next() + self.next()
            if not code or len(code) > 6 or any(c not in "0123456789abcdefABCDEF" for c in code):
                raise PatternError(f"\\x{code} is no character")
            return ((int(code, 16), int(code, 16)),)
        if letter in "pP":
            raise PatternError("classes of Unicode are not supported")
        if letter.isalnum() or not letter.isascii():
            raise PatternError(f"\\{letter} is not known")
        return _one(letter)

    def _class(self) -> Ranges:
        """What stands between brackets."""
        negated = self.takes("^")
        found: list[tuple[int, int]] = []
        first = True
        while first or not self.takes("]"):
            first = False
            if self.takes("[:"):
                found += self._named_class(self.until(":]", "[:"))
                continue
            low = self._in_class()
            if self.sees("-") and not self.sees("-]"):
                self.next()
                high = self._in_class()
                if len(low) != 1 or len(high) != 1 or low[0][0] > high[0][0]:
                    raise PatternError("a range in brackets goes from a character to a later one")
                low = ((low[0][0], high[0][0]),)
            found += low
        return others(tuple(found)) if negated else tuple(found)

    def _in_class(self) -> Ranges:
        character = self.next()
        return self._escaped(self.next()) if character == "\\" else _one(character)

    @staticmethod
    def _named_class(name: str) -> Ranges:
        known = POSIX.get(name.removeprefix("^"))
        if known is None:
            raise PatternError(f"[:{name}:] is not known")
        return others(known) if name.startswith("^") else known


def _one(character: str) -> Ranges:
    return ((ord(character), ord(character)),)


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10
