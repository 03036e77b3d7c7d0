"""Calls the API server behind the gate, with a client's identity or with the gate's own."""

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

from muster.groupctl.edge_gate.targets import RequestedPods
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
_GET_TIMEOUT = aiohttp.ClientTimeout(total=30, sock_connect=10)
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class Upstream:
    """The connections to the API server; use as `async with Upstream(access, front_proxy) as upstream`."""

    def __init__(self, access: Access, front_proxy: tuple[str, str] | None = None) -> None:
        """`front_proxy`: the certificate and key with which the gate may name the user of a request."""
        self.access = access
        self._anonymous_tls = access.anonymous_tls()
        self._front_proxy = front_proxy
        self._front_proxy_tls = None
        if front_proxy is not None:
            self._files = Files(*front_proxy)
            self._front_proxy_tls = self._front_proxy_context(*front_proxy)

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
        """Sends a client's request without the gate's credentials; `url` is the path and query as received."""
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
        """Opens a connection for a request that will be upgraded."""
        at = urlsplit(self.access.host)
        tls = self._tls(by_front_proxy=by_front_proxy)
        port = at.port or (443 if at.scheme == "https" else 80)
        name = (self.access.server_name or at.hostname) if tls is not None else None
        return await asyncio.open_connection(at.hostname, port, ssl=tls, server_hostname=name)

    def _tls(self, *, by_front_proxy: bool) -> ssl.SSLContext | None:
        if not by_front_proxy or self._front_proxy is None:
            return self._anonymous_tls
        if self._files.changed():
            with suppress(OSError):  # the new key has not been written yet: keep the last valid pair
                self._front_proxy_tls = self._front_proxy_context(*self._front_proxy)
        return self._front_proxy_tls

    def _front_proxy_context(self, certificate: str, key: str) -> ssl.SSLContext:
        context = self.access.anonymous_tls() or ssl.create_default_context()
        context.load_cert_chain(certificate, key or None)
        return context

    # --- with the gate's identity

    @asynccontextmanager
    async def get_as_gate(
        self, path: str, params: Mapping[str, str], accept: str, timeout: aiohttp.ClientTimeout = _GET_TIMEOUT
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sends a GET with the gate's own rights; raises ApiError unless it succeeds."""
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

    async def watch_object(
        self, target: RequestedPods, key: str, accept: str, *, include_object: str = ""
    ) -> bytes | None:
        """Reads a pod in the media type that a client accepts, as the object of a watch event; None if the request does
        not include it."""
        params = target.pod_selectors(key)
        if include_object:
            params["includeObject"] = include_object
        # A watch names the media type of one object; this request is a list.
        forms = accept.replace("as=PartialObjectMetadata;", "as=PartialObjectMetadataList;")
        async with self.get_as_gate(target.collection, params, forms) as answer:
            found = msgspec.json.decode(await answer.read())
        if found.get("kind") == "Table":
            return msgspec.json.encode(_event_table(found)) if found.get("rows") else None
        items = found.get("items") or []
        if not items:
            return None
        kind, version = ("Pod", "v1")
        if found.get("kind") == "PartialObjectMetadataList":
            kind, version = "PartialObjectMetadata", "meta.k8s.io/v1"
        # Items of a list have no kind, objects of an event have one.
        return msgspec.json.encode({**items[0], "kind": kind, "apiVersion": version})

    async def pod(self, key: str) -> bytes | None:
        """Reads the pod in JSON; None if it does not exist."""
        namespace, _, name = key.partition("/")
        try:
            path = f"/api/v1/namespaces/{namespace}/pods/{name}"
            async with self.get_as_gate(path, {}, "application/json") as answer:
                return await answer.read()
        except errors.NotFound:
            return None


def _event_table(table: dict[str, Any]) -> dict[str, Any]:
    """Gives a list's Table the version of its object, as the Table of an event has it."""
    version = table["rows"][0]["object"]["metadata"]["resourceVersion"]
    return {**table, "metadata": {"resourceVersion": version}}
