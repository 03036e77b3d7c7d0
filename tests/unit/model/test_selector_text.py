"""Label selectors as kubectl's -l takes them."""

from __future__ import annotations

import pytest

from muster.model.selectors import matches, selector_of_text

LABELS = {"app": "web", "example.com/tier": "front"}


@pytest.mark.parametrize(
    ("text", "selects"),
    [
        ("", True), ("app", True), ("!app", False), ("app=web", True), ("app==web,example.com/tier=front", True),
        ("app!=web", False), ("zone!=x", True), ("app in (api, web)", True), ("app notin (api,web)", False),
        ("app=", False), (" app = web , !zone ", True),
    ],
)  # fmt: skip
def test_a_selector_matches_as_in_kubectl(text: str, selects: bool) -> None:
    assert matches(selector_of_text(text), LABELS) is selects


@pytest.mark.parametrize("text", ["(", "app in web", "a=b c=d", "app in (a,(b))"])
def test_what_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is no label selector"):
        selector_of_text(text)
