"""Checks of HTML pages: whole, self-contained, without scripts."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input"}


class Checker(HTMLParser):
    """Collects tags and text; fails on a tag that is not closed in its order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.addresses: list[str] = []
        self.attributes: set[str] = set()
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def checked(text: str) -> Checker:
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    return checker


def self_contained(text: str) -> Checker:
    """Checks that the page needs nothing from outside and runs nothing."""
    found = checked(text)
    assert all(address.removeprefix("#") in found.ids for address in found.addresses)
    assert len(found.ids) == len(set(found.ids))
    assert "script" not in found.seen and "style" not in found.attributes
    assert not any(name.startswith("on") for name in found.attributes)
    assert "http://" not in text and "https://" not in text and "@import" not in text and "url(" not in text
    return found
