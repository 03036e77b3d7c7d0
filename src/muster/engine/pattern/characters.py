"""Sets of characters: ranges of code points, as classes and escapes of an expression name them."""

from __future__ import annotations

from dataclasses import dataclass

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF


def ranges(*parts: str) -> Ranges:
    """`ranges("az", "09")`: from the first to the second character of each part."""
    return tuple((ord(part[0]), ord(part[-1])) for part in parts)


DIGIT = ranges("09")
WORD = ranges("09", "AZ", "az", "_")
SPACE = ranges("\t\n", "\f\r", " ")

PERL = {"d": DIGIT, "w": WORD, "s": SPACE}
POSIX = {
    "alnum": ranges("09", "AZ", "az"),
    "alpha": ranges("AZ", "az"),
    "ascii": ranges("\x00\x7f"),
    "blank": ranges("\t", " "),
    "cntrl": ranges("\x00\x1f", "\x7f"),
    "digit": DIGIT,
    "graph": ranges("!~"),
    "lower": ranges("az"),
    "print": ranges(" ~"),
    "punct": ranges("!/", ":@", "[`", "{~"),
    "space": ranges("\t\r", " "),
    "upper": ranges("AZ"),
    "word": WORD,
    "xdigit": ranges("09", "AF", "af"),
}
CONTROL = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def others(of: Ranges) -> Ranges:
    """All characters that are not among these."""
    found: list[tuple[int, int]] = []
    at = 0
    for low, high in sorted(of):
        if low > at:
            found.append((at, low - 1))
        at = max(at, high + 1)
    return (*found, (at, LAST)) if at <= LAST else tuple(found)


@dataclass(frozen=True, slots=True)
class Characters:
    ranges: Ranges
    fold: bool = False  # capital or small, it is the same letter

    def __contains__(self, character: str) -> bool:
        forms = {character, character.lower(), character.upper()} if self.fold else (character,)
        return any(low <= ord(form) <= high for form in forms if len(form) == 1 for low, high in self.ranges)


ANY = Characters(((0, LAST),))
ANY_BUT_NEWLINE = Characters(others(ranges("\n")))


def is_word(character: str) -> bool:
    return character in Characters(WORD)
