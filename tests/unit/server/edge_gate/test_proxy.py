"""The gate over HTTP, before an API server that answers as it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from awkward_api import AwkwardApi, give, raw, refuse, run, until
from muster.model.meta import Object
from muster.server.edge_gate.changes import Change, Changes
from muster.server.edge_gate.door import Door
from muster.server.edge_gate.metrics import Metrics
from muster.server.edge_gate.proxy import Proxy
from muster.server.edge_gate.upstream import Upstream
from muster.server.edge_gate.verdicts import Verdicts
from muster.server.owners import Owners
from muster.store import NotFound
from node_groups import REQUIRED, bound, deployment, owner

PODS = "/api/v1/namespaces/default/pods"
TOKEN = {"Authorization": "Bearer abc"}
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Gate:
    """The gate, its tables, and a client of it."""

    def __init__(self, port: int, changes: Changes, tables: dict[str, dict[str, Object]]) -> None:
        self.port, self.changes, self.tables = port, changes, tables
        self.wrong = ""

    def put(self, *objects: Object) -> None:
        for obj in objects:
            self.tables.setdefault(type(obj).__name__, {})[f"default/{obj.metadata.name}"] = obj

    @asynccontextmanager
    async def ask(self, method: str, path: str, **more: Any) -> AsyncIterator[aiohttp.ClientResponse]:
        more.setdefault("headers", TOKEN)
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(method, f"http://127.0.0.1:{self.port}{path}", **more) as answer,
        ):
            yield answer

    async def get(self, path: str, **more: Any) -> tuple[int, Any]:
        async with self.ask("GET", path, **more) as answer:
            text = await answer.read()
            return answer.status, json.loads(text) if text[:1] in b"{[" else text


def story(play: Callable[[AwkwardApi, Gate], Coroutine[Any, Any, None]]) -> None:
    async def playing(api: AwkwardApi) -> None:
        tables: dict[str, dict[str, Object]] = {}

        async def missing(kind: type[Object], key: str) -> Object:
            raise NotFound(kind.__name__, key)

        changes, metrics = Changes(), Metrics()
        async with Upstream(api.access("gates-own")) as upstream:
            verdicts = Verdicts(Owners(tables, missing))
            proxy = Proxy(upstream, verdicts, changes, lambda: gate.wrong, metrics, api.report.append)
            server = web.Server(proxy.handle, handler_cancellation=True, access_log=None)
            loop = asyncio.get_running_loop()
            listening = await loop.create_server(lambda: Door(server, upstream, metrics), "127.0.0.1", 0)
            gate = Gate(listening.sockets[0].getsockname()[1], changes, tables)
            try:
                await play(api, gate)
            finally:
                listening.close()
                await server.shutdown(0.1)

    run(playing)


def pod(name: str, of: str = "nginx-1", version: int = 5) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "resourceVersion": str(version), **owner("ReplicaSet", of)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta}


def pods(*items: dict[str, Any], version: str = "10") -> dict[str, Any]:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": list(items)}


def free() -> list[Object]:
    return deployment(bound())


def waiting() -> list[Object]:
    return deployment({REQUIRED: "pp"})


def test_other_requests_go_through_with_body_headers_and_answer_unchanged() -> None:
    async def play(api: AwkwardApi, gate: Gate) -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.Response(body=b"\x00packed", status=201, headers={"Content-Encoding": "gzip", "X-Their": "1"})

        api.plan("POST", "/apis/x/v1/things", answer)
        body = json.dumps({"a": "x" * 300_000})
        headers = {**TOKEN, "X-Remote-User": "root", "Content-Type": "application/json"}
        async with gate.ask("POST", "/apis/x/v1/things?dryRun=All&b=%2Fc", data=body, headers=headers) as got:
            assert (got.status, await got.read()) == (201, b"\x00packed")
            assert (got.headers["Content-Encoding"], got.headers["X-Their"]) == ("gzip", "1")
        asked = api.asked[-1]
        assert asked.body == json.loads(body)
        assert asked.query == {"dryRun": "All", "b": "/c"}
        assert asked.headers["Authorization"] == "Bearer abc"
        assert "X-Remote-User" not in asked.headers

    story(play)


def test_a_list_is_asked_for_as_json_in_the_clients_name_and_filtered() -> None:
    async def play(api: AwkwardApi, gate: Gate) -> None:
        gate.put(*waiting())
        api.plan("GET", PODS, give(pods(pod("held"), pod("other", of="nobody"))))
        headers = {**TOKEN, "Accept": "application/vnd.kubernetes.protobuf", "Accept-Encoding": "gzip"}
        status, body = await gate.get(PODS, headers=headers)
        assert status == 200
        assert [item["metadata"]["name"] for item in body["items"]] == ["other"]
        asked = api.asked[-1].headers
        assert (asked["Accept"], asked["Accept-Encoding"], asked["Authorization"]) == (
            "application/json", "identity", "Bearer abc",
        )  # fmt: skip
        assert gate.changes.handed == 10

    story(play)


def test_a_refusal_of_the_api_server_is_passed_on() -> None:
    async def play(api: AwkwardApi, gate: Gate) -> None:
        api.plan("GET", PODS, refuse(403, "Forbidden", "no"))
        api.plan("WATCH", PODS, refuse(403, "Forbidden", "no"))
        assert (await gate.get(PODS))[0] == 403
        assert (await gate.get(f"{PODS}?watch=1"))[0] == 403

    story(play)


def test_nobody_is_told_to_use_a_token_and_no_answer_is_given_too_early() -> None:
    async def play(api: AwkwardApi, gate: Gate) -> None:
        status, body = await gate.get("/api/v1/nodes", headers={})
        assert status == 401 and "bearer tokens only" in body["message"]
        gate.wrong = "the applications have not been read yet"
        status, body = await gate.get(PODS)
        assert status == 503 and "not been read yet" in body["message"]
        assert api.asked == []

    story(play)


def test_a_list_that_was_cut_short_is_not_taken_for_whole() -> None:
    async def play(api: AwkwardApi, gate: Gate) -> None:
        api.plan("GET", PODS, raw(json.dumps(pods(pod("a"), pod("b"))).encode()[:-40]))
        with pytest.raises(aiohttp.ClientError):
            await gate.get(PODS)

    story(play)


def test_a_held_pod_is_not_found() -> None:
    async def play(api: AwkwardApi, gate: Gate) -> None:
        gate.put(*waiting())
        api.plan("GET", f"{PODS}/x", give(pod("x")))
        status, body = await gate.get(f"{PODS}/x")
        assert (status, body["reason"], body["details"]["name"]) == (404, "NotFound", "x")
        gate.put(*free())
        assert (await gate.get(f"{PODS}/x"))[1] == pod("x")

    story(play)


def watching(*lines: dict[str, Any]) -> Answer:
    """A watch that says so much and then stays open."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for line in lines:
            await response.write(json.dumps(line).encode() + b"\n")
        await asyncio.sleep(60)
        return response

    return answer


