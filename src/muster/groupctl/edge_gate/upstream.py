"""The API server behind the gate: asked in a client's name, or in the gate's own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from muster.groupctl.edge_gate.targets import Target
from muster.kube.config import Access
from muster.kube.connection import as_api_errors, keepalive_socket
from muster.process.certificates import Files
from muster.store import errors

# What belongs to one connection and not to the request (RFC 9110, 7.6.1).
HOP_BY_HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
    "upgrade", "host", "expect",
})  # fmt: skip
_STREAM_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10)
_SHORT = aiohttp.ClientTimeout(total=30, sock_connect=10)
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class Upstream:
    """Use as `async with Upstream(access, front_proxy) as upstream`."""

    def __init__(self, access: Access, front_proxy: tuple[str, str] | None = None) -> None:
        """`front_proxy`: certificate and key by which the API server lets us say who a client is."""
        self.access = access
        self._nobody = access.tls_of_nobody()
        self._front_proxy = front_proxy
        self._proxy = None
        if front_proxy is not None:
            self._files = Files(*front_proxy)
            self._proxy = self._tls_of_proxy(*front_proxy)

    async def __aenter__(self) -> Upstream:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=75, socket_factory=keepalive_socket)
        self._session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, raise_for_status=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    @property
    def authority(self) -> str:
        """Host and port, as a Host header has them."""
        return urlsplit(self.access.host).netloc

    @asynccontextmanager
    async def call(
        self,
        method: str,
        url: str,
        headers: Iterable[tuple[str, str]],
        *,
        by_front_proxy: bool = False,
        params: Mapping[str, str] | None = None,
        body: AsyncIterator[bytes] | bytes | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A client's request, with nothing of ours in it; `url` is path and query as they came."""
        sent = CIMultiDict((name, value) for name, value in headers if name.lower() not in HOP_BY_HOP)
        tls = self._tls(by_front_proxy=by_front_proxy)
        with as_api_errors(f"{method} {url}"):
            async with self._session.request(
                method, URL(f"{self.access.host}{url}", encoded=True), params=params, headers=sent, data=body,
                timeout=_STREAM_TIMEOUT, ssl=tls if tls is not None else True, server_hostname=self.access.server_name,
                allow_redirects=False,
            ) as answer:  # fmt: skip
                yield answer

    async def connect(self, *, by_front_proxy: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection for a request that is to be upgraded."""
        at = urlsplit(self.access.host)
        tls = self._tls(by_front_proxy=by_front_proxy)
        port = at.port or (443 if at.scheme == "https" else 80)
        name = (self.access.server_name or at.hostname) if tls is not None else None
        return await asyncio.open_connection(at.hostname, port, ssl=tls, server_hostname=name)

    def _tls(self, *, by_front_proxy: bool) -> ssl.SSLContext | None:
        if not by_front_proxy or self._front_proxy is None:
            return self._nobody
        if self._files.changed():
            with suppress(OSError):  # its key has not come yet: the last good one stays
                self._proxy = self._tls_of_proxy(*self._front_proxy)
        return self._proxy

    def _tls_of_proxy(self, certificate: str, key: str) -> ssl.SSLContext:
        context = self.access.tls_of_nobody() or ssl.create_default_context()
        context.load_cert_chain(certificate, key or None)
        return context

    # --- in our own name

    @asynccontextmanager
    async def ours(
        self, path: str, params: Mapping[str, str], accept: str, timeout: aiohttp.ClientTimeout = _SHORT
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A GET with the gate's own rights; an ApiError unless it succeeds."""
        headers = {"Accept": accept, "Accept-Encoding": "identity"}
        authorization = await self.access.header()
        if authorization:
            headers["Authorization"] = authorization
        what = f"GET {path}"
        with as_api_errors(what):
            async with self._session.get(
                URL(f"{self.access.host}{path}", encoded=True), params=params, headers=headers, timeout=timeout,
                ssl=self.access.tls if self.access.tls is not None else True, server_hostname=self.access.server_name,
                allow_redirects=False,
            ) as answer:  # fmt: skip
                if answer.status >= 300:
                    raise errors.from_answer(what, answer.status, (await answer.read())[: 1 << 20])
                yield answer

    async def one(self, target: Target, key: str, accept: str, *, include_object: str = "") -> bytes | None:
        """A pod in the form that a client asked for, as the object of an event; None: it is not among those asked."""
        params = target.one(key)
        if include_object:
            params["includeObject"] = include_object
        # What is watched one by one is listed as a list.
        forms = accept.replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;")
        async with self.ours(target.collection, params, forms) as answer:
            found = msgspec.json.decode(await answer.read())
        if found.get("kind") == "Table":
            return msgspec.json.encode(_of_one(found)) if found.get("rows") else None
        items = found.get("items") or []
        if not items:
            return None
        kind, version = ("Pod", "v1")
        if found.get("kind") == "PartialObjectMetadataList":
            kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
        # Items of a list do not say what they are, objects of an event do.
        return msgspec.json.encode({**items[0], "kind": kind, "apiVersion": version})

    async def pod(self, key: str) -> bytes | None:
        """The pod as it is now, in JSON."""
        namespace, _, name = key.partition("/")
        try:
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            async with self.ours(path, {}, "application/json") as answer:
                return await answer.read()
        except errors.NotFound:
            return None


def _of_one(table: dict[str, Any]) -> dict[str, Any]:
    """A list's Table has the list's version, an event's that of its object."""
    version = table["rows"][0]["object"]["metadata"]["resourceVersion"]
    return {**table, "metadata": {"resourceVersion": version}}
