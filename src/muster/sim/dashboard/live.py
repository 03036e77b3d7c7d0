"""The dashboard of a live cluster: follows the watches, and shows what the scheduler wrote and would decide next.

The state is that of the scheduler's cache. A cycle is computed on it when something changed that may matter, and is
never applied: the dashboard has no right to write. Earlier states are kept as changes to undo.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from muster.cycle.registry import kinds_read
from muster.engine.core.plan import Eviction
from muster.kube.informer import Delta
from muster.kube.informers import Stream
from muster.kube.snapshot import announced
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.groups import OverridePolicy
from muster.model.meta import Object
from muster.model.pod_states import EVICTED_BY, EVICTED_RULE, is_terminating
from muster.process.application_kinds import Kinds, WorkloadTables
from muster.process.component import Component
from muster.process.logs import Log
from muster.scheduler.cache import Cache
from muster.scheduler.inbox import Observed
from muster.scheduler.loop import SWITCH_INTERVAL_S
from muster.scheduler.queueing_hints import Hint, queueing_hint
from muster.scheduler.service import KINDS
from muster.sim.dashboard.display import Display
from muster.sim.dashboard.inputs import ClusterInput, Input, observed
from muster.sim.dashboard.service import address, served
from muster.sim.dashboard.settings import DashboardSettings
from muster.sim.inputs import ConfigText, LoadedConfig, config_for, default_config, load_config
from muster.sim.result import CycleRecord, Result
from muster.store.errors import ApiError

MIN_GAP_S, MAX_GAP_S, GAP_PER_RESULT = 0.1, 2.0, 1.0
"""Between two results: half of the time is for watches and requests."""
MAX_RECORDS = 500
MAX_CHANGES = 50_000
CLOCK_INTERVAL_S = 30.0
"""Ages and deadlines move on even if nothing changes."""


@dataclass(slots=True)
class History:
    """What was observed: a record for each result that pods were bound or evicted before, and changes to undo."""

    records: deque[CycleRecord] = field(default_factory=lambda: deque(maxlen=MAX_RECORDS))
    number: int = 0
    _binds: dict[str, str] = field(default_factory=dict)
    _evictions: list[Eviction] = field(default_factory=list)
    _changes: deque[tuple[int, str, str, Object | None]] = field(default_factory=lambda: deque(maxlen=MAX_CHANGES))

    def note(self, delta: Delta) -> None:
        """Notes a change that follows the record `number`."""
        self._changes.append((self.number, delta.kind, delta.key, delta.old))
        old, new = delta.old, delta.new
        if not isinstance(old, Pod) or not isinstance(seen := new or old, Pod):
            return
        if seen.spec.node_name and not old.spec.node_name:
            self._binds[delta.key] = seen.spec.node_name
        leaves = (new is None or is_terminating(seen)) and not is_terminating(old)
        if leaves and old.spec.node_name and (why := _eviction(seen)) is not None:
            self._evictions.append(Eviction(delta.key, old.spec.node_name, *why))

    def close(self, now: float, pending: int, seconds: float) -> None:
        """Ends a record, if there is anything in it."""
        if self._binds or self._evictions or not self.records or self.records[-1].pending != pending:
            self.number += 1
            self.records.append(CycleRecord(self.number, now, self._binds, self._evictions, pending, seconds))
            self._binds, self._evictions = {}, []

    def objects_at(self, objects: dict[str, dict[str, Object]], number: int) -> dict[str, dict[str, Object]]:
        """Returns the objects as they were when that record was closed; LookupError if that is too long ago."""
        if number > self.number:
            raise LookupError(f"there is no cycle {number} yet")
        first = self._changes[0][0] if len(self._changes) == MAX_CHANGES else 0
        if number <= first and number != self.number:
            raise LookupError(f"cycle {number} is not kept any more")
        then = {kind: dict(some) for kind, some in objects.items()}
        for after, kind, key, old in reversed(self._changes):
            if after < number:
                break
            if old is None:
                then.get(kind, {}).pop(key, None)
            else:
                then.setdefault(kind, {})[key] = old
        return then


class DashboardService(Component):
    """`muster dashboard` on a live cluster."""

    name = "dashboard"
    kinds = (*KINDS, OverridePolicy)

    def __init__(
        self, settings: DashboardSettings, log: Log, configurations: Sequence[ConfigText] = (), *,
        tls: ssl.SSLContext | None = None, started: Callable[[str], None] = lambda address: None,
    ) -> None:  # fmt: skip
        """`configurations` are those of -c. Without them the one that the running scheduler announces is used."""
        self.settings = settings
        self.display = Display("cluster", "live cluster", list(configurations))
        self.display.input_at = self._input_at
        self.history = History()
        self._cache = Cache(settings.scheduler_names)
        self._config: LoadedConfig | None = None
        self._tls = tls
        self._started = started
        read = [kind for text in configurations for kind in kinds_read(load_config(text).scheduler.config)]
        # What plugins of other packages read; the configured kinds of applications are followed by themselves.
        more = (kind for kind in dict.fromkeys(read) if kind not in type(self).kinds and kind is not CustomApplication)
        self.kinds = (*type(self).kinds, *more)
        super().__init__(settings, log)
        self.workload_tables = WorkloadTables.of(settings.workload_kinds, settings.applications)

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[dict[str, object]]:
        async with served(self.display, self.settings, self._tls, self.process.ready) as listener:
            self.port = listener.port
            at = address(self.settings, listener.port)
            self._started(at)
            yield {"dashboard": at}

    async def lead(self) -> None:
        """Shows the cluster until cancelled. There is no election: this is the process's one term."""
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        loop, display, informers = asyncio.get_running_loop(), self.display, self.process.shared_informers
        if not display.configurations:
            display.configurations = [await self._announced()]
        self._config = load_config(display.configurations[0])
        if CustomApplication in kinds_read(self._config.scheduler.config):
            self.process.kinds.want_applications()
        stream = informers.stream(replay=False)
        tables = {kind: dict(some) for kind, some in informers.objects.items()}
        await loop.run_in_executor(display.executor, self._cache.load, tables)
        changed = asyncio.Event()
        follow = asyncio.create_task(self._follow(stream, changed))
        try:
            while True:
                began = time.monotonic()
                result = await loop.run_in_executor(display.executor, self._decide, list(self.history.records))
                cost = time.monotonic() - began
                self.history.close(time.time(), len(result.pending), cost)
                result.history, result.cycles = list(self.history.records), self.history.number
                display.publish(result, time.time())
                await asyncio.sleep(min(max(cost * GAP_PER_RESULT, MIN_GAP_S), MAX_GAP_S))
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOCK_INTERVAL_S):
                        await changed.wait()
                changed.clear()
        finally:
            follow.cancel()

    async def _follow(self, stream: Stream, changed: asyncio.Event) -> None:
        while True:
            await stream.wait()
            count = 0
            for delta in stream.take():
                self._cache.put(Observed(delta.kind, delta.key, delta.new))
                if _is_visible(delta.old, delta.new):
                    count += 1
                    self.history.note(delta)
            if count:
                self.display.changed(count)
                changed.set()

    def _decide(self, records: list[CycleRecord]) -> Result:
        """Applies what the watches have shown, and computes a cycle; in the display's thread."""
        assert self._config is not None
        self._cache.apply_messages()
        self.display.result = observed(self._config, self._cache.state, time.time(), records, written=True)
        return self.display.result

    async def _announced(self) -> ConfigText:
        """Returns the configuration of the running scheduler, if we may read its Lease and ConfigMap."""
        try:
            found = await announced(self.process.ungated, self.log.report)
        except ApiError as fault:
            return default_config(f"the configuration of the running scheduler cannot be read: {fault} (give -c)")
        maps: dict[str, Object] = {str(i): one.config_map() for i, one in enumerate(found)}
        return config_for({"ConfigMap": maps}, self.settings.scheduler_names)

    def _input_at(self, cycle: int | None) -> tuple[int, Input, int | None]:
        objects = {kind: dict(some) for kind, some in self.process.shared_informers.objects.items()}
        version = self.display.changes
        if cycle is not None:
            # No change has a negative number.
            objects, version = self.history.objects_at(objects, cycle), -2 - cycle
        return version, ClusterInput(objects, time.time(), self.settings.scheduler_names, live=True), None

    async def kinds_changed(self, kinds: Kinds) -> None:
        use = self._cache.state.use_kinds
        await asyncio.get_running_loop().run_in_executor(self.display.executor, use, kinds)


def _eviction(pod: Pod) -> tuple[str, str] | None:
    """Returns for whom and by which rule a pod was evicted; None if it was deleted."""
    notes = pod.metadata.annotations
    if EVICTED_BY in notes:  # by muster
        return notes[EVICTED_BY], notes.get(EVICTED_RULE, "")
    # The API server and other schedulers write this condition on pods that they evict.
    targets = (one for one in pod.status.conditions if one.type == "DisruptionTarget")
    return next(((one.message, one.reason) for one in targets), None)


def _is_visible(old: Object | None, new: Object | None) -> bool:
    """Returns whether a change can be seen on the page; heartbeats cannot."""
    if isinstance(old, Pod) and isinstance(new, Pod) and old.status.conditions != new.status.conditions:
        return True  # the scheduler may have written why it waits
    return queueing_hint(old, new) is not Hint.IGNORE
