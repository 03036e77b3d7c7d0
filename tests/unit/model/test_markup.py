"""The one function that makes HTML of text."""

from __future__ import annotations

import pytest

from muster.model.markup import escape


@pytest.mark.parametrize(
    "text, html",
    [
        ("plain-name.0", "plain-name.0"),
        ("<b a=\"'\">&", "&lt;b a=&quot;&#x27;&quot;&gt;&amp;"),
        ("gpj\u202eexe", "gpj[U+202E]exe"),
        ("a\u200bb\u2066c\ufeff", "a[U+200B]b[U+2066]c[U+FEFF]"),
        ("\x00\x1b[31m\ud800", "\ufffd\ufffd[31m\ufffd"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("größe 数", "größe 数"),
    ],
)
def test_a_text_cannot_leave_its_place_or_change_the_text_around_it(text: str, html: str) -> None:
    assert escape(text) == html
    escape(text).encode()


def test_an_attribute_for_scripts_keeps_invisible_characters() -> None:
    assert escape("a\u202e<", exact=True) == "a\u202e&lt;"
