"""The hostile requests, read from the YAML files beside this one.

A file has a list of `requests`. `head` (lines) with `body`, or `raw`, is what is sent; an entry with `each` is one
request per value. `as` says who sends it. `refuse` marks requests that the edge gate must not answer with success;
`waits` marks clients that stop in the middle; `requests` is how many answers may come. Placeholders are those of
`Words`; text is sent as Latin-1, or as UTF-8 where it has other characters.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent
FILES = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))
ROOT = "hostile-root"
"""The user whom no listener may present to the API server."""


@dataclass(frozen=True)
class Case:
    """One hostile request; `head` without its last blank line, so that credentials can be added."""

    name: str
    sender: str
    head: str | None
    body: str
    refuse: bool = False
    waits: bool = False
    sized: bool = False
    every: float = 0.0  # seconds between two bytes
    answers: int = 1

    def sent(self, words: Mapping[str, object], credentials: str = "") -> bytes:
        body = _bytes(self.body.format_map(words))
        if self.head is None:
            return body
        head = self.head.format_map(words)
        lines = [head, *([f"Content-Length: {len(body)}"] if self.sized else []), *filter(None, [credentials])]
        return _bytes("\r\n".join(lines) + "\r\n\r\n") + body


@dataclass(frozen=True)
class Repeated:
    """`{pad:9000}`: a text that is made as long as the number behind the colon says."""

    made: Callable[[int], str]

    def __format__(self, size: str) -> str:
        return self.made(int(size))


@dataclass
class Words:
    """What the placeholders stand for: names of this run, and texts of any length."""

    names: Mapping[str, str]
    texts: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        forged = f"X-Remote-User: {ROOT}\r\nX-Remote-Group: system:masters"
        self.texts |= {
            **self.names,
            "root": ROOT,
            "smuggled": f"GET {self.names['secret']} HTTP/1.1\r\nHost: x\r\n{forged}\r\n\r\n",
            "pad": Repeated(lambda size: "a" * size),
            "nest": Repeated(lambda size: "[" * size),
            "headers": Repeated(lambda size: "\r\n".join(f"H{i}: v" for i in range(size))),
            "chunks": Repeated(lambda size: f"10000\r\n{'a' * 65536}\r\n" * (size // 65536) + "0\r\n\r\n"),
            "gzip": Repeated(lambda size: gzip.compress(b"a" * size, 1).decode("latin-1")),
        }


def cases(file: str) -> Iterator[Case]:
    """All requests of a file."""
    reported = yaml.safe_load((FOLDER / f"{file}.yaml").read_text(encoding="utf-8"))
    for entry in reported["requests"]:
        for i, value in enumerate(entry.get("each", [None])):
            head = "\r\n".join(entry["head"]) if "head" in entry else None
            body = entry.get("body", "") if head is not None else entry["raw"]
            if value is not None:
                head = None if head is None else head.replace("{each}", value)
                body = body.replace("{each}", value)
            yield Case(
                f"{file}: {entry['name']}" + (f" [{i}] {value[:60]!r}" if value is not None else ""),
                reported["as"], head, body, refuse=entry.get("refuse", False), waits=entry.get("waits", False),
                sized=entry.get("sized", False), every=entry.get("every", 0.0), answers=entry.get("requests", 1),
            )  # fmt: skip


def _bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()
