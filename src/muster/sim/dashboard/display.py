"""What is shown now: the input for worker processes, the configurations, and the renderings.

A rendering has views in HTML and answers in JSON. Each is made when it is first requested, and compressed once.
"""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b

from muster.sim.dashboard.answers import ANSWERS, Status, encoded, figures
from muster.sim.dashboard.inputs import Input
from muster.sim.dashboard.updates import Update, Updates
from muster.sim.inputs import ConfigText
from muster.sim.report.pages import VIEWS as COMPONENTS
from muster.sim.report.pages import View, differences
from muster.sim.result import Comparison, Result

MIN_COMPRESSED_BYTES = 512


@dataclass(frozen=True, slots=True)
class RenderedPart:
    """One view or answer, as it is sent."""

    body: bytes
    compressed: bytes | None
    etag: str

    @classmethod
    def of(cls, body: bytes) -> RenderedPart:
        # Level 4: at 5,000 nodes half the time of level 6 for a tenth more bytes.
        compressed = gzip.compress(body, 4, mtime=0) if len(body) >= MIN_COMPRESSED_BYTES else None
        return cls(body, compressed, f'"{blake2b(body, digest_size=12).hexdigest()}"')


def render(result: Result, name: str) -> RenderedPart:
    """Renders the part `views/NAME` or `api/NAME`. Raises KeyError if there is none."""
    kind, _, rest = name.partition("/")
    return RenderedPart.of(VIEWS[rest](result).encode() if kind == "views" else encoded(ANSWERS[rest][0](result)))


def render_all(result: Result) -> dict[str, RenderedPart]:
    """Renders every part, for a result that is not kept."""
    names = [*(f"views/{name}" for name in VIEWS), *(f"api/{name}" for name in ANSWERS)]
    return {name: render(result, name) for name in names}


class Rendering:
    """The parts of one version of what is shown. Parts that are not there yet are rendered by `executor`, in whose
    thread alone the result's state may change."""

    def __init__(
        self, version: int, parts: Mapping[str, RenderedPart] | None = None, *,
        make: Callable[[str], RenderedPart] | None = None, executor: Executor | None = None,
    ) -> None:  # fmt: skip
        self.version = version
        self._parts: dict[str, RenderedPart | asyncio.Future[RenderedPart]] = dict(parts or {})
        self._make = make
        self._executor = executor

    async def part(self, name: str) -> RenderedPart:
        """Returns a part; two requests at the same time render it once. Raises KeyError if there is none."""
        found = self._parts.get(name)
        if found is None:
            if self._make is None:
                raise KeyError(name)
            found = asyncio.get_running_loop().run_in_executor(self._executor, self._make, name)
            self._parts[name] = found
        if isinstance(found, RenderedPart):
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


RESULT_S = 0.03
"""How long a change waits for its result before it is announced without one."""


@dataclass(slots=True)
class Display:
    """`publish` and `changed` are called on the event loop. `result` and its state change only in the thread of
    `executor`, which also renders them: so a view never mixes two states."""

    kind: str  # cluster, manifests or replay
    title: str
    configurations: Sequence[ConfigText] = ()
    """The configurations to choose from; the first one decides what is shown."""
    executor: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="result"))
    updates: Updates = field(default_factory=Updates)
    result: Result | None = None
    rendering: Rendering | None = None
    status: Status | None = None
    changes: int = 0
    input_at: Callable[[int | None], tuple[int, Input, int | None]] = field(init=False)
    """Cycle → the version of an input, the input, and the cycle to go to in it; LookupError if it is not kept."""
    clock: Callable[[], float] = time.time

    def publish(self, result: Result, now: float, parts: Mapping[str, RenderedPart] | None = None) -> None:
        """Shows this result, which the executor's thread has put into `result`, from now on. `parts` are given where
        that thread has no time to render them later."""
        version = 1 if self.rendering is None else self.rendering.version + 1

        self.rendering = Rendering(version, parts, make=self._render, executor=self.executor)
        shown = figures(result)
        using = str(result.configuration) if result.configuration is not None else ""
        names = [text.source for text in self.configurations]
        warnings = [*result.summary.warnings, *map(str, result.findings)]
        self.status = Status(
            version, self.kind, self.title, now, result.cycles, result.summary.settled, shown, using, names, warnings
        )
        self.updates.put(Update(version, self.changes, now, shown))

    def _render(self, name: str) -> RenderedPart:
        assert self.result is not None
        return render(self.result, name)

    def changed(self, count: int = 1) -> None:
        """Counts changes of objects that the next result will contain."""
        self.changes += count
        if self.status is not None:
            update = Update(self.status.version, self.changes, self.clock(), self.status.figures)
            self.updates.put(update, RESULT_S)
