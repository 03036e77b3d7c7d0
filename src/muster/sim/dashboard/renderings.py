"""Renders what is shown: views in HTML and answers in JSON, each when it is first asked for, and compressed once."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b

from muster.sim.dashboard.answers import ANSWERS, encoded
from muster.sim.report.pages import differences
from muster.sim.report.views import VIEWS as COMPONENTS
from muster.sim.report.views import View
from muster.sim.result import Comparison, Result

MIN_COMPRESSED_BYTES = 512


@dataclass(frozen=True, slots=True)
class Part:
    """One view or answer, as it is sent."""

    body: bytes
    compressed: bytes | None
    etag: str

    @classmethod
    def of(cls, body: bytes) -> Part:
        # Level 4: at 5,000 nodes half the time of level 6 for a tenth more bytes.
        compressed = gzip.compress(body, 4, mtime=0) if len(body) >= MIN_COMPRESSED_BYTES else None
        return cls(body, compressed, f'"{blake2b(body, digest_size=12).hexdigest()}"')


def render(result: Result, name: str) -> Part:
    """Renders the part `views/NAME` or `api/NAME`. Raises KeyError if there is none."""
    kind, _, rest = name.partition("/")
    return Part.of(VIEWS[rest](result).encode() if kind == "views" else encoded(ANSWERS[rest][0](result)))


def render_all(result: Result) -> dict[str, Part]:
    """Renders every part, for a result that is not kept."""
    names = [*(f"views/{name}" for name in VIEWS), *(f"api/{name}" for name in ANSWERS)]
    return {name: render(result, name) for name in names}


class Rendering:
    """The parts of one version of what is shown. Parts that are not there yet are rendered by `executor`, in whose
    thread alone the result's state may change."""

    def __init__(
        self, version: int, parts: Mapping[str, Part] | None = None, *, make: Callable[[str], Part] | None = None,
        executor: Executor | None = None,
    ) -> None:  # fmt: skip
        self.version = version
        self._parts: dict[str, Part | asyncio.Future[Part]] = dict(parts or {})
        self._make = make
        self._executor = executor

    async def part(self, name: str) -> Part:
        """Returns a part; two requests at the same time render it once. Raises KeyError if there is none."""
        found = self._parts.get(name)
        if found is None:
            if self._make is None:
                raise KeyError(name)
            found = asyncio.get_running_loop().run_in_executor(self._executor, self._make, name)
            self._parts[name] = found
        if isinstance(found, Part):
            return found
        try:
            part = await asyncio.shield(found)
        except Exception:
            self._parts.pop(name, None)  # the next request tries again
            raise
        self._parts[name] = part
        return part


def _section(view: View, result: Result) -> str:
    section = replace(view, always=True).section(result)
    count = f" ({section.count})" if section.count else ""
    return replace(section, title=section.title + count).html()


VIEWS: dict[str, Callable[[Result], str]] = {view.name: partial(_section, view) for view in COMPONENTS}
"""Name of the view → how it is rendered."""


def comparison(compared: Comparison) -> str:
    """Returns what differs between the decisions of two configurations."""
    return "\n".join(section.html() for section in differences(compared))
