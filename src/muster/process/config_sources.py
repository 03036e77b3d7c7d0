"""Sources of a configuration: a file, or a key of a ConfigMap that is watched."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from muster.config.announced_config import PREFIX
from muster.config.source import NoConfiguration, content_of
from muster.kube.client import Client
from muster.kube.informers import Informers, Wanted
from muster.kube.list_watch import Report
from muster.kube.writes import Writes
from muster.model.core import ConfigMap
from muster.model.meta import Object
from muster.store import errors

FILE_POLL_PERIOD_S = 1.0


class InvalidConfig(Exception):
    """A configuration that must not be used; one line per error."""


@dataclass(frozen=True, slots=True)
class ConfigContent:
    """The content of a source at one moment, or why it could not be read."""

    source: str
    data: bytes = b""
    error: str = ""

    @property
    def version(self) -> str:
        """Returns a short hash of the content; in a mounted ConfigMap a symbolic link changes, so file times are
        useless."""
        return f"({self.error})" if self.error else hashlib.sha256(self.data).hexdigest()[:12]

    def text(self) -> str:
        """Decodes the content; raises InvalidConfig if there is none or it is not UTF-8."""
        if self.error:
            raise InvalidConfig(f"{self.source}: error: {self.error}")
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InvalidConfig(f"{self.source}: error: is not UTF-8 text (save it as UTF-8)") from None


class ConfigSource(Protocol):
    """A file or a ConfigMap."""

    @property
    def object(self) -> Object | None:
        """The object that users edit, if the source is an object of the cluster."""
        ...

    async def read(self) -> ConfigContent:
        """Reads the content once."""
        ...

    def watch(self) -> AsyncGenerator[ConfigContent, None]:
        """Yields the content repeatedly, changed or not."""
        ...


class ConfigFile:
    """A file, read every second: file systems report no change that a network or a symbolic link made."""

    def __init__(self, path: str) -> None:
        self._path = path

    @property
    def object(self) -> None:
        return None

    def content(self) -> ConfigContent:
        try:
            return ConfigContent(self._path, Path(self._path).read_bytes())
        except OSError as fault:
            return ConfigContent(self._path, error=f"cannot be read: {fault.strerror}")

    async def read(self) -> ConfigContent:
        return await asyncio.to_thread(self.content)

    async def watch(self) -> AsyncGenerator[ConfigContent, None]:
        while True:
            await asyncio.sleep(FILE_POLL_PERIOD_S)
            yield await self.read()


class ConfigMapKey:
    """The key of a ConfigMap: `NAMESPACE/NAME/KEY`, or `NAMESPACE/NAME` with the key that ends in .conf."""

    def __init__(self, client: Client, place: str, report: Report) -> None:
        self._client = client
        self._namespace, self._name, self._key = [*place.split("/"), ""][:3]
        self._report = report
        self._map: ConfigMap | None = None

    @property
    def object(self) -> Object | None:
        return self._map

    async def read(self) -> ConfigContent:
        try:
            return self._content(await Writes(self._client).get(ConfigMap, f"{self._namespace}/{self._name}"))
        except errors.NotFound:
            return self._content(None)
        except errors.ApiError as error:
            return ConfigContent(self._source, error=f"cannot be read: {error}")

    async def watch(self) -> AsyncGenerator[ConfigContent, None]:
        # By name: permission for this one object is enough.
        wanted = Wanted(ConfigMap, self._namespace, fields=f"metadata.name={self._name}")
        async with Informers(self._client, [wanted], self._report) as maps:
            stream = maps.stream()
            await maps.synced()
            while True:
                yield self._content(maps.of(ConfigMap).get(f"{self._namespace}/{self._name}"))
                await stream.wait()
                stream.take()

    @property
    def _source(self) -> str:
        return f"{PREFIX}{self._namespace}/{self._name}{'/' if self._key else ''}{self._key}"

    def _content(self, config_map: ConfigMap | None) -> ConfigContent:
        if config_map is None:
            return ConfigContent(self._source, error="there is no such ConfigMap")
        self._map = config_map
        try:
            return ConfigContent(self._source, content_of(config_map, self._key))
        except NoConfiguration as why:
            return ConfigContent(self._source, error=str(why))
