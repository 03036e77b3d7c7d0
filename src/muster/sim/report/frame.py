"""The frame of every page: the document with its landmarks, the table of contents, the sections and the origin."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from muster import __version__
from muster.model.markup import escape
from muster.sim.report.elements import shown, table


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with a heading and an entry in the table of contents."""

    id: str
    title: str
    body: str
    count: str = ""  # shown beside the title in the table of contents, such as the number of waiting pods

    def html(self) -> str:
        """Returns the section; a section without a body is left out."""
        if not self.body:
            return ""
        id_ = escape(self.id)
        heading = f'<h2 id="{id_}-title">{shown(self.title)}</h2>'
        return f'<section id="{id_}" aria-labelledby="{id_}-title">\n{heading}\n{self.body}\n</section>'


@cache
def stylesheet() -> str:
    """Returns the style sheet of all pages."""
    return files("muster.sim.report").joinpath("report.css").read_text("utf-8")


def document(
    title: str,
    parts: Iterable[str | Section],
    verb: str = "simulate",
    *,
    lead: str = "",
    origin: Sequence[tuple[str, str]] = (),
) -> str:
    """Returns a whole page. `parts` are fragments of HTML and sections; `lead` is HTML below the title."""
    found = list(parts)
    if origin:
        found.append(Section("origin", "Origin", table(("", ""), origin, "How this page was made")))
    sections = [part for part in found if isinstance(part, Section) and part.body]
    body = "\n".join(text for part in found if (text := part.html() if isinstance(part, Section) else part))
    style = stylesheet()
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{shown(title)} · muster {escape(verb)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#content">Skip to the content</a>\n'
        f"<header>\n<h1>{shown(title)}</h1>\n{lead}\n</header>\n{contents(sections)}"
        f'<main id="content">\n{body}\n</main>\n'
        f'<footer>Made by <code>muster {escape(verb)}</code>, version {__version__}.</footer>\n</body>\n</html>\n'
    )


def _policy(style: str) -> str:
    """Returns a Content-Security-Policy that permits this style sheet and nothing else."""
    digest = base64.b64encode(hashlib.sha256(f"\n{style}".encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'"


def contents(sections: Sequence[Section]) -> str:
    """Returns the table of contents."""
    if not sections:
        return ""
    entries = "".join(
        f'<li><a href="#{escape(one.id)}">{shown(one.title)}</a>{f" <b>{escape(one.count)}</b>" if one.count else ""}'
        "</li>"
        for one in sections
    )
    return f'<nav aria-label="Contents">\n<ul>{entries}</ul>\n</nav>\n'


def section(title: str, body: str, id: str = "") -> Section:
    """Returns a section whose id is made of its title."""
    made = "".join(c if c.isascii() and c.isalnum() else "-" for c in title.lower())
    return Section(id or made.strip("-") or "section", title, body)
