"""Text for HTML and for terminals. What comes from a cluster, a file or a command line passes `escape` on its way into
a page, and `visible` on its way to a terminal.

Names, labels and annotations are hostile input: besides the characters of HTML, `escape` makes those visible that
change how the text around them is shown (Unicode's bidirectional controls), and replaces those that HTML forbids. A
terminal would execute control characters as commands.
"""

from __future__ import annotations

import re

__all__ = ["escape", "visible"]

# Compiled when a text needs them: most need none.
_HIDDEN = "[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
_FORBIDDEN = "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]"

_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f]"  # but tabs and ends of lines


def escape(text: str, *, exact: bool = False) -> str:
    """Returns the text as HTML, for the content of an element and for an attribute in quotes.

    `exact`: for an attribute that is read by a script and never shown, invisible characters stay as they are.
    """
    if not (text.isascii() and text.isprintable()):
        text = re.sub(_FORBIDDEN, "\N{REPLACEMENT CHARACTER}", text)
        if not exact:
            text = re.sub(_HIDDEN, _code, text)
    import html  # has a table of all entities: not part of the start of a command

    return html.escape(text)


def visible(text: str) -> str:
    """Returns the text for a terminal, with the codes of control characters and of invisible ones."""
    return text if text.isascii() and text.isprintable() else re.sub(_HIDDEN, _code, re.sub(_CONTROL, _code, text))


def _code(found: re.Match[str]) -> str:
    return f"[U+{ord(found[0]):04X}]"
