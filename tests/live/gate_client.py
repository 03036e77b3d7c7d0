"""A client that only ever sees the edge gate: it lists and watches as Go's reflectors do, and keeps what it heard."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import quote, urlencode

from live.api import Plain

PODS = "/api/v1/pods"


class GateClient:
    """`state` is what a replay of the events so far gives: pod → its resourceVersion."""

    def __init__(self, port: int, ca: Path, token: str, path: str = PODS, **query: str) -> None:
        self._port, self._token, self._path, self._query = port, token, path, query
        self._tls = ssl.create_default_context(cafile=str(ca))
        self.accept = "application/json"
        self.state: dict[str, str] = {}
        self.events: list[tuple[str, str]] = []
        self.relists = 0
        self.stumbles: list[str] = []
        self._version = ""
        self._stop = threading.Event()
        self._socket: HTTPSConnection | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> GateClient:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.hang_up()
        self._thread.join(10)

    def hang_up(self) -> None:
        """The connection is cut; the client goes on from the last version it heard of."""
        if self._socket is not None and self._socket.sock is not None:
            with contextlib.suppress(OSError):
                self._socket.sock.shutdown(2)

    def listed(self) -> dict[str, str]:
        """What it would see if it listed now."""
        return self._list()[0]

    def ask(self, path: str, accept: str = "", **query: str) -> tuple[int, Plain, str]:
        """One GET: status, body, content type."""
        connection = self._connected()
        try:
            connection.request("GET", _url(path, query), headers=self._headers(accept or self.accept))
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), answer.headers.get("Content-Type", "")
        finally:
            connection.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._version:
                    found, self._version = self._list()
                    self.state = found
                    self.relists += 1
                self._watch()
            except (OSError, HTTPException, ValueError, AttributeError) as fault:
                # Python's TLS sockets lose their inside when another thread shuts them.
                self.stumbles.append(repr(fault))

    def _list(self) -> tuple[dict[str, str], str]:
        status, body, _ = self.ask(self._path, **self._query)
        if status != 200:
            raise HTTPException(str(body))
        return dict(map(_name_and_version, body["items"] or [])), body["metadata"]["resourceVersion"]

    def _watch(self) -> None:
        connection = self._socket = self._connected()
        try:
            query = {**self._query, "watch": "1", "resourceVersion": self._version, "allowWatchBookmarks": "true"}
            connection.request("GET", _url(self._path, query), headers=self._headers(self.accept.replace("List;", ";")))
            answer = connection.getresponse()
            if answer.status != 200:
                raise HTTPException(answer.read().decode())
            while line := answer.readline():
                self._take(json.loads(line))
                if not self._version:
                    return
        finally:
            connection.close()

    def _take(self, event: Plain) -> None:
        kind, obj = event["type"], event["object"]
        if kind == "ERROR":
            self._version = ""
            return
        if kind != "BOOKMARK":
            name, version = _name_and_version(obj)
            self.events.append((kind, name))
            if kind == "DELETED":
                self.state.pop(name, None)
            else:
                self.state[name] = version
        self._version = obj["metadata"]["resourceVersion"]

    def _connected(self) -> HTTPSConnection:
        return HTTPSConnection("127.0.0.1", self._port, timeout=30, context=self._tls)

    def _headers(self, accept: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "Accept": accept}


def _name_and_version(obj: Plain) -> tuple[str, str]:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}", meta["resourceVersion"]


def _url(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query, quote_via=quote)}" if query else path
