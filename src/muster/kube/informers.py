"""A set of informers as one cache and one stream of changes; the tables are updated before a change is reported."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TypeVar, cast

from msgspec import Struct

from muster.kube.client import Client
from muster.kube.informer import Delta, Informer, InformerState, OnDelta, Pace
from muster.kube.list_watch import Report, Selection
from muster.kube.resources import sources_of
from muster.model.meta import Object
from muster.store import Change

T = TypeVar("T", bound=Object)


class Wanted(Struct, frozen=True):
    """A kind to watch: all objects, or those of one namespace, with some labels or fields."""

    kind: type[Object]
    namespace: str = ""
    labels: str = ""
    fields: str = ""


class Stream:
    """The deltas that one reader has not taken yet."""

    def __init__(self, informers: Informers, kinds: frozenset[str]) -> None:
        self.kinds = kinds
        self._informers = informers
        self._new: deque[Delta] = deque()
        self._some = asyncio.Event()

    def push(self, delta: Delta) -> None:
        if not self.kinds or delta.kind in self.kinds:
            self._new.append(delta)
            self._some.set()

    def take(self) -> list[Delta]:
        """Returns the deltas since the last call, in order. The tables already contain them."""
        self._some.clear()
        taken = list(self._new)
        self._new.clear()
        return taken

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits until there are deltas; False after `seconds` without one."""
        try:
            async with asyncio.timeout(seconds):
                await self._some.wait()
        except TimeoutError:
            return False
        return True

    def __len__(self) -> int:
        return len(self._new)

    def close(self) -> None:
        """Ends the stream."""
        self._informers.unsubscribe(self.push)
        self._new.clear()


class Informers:
    """Watches several kinds: `async with Informers(client, [Pod, Node], report) as cluster: await cluster.synced()`."""

    def __init__(
        self,
        client: Client,
        kinds: Iterable[type[Object] | Wanted],
        report: Report,
        *,
        pace: Pace | None = None,
    ) -> None:
        self.objects: dict[str, dict[str, Object]] = {}
        """Kind → key → object: the last known state of the cluster. Read only, on the event loop's thread."""
        self.informers: list[Informer] = []
        self._client = client
        self._report = report
        self._pace = pace
        self._readers: dict[OnDelta, None] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._added: dict[str, list[asyncio.Task[None]]] = {}
        self._later: dict[str, list[Informer]] = {}
        for one in kinds:
            self.informers += self._made(one if isinstance(one, Wanted) else Wanted(one))

    def _made(self, wanted: Wanted) -> list[Informer]:
        table = self.objects.setdefault(wanted.kind.__name__, {})
        made: list[Informer] = []
        for versions in sources_of(wanted.kind):
            selections = tuple(
                Selection(resource, wanted.namespace, wanted.labels, wanted.fields) for resource in versions
            )
            before = made[-1] if made else None
            made.append(
                Informer(self._client, selections, self._push, self._report, table=table, after=before, pace=self._pace)
            )
        return made

    def add(self, kind: type[Object]) -> None:
        """Watches one more kind; `synced` does not wait for it, because it may not be served yet."""
        made = self._made(Wanted(kind))
        self._later[kind.__name__] = made
        self._added[kind.__name__] = [asyncio.create_task(informer.run()) for informer in made]

    async def remove(self, kind: type[Object]) -> None:
        """Stops watching an added kind; its objects are dropped without a delta."""
        tasks = self._added.pop(kind.__name__, [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._later.pop(kind.__name__, None)
        self.objects.pop(kind.__name__, None)

    async def __aenter__(self) -> Informers:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def start(self) -> None:
        """Starts to watch; returns at once."""
        self._tasks = [
            asyncio.create_task(informer.run(), name=f"follow {informer.resource.name}") for informer in self.informers
        ]

    async def stop(self) -> None:
        tasks = [*self._tasks, *(task for added in self._added.values() for task in added)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks = []
        self._added = {}

    async def synced(self, seconds: float | None = None) -> bool:
        """Waits until every kind was listed once (or found absent); False after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                for informer in self.informers:
                    await informer.synced.wait()
        except TimeoutError:
            return False
        return True

    @property
    def is_synced(self) -> bool:
        return all(informer.synced.is_set() for informer in self.informers)

    async def reached(self, kind: type[Object], version: str) -> None:
        """Waits until the tables have every change of this kind up to this resourceVersion."""
        while any(informer.kind is kind and informer.behind(version) for informer in self.informers):
            await asyncio.sleep(0.01)

    def unread(self) -> str:
        """Returns the kinds that were not listed yet, as a text for /readyz; empty if all were."""
        named = [text for informer in self.informers if (text := informer.unread)]
        return f"waits for the first list of {', '.join(named)}" if named else ""

    def states(self) -> dict[str, InformerState]:
        """Returns the state of each resource, for readiness and metrics."""
        everyone = [*self.informers, *(one for later in self._later.values() for one in later)]
        return {informer.resource.name: informer.state for informer in everyone}

    def of(self, kind: type[T]) -> Mapping[str, T]:
        """Returns the live table of one kind."""
        return cast("Mapping[str, T]", self.objects[kind.__name__])

    def follows(self, kind: type[Object]) -> bool:
        return kind.__name__ in self.objects

    def stream(self, kinds: Iterable[type[Object]] = (), *, replay: bool = True) -> Stream:
        """Returns a new stream of these kinds or of all. With `replay` it begins with the existing objects, as ADDED.
        """
        made = Stream(self, frozenset(kind.__name__ for kind in kinds))
        self.subscribe(made.push, replay=replay)
        return made

    def subscribe(self, reader: OnDelta, *, replay: bool = True) -> None:
        """Calls `reader` with every delta as soon as the tables contain it."""
        if replay:
            for kind, table in self.objects.items():
                for key in sorted(table):
                    reader(Delta(Change.ADDED, kind, key, None, table[key]))
        self._readers[reader] = None

    def unsubscribe(self, reader: OnDelta) -> None:
        self._readers.pop(reader, None)

    def observe(self, obj: Object) -> None:
        """Applies the response of one of our writes before the watch reports it."""
        for informer in (*self.informers, *self._later.get(type(obj).__name__, ())):
            if informer.kind is type(obj) and informer.resource.api_version == obj.api_version:
                informer.observe(obj)

    def _push(self, delta: Delta) -> None:
        for reader in tuple(self._readers):
            reader(delta)
