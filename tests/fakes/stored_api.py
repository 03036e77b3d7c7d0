"""A small API server on loopback that stores objects: it serves the versions that a test names, and no others.

It lists, watches, patches, binds and evicts, which is what the scheduler does. It is for versions of Kubernetes' APIs
that no control plane here serves.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from aiohttp import web

from muster.model.merge_patch import merged

Plain = dict[str, Any]
_CORE = ("v1/nodes", "v1/pods", "v1/namespaces")


class StoredApi:
    """`with StoredApi(["scheduling.k8s.io/v1beta1/podgroups"], folder) as api`: it runs in a thread of its own."""

    def __init__(self, served: Iterable[str], folder: Path) -> None:
        """`served`: group, version and plural of what there is besides nodes, pods and namespaces."""
        self._tables: dict[str, dict[str, Plain]] = {name: {} for name in (*_CORE, *served)}
        self._log: list[tuple[int, str, Plain]] = []  # version, resource, event
        self._version = 1
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self.kubeconfig = folder / "kubeconfig"
        self.missing: list[str] = []  # paths that were asked for and are not served

    def __enter__(self) -> StoredApi:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None and self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    # --- for tests

    def put(self, resource: str, obj: Plain, event: str = "ADDED") -> None:
        """Stores an object, as if somebody had created it."""
        meta = obj["metadata"]
        key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        with self._lock:
            self._version += 1
            meta.setdefault("uid", f"uid-{resource}-{key}")
            stored = {**obj, "metadata": {**meta, "resourceVersion": str(self._version)}}
            if event == "DELETED":
                self._tables[resource].pop(key, None)
            else:
                self._tables[resource][key] = stored
            self._log.append((self._version, resource, {"type": event, "object": stored}))

    def get(self, resource: str, key: str) -> Plain:
        return self._tables[resource][key]

    def all(self, resource: str) -> list[Plain]:
        return list(self._tables[resource].values())

    # --- the server

    async def _serve(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        here = {"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}
        context = {"name": "x", "context": {"cluster": "x", "user": "x"}}
        config = {"clusters": [here], "contexts": [context], "users": [{"name": "x", "user": {}}]}
        self.kubeconfig.write_text(json.dumps({**config, "current-context": "x"}))
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.read()
        body = json.loads(text) if text else {}
        if request.path.endswith("selfsubjectaccessreviews"):
            return web.json_response({**body, "status": {"allowed": True}}, status=201)
        if request.path.endswith("/events") and request.method == "POST":
            return web.json_response(body, status=201)
        resource, key, sub = _parts(request.path)
        if resource not in self._tables:
            self.missing.append(request.path)
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        if not key:
            return await self._watched(request, resource) if "watch" in request.query else self._listed(resource)
        if key not in self._tables[resource]:
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        return self._changed(request.method, resource, key, sub, body)

    def _listed(self, resource: str) -> web.Response:
        with self._lock:
            items = [{k: v for k, v in one.items() if k not in ("apiVersion", "kind")} for one in self.all(resource)]
            answer = {"metadata": {"resourceVersion": str(self._version)}, "items": items}
        return web.json_response(answer)

    async def _watched(self, request: web.Request, resource: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        since = int(request.query.get("resourceVersion") or 0)
        assert self._stop is not None
        while not self._stop.is_set():
            for version, about, event in list(self._log):
                if about == resource and version > since:
                    since = version
                    await response.write(json.dumps(event).encode() + b"\n")
            await asyncio.sleep(0.02)
        return response

    def _changed(self, method: str, resource: str, key: str, sub: str, body: Mapping[str, Any]) -> web.Response:
        old = self._tables[resource][key]
        if method == "GET":
            return web.json_response(old)
        if sub == "eviction" or method == "DELETE":
            self.put(resource, old, "DELETED")
            return web.json_response({"kind": "Status", "status": "Success"}, status=201)
        if sub == "binding":
            new = merged(old, {"spec": {"nodeName": body["target"]["name"]}, "status": {"phase": "Running"}})
        else:
            new = merged(old, body)
        self.put(resource, new, "MODIFIED")
        return web.json_response(self._tables[resource][key], status=201 if sub == "binding" else 200)


def _parts(path: str) -> tuple[str, str, str]:
    """Group, version and plural; the key; the subresource."""
    parts = path.strip("/").split("/")
    root = parts[1:2] if parts[0] == "api" else parts[1:3]
    rest = parts[1 + len(root) :]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    plural, name, sub = (*rest, "", "", "")[:3]
    key = f"{namespace}/{name}" if namespace and name else name
    return "/".join([*root, plural]), key, sub
