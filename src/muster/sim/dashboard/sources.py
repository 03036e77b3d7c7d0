"""What a dashboard shows without a live cluster: manifests and snapshots, which are read again when they change, and
replays, which are shown while they run."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

from muster.model.finding import InputError
from muster.process.certificates import Files
from muster.sim.dashboard.display import Display, render_all
from muster.sim.dashboard.inputs import ClusterInput, Input, ReplayInput, replayed
from muster.sim.inputs import ConfigText, load_config
from muster.sim.result import Result

POLL_INTERVAL_S = 1.0
SHOW_INTERVAL_S = 1.0
"""A replay that runs is shown this often."""

Known = tuple[ClusterInput, Sequence[ConfigText]]
"""The cluster, and the configurations to choose from; the first one decides."""


class ResultSource(ABC):
    """Publishes results on a display until cancelled."""

    display: Display

    @abstractmethod
    async def run(self) -> None: ...


class FileSource(ResultSource):
    """Manifests or a snapshot. `read` reads them again when they change; InputError if they cannot be used."""

    def __init__(
        self, title: str, paths: Sequence[str], first: Known, read: Callable[[], Known], report: Callable[[str], None]
    ) -> None:
        self._read = read
        self._report = report
        self._paths = [str(file) for path in paths for file in (Path(path), *Path(path).rglob("*"))]
        self._version = 0
        self._input, configurations = first
        self.display = Display("manifests", title, configurations)
        self.display.input_at = self._input_at
        self.display.result = self._decide()

    def _decide(self) -> Result:
        return self._input.result(load_config(self.display.configurations[0]))

    def _input_at(self, cycle: int | None) -> tuple[int, Input, int | None]:
        return self._version, self._input, cycle

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        display, files = self.display, Files(*self._paths)
        assert display.result is not None
        display.publish(display.result, self._input.now)
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            if not files.changed():
                continue
            display.changed()
            try:
                result = await loop.run_in_executor(display.executor, self._reload)
            except InputError as fault:
                found = "; ".join(map(str, fault.findings[:10]))
                self._report(f"{fault.message}; the last valid input is shown: {found}")
            else:
                display.publish(result, self._input.now)

    def _reload(self) -> Result:
        found, configurations = self._read()
        result = found.result(load_config(configurations[0]))
        self._input, self.display.configurations = found, configurations
        self._version += 1
        self.display.result = result
        return result


class ReplaySource(ResultSource):
    """A trace that is replayed in virtual time, and shown about once a second while it runs."""

    def __init__(self, title: str, given: ReplayInput, configurations: Sequence[ConfigText]) -> None:
        self._input = given
        self.display = Display("replay", title, configurations)
        self.display.input_at = lambda cycle: (0, self._input, cycle)
        self._stopped = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self.display.executor, self._replay, loop)
            await asyncio.Event().wait()
        finally:
            self._stopped = True

    def _replay(self, loop: asyncio.AbstractEventLoop) -> None:
        config = load_config(self.display.configurations[0])
        run = self._input.started(config)
        due = 0.0

        def show(final: bool = False) -> None:
            nonlocal due
            began = time.monotonic()
            self.display.result = result = replayed(config, run)
            result.summary.settled = final
            now, parts = run.cluster.clock.now(), render_all(result)
            if not self._stopped:
                loop.call_soon_threadsafe(self.display.publish, result, now, parts)
            # Most of the time is for the replay itself.
            due = time.monotonic() + max(SHOW_INTERVAL_S, 5 * (time.monotonic() - began))

        def progress(done: int, total: int) -> None:
            if self._stopped:
                raise InputError("stopped")
            if time.monotonic() > due:
                show()

        show()
        run.until_end(progress)
        show(final=True)
