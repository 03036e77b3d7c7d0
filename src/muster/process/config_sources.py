"""Where the scheduler's configuration is found: in a file, or in a ConfigMap that is watched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Protocol

from muster.config.announced import PREFIX
from muster.config.source import NoConfiguration, content_of
from muster.kube import errors
from muster.kube.client import Client
from muster.kube.informers import Informers, Wanted
from muster.kube.lists import Report
from muster.kube.writes import Writes
from muster.model.core import ConfigMap
from muster.model.meta import Object
from muster.scheduler.reload import Found, find

LOOK_EVERY = 1.0


class Source(Protocol):
    @property
    def object(self) -> Object | None:
        """What users changed, where that is an object of the cluster."""
        ...

    async def now(self) -> Found:
        """Looked up once."""
        ...

    def changes(self) -> AsyncGenerator[Found, None]:
        """What is found, again and again, changed or not."""
        ...


class File:
    """Looked at every second: a file system tells of no change that a network or a symbolic link made."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def object(self) -> None:
        return None

    async def now(self) -> Found:
        return await asyncio.to_thread(find, self._path)

    async def changes(self) -> AsyncGenerator[Found, None]:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            yield await self.now()


class Map:
    """The key of a ConfigMap: `NAMESPACE/NAME/KEY`, or `NAMESPACE/NAME` with the key that ends in .conf."""

    def __init__(self, client: Client, place: str, report: Report) -> None:
        self._client = client
        self._namespace, self._name, self._key = [*place.split("/"), ""][:3]
        self._report = report
        self._map: ConfigMap | None = None

    @property
    def object(self) -> Object | None:
        return self._map

    async def now(self) -> Found:
        try:
            return self._found(await Writes(self._client).get(ConfigMap, f"{self._namespace}/{self._name}"))
        except errors.NotFound:
            return self._found(None)
        except errors.ApiError as error:
            return Found(self._where, fault=f"cannot be read: {error}")

    async def changes(self) -> AsyncGenerator[Found, None]:
        # By name: a right to this one object is enough.
        wanted = Wanted(ConfigMap, self._namespace, fields=f"metadata.name={self._name}")
        async with Informers(self._client, [wanted], self._report) as maps:
            stream = maps.stream()
            await maps.synced()
            while True:
                yield self._found(maps.of(ConfigMap).get(f"{self._namespace}/{self._name}"))
                await stream.wait()
                stream.take()

    @property
    def _where(self) -> str:
        return f"{PREFIX}{self._namespace}/{self._name}{'/' if self._key else ''}{self._key}"

    def _found(self, there: ConfigMap | None) -> Found:
        if there is None:
            return Found(self._where, fault="there is no such ConfigMap")
        self._map = there
        try:
            return Found(self._where, content_of(there, self._key))
        except NoConfiguration as why:
            return Found(self._where, fault=str(why))