def test_a_release_is_told_in_the_middle_of_a_watch_and_a_bookmark_follows() -> None:
    async def play(api: AwkwardApi, gate: Gate) -> None:
        gate.put(*waiting())
        api.plan("WATCH", PODS, watching({"type": "ADDED", "object": pod("a", version=12)}))
        api.plan("GET", PODS, give(pods()), give(pods(pod("a", version=12))))
        url = f"{PODS}?watch=1&resourceVersion=10&allowWatchBookmarks=true&labelSelector=x"
        async with gate.ask("GET", url) as answer:
            await until(lambda: gate.changes.handed == 12)
            gate.put(*free())
            gate.changes.add([Change("default/a", turn=gate.changes.turned())], "13")
            first, then = [json.loads(await answer.content.readline()) for _ in range(2)]
        assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
        assert (then["type"], then["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", "12")
        fetched = api.asked[-1]
        assert fetched.headers["Authorization"] == "Bearer gates-own"
        assert fetched.query == {
            "labelSelector": "x", "fieldSelector": "metadata.name=a,metadata.namespace=default",
        }  # fmt: skip

    story(play)


def test_a_watch_from_before_the_log_is_expired() -> None:
    async def play(api: AwkwardApi, gate: Gate) -> None:
        gate.changes.begin(100)
        api.plan("WATCH", PODS, watching())
        status, event = await gate.get(f"{PODS}?watch=1&resourceVersion=99")
        assert (status, event["type"], event["object"]["code"], event["object"]["reason"]) == (
            200, "ERROR", 410, "Expired",
        )  # fmt: skip

    story(play)


def test_a_client_that_leaves_takes_its_watch_with_it() -> None:
    async def play(api: AwkwardApi, gate: Gate) -> None:
        api.plan("WATCH", PODS, watching({"type": "ADDED", "object": pod("a", version=12)}))
        async with gate.ask("GET", f"{PODS}?watch=1") as answer:
            assert json.loads(await answer.content.readline())["type"] == "ADDED"
            assert len(gate.changes._readers) == 1
        await until(lambda: not gate.changes._readers)

    story(play)


def test_an_upgrade_is_a_tunnel_for_whatever_follows() -> None:
    async def far_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Upgrade: SPDY/3.1" in head and b"X-Remote-User" not in head
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        writer.write((await reader.readexactly(5))[::-1])
        writer.close()

    async def play(api: AwkwardApi, gate: Gate) -> None:
        server = await asyncio.start_server(far_end, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        api.host = f"http://127.0.0.1:{port}"
        async with Upstream(api.access()) as upstream:
            loop = asyncio.get_running_loop()
            door = await loop.create_server(lambda: Door(asyncio.Protocol, upstream, Metrics()), "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*door.sockets[0].getsockname())
            writer.write(
                b"POST /api/v1/namespaces/d/pods/x/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer abc\r\n"
                b"X-Remote-User: root\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n12"
            )
            writer.write(b"345")
            assert await reader.read() == b"HTTP/1.1 101 Switching Protocols\r\n\r\n54321"
            writer.close()
            door.close()
        server.close()

    story(play)
