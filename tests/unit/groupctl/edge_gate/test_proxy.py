"""The gate over HTTP, before an API server with planned responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from builders.node_groups import REQUIRED, bound, deployment, owner
from fakes.faulty_api import FaultyApi, raw, refuse, reply, run, until
from muster.groupctl.edge_gate.change_log import ChangeLog, LogEntry
from muster.groupctl.edge_gate.connections import Connections, Exchange
from muster.groupctl.edge_gate.metrics import Metrics
from muster.groupctl.edge_gate.proxy import Proxy
from muster.groupctl.edge_gate.upstream import Upstream
from muster.groupctl.edge_gate.visibility import PodVisibility
from muster.groupctl.owners import OwnerResolver
from muster.model.meta import Object
from muster.store import NotFound

PODS = "/api/v1/namespaces/default/pods"
TOKEN = {"Authorization": "Bearer abc"}
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Gate:
    """The gate, its tables, and a client of it."""

    def __init__(self, port: int, changes: ChangeLog, tables: dict[str, dict[str, Object]]) -> None:
        self.port, self.changes, self.tables = port, changes, tables
        self.wrong = ""
        self.metrics = Metrics()

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


def story(play: Callable[[FaultyApi, Gate], Coroutine[Any, Any, None]]) -> None:
    async def playing(api: FaultyApi) -> None:
        tables: dict[str, dict[str, Object]] = {}

        async def missing(kind: type[Object], key: str) -> Object:
            raise NotFound.of(kind.__name__, key)

        changes, metrics = ChangeLog(), Metrics()
        async with Upstream(api.access("gates-own")) as upstream:
            visibility = PodVisibility(OwnerResolver(tables, missing), fetch_pod=upstream.pod)
            proxy = Proxy(upstream, visibility, changes, lambda: gate.wrong, metrics, api.report.append)
            connections = Connections(proxy.handle, api.report.append, metrics)
            listening = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
            gate = Gate(listening.sockets[0].getsockname()[1], changes, tables)
            gate.metrics = metrics
            try:
                await play(api, gate)
            finally:
                listening.close()
                await connections.shutdown()

    run(playing)


def owned_pod(name: str, of: str = "nginx-1", version: int = 5) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "resourceVersion": str(version), **owner("ReplicaSet", of)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta}


def pods(*items: dict[str, Any], version: str = "10") -> dict[str, Any]:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": list(items)}


def free() -> list[Object]:
    return deployment(bound())


def waiting() -> list[Object]:
    return deployment({REQUIRED: "pp"})


def test_other_requests_go_through_with_body_headers_and_answer_unchanged() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
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
    async def play(api: FaultyApi, gate: Gate) -> None:
        gate.put(*waiting())
        api.plan("GET", PODS, reply(pods(owned_pod("held"), owned_pod("other", of="nobody"))))
        headers = {**TOKEN, "Accept": "application/vnd.kubernetes.protobuf", "Accept-Encoding": "gzip"}
        status, body = await gate.get(PODS, headers=headers)
        assert status == 200
        assert [item["metadata"]["name"] for item in body["items"]] == ["other"]
        asked = api.asked[-1].headers
        assert (asked["Accept"], asked["Accept-Encoding"], asked["Authorization"]) == (
            "application/json", "identity", "Bearer abc",
        )  # fmt: skip
        assert gate.changes.latest_sent == 10

    story(play)


def test_a_refusal_of_the_api_server_is_passed_on() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        api.plan("GET", PODS, refuse(403, "Forbidden", "no"))
        api.plan("WATCH", PODS, refuse(403, "Forbidden", "no"))
        assert (await gate.get(PODS))[0] == 403
        assert (await gate.get(f"{PODS}?watch=1"))[0] == 403

    story(play)


def test_no_response_asks_for_a_token_and_none_comes_too_early() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        status, body = await gate.get("/api/v1/nodes", headers={})
        assert status == 401 and "bearer tokens only" in body["message"]
        gate.wrong = "the applications have not been read yet"
        status, body = await gate.get(PODS)
        assert status == 503 and "not been read yet" in body["message"]
        assert api.asked == []

    story(play)


def test_a_list_that_was_cut_short_is_not_taken_for_whole() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        api.plan("GET", PODS, raw(json.dumps(pods(owned_pod("a"), owned_pod("b"))).encode()[:-40]))
        with pytest.raises(aiohttp.ClientError):
            await gate.get(PODS)

    story(play)


def test_a_held_pod_is_not_found() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        gate.put(*waiting())
        api.plan("GET", f"{PODS}/x", reply(owned_pod("x")))
        status, body = await gate.get(f"{PODS}/x")
        assert (status, body["reason"], body["details"]["name"]) == (404, "NotFound", "x")
        gate.put(*free())
        assert (await gate.get(f"{PODS}/x"))[1] == owned_pod("x")

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


def test_a_release_is_reported_in_the_middle_of_a_watch_and_a_bookmark_follows() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        gate.put(*waiting())
        api.plan("WATCH", PODS, watching({"type": "ADDED", "object": owned_pod("a", version=12)}))
        api.plan("GET", PODS, reply(pods()), reply(pods(owned_pod("a", version=12))))
        url = f"{PODS}?watch=1&resourceVersion=10&allowWatchBookmarks=true&labelSelector=x"
        async with gate.ask("GET", url) as answer:
            await until(lambda: gate.changes.latest_sent == 12)
            gate.put(*free())
            gate.changes.add([LogEntry("default/a", epoch=gate.changes.start_epoch())], "13")
            first, then = [json.loads(await answer.content.readline()) for _ in range(2)]
        assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
        assert (then["type"], then["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", "12")
        fetched = api.asked[-1]
        assert fetched.headers["Authorization"] == "Bearer gates-own"
        assert fetched.query == {
            "labelSelector": "x", "fieldSelector": "metadata.name=a,metadata.namespace=default",
        }  # fmt: skip

    story(play)


def test_a_pod_that_is_held_since_the_clients_list_is_deleted_for_it() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        gate.put(*waiting())
        events = [{"type": "MODIFIED", "object": owned_pod(name, version=at)} for name, at in (("a", 12), ("old", 13))]
        api.plan("WATCH", PODS, watching(*events, {"type": "ADDED", "object": owned_pod("new", version=14)}))
        # As they are when the watch begins: the client listed at version 10.
        now = [owned_pod(name, version=at) for name, at in (("a", 12), ("old", 9), ("new", 14))]
        api.plan("GET", PODS, reply(pods(*now)))
        async with gate.ask("GET", f"{PODS}?watch=1&resourceVersion=10") as answer:
            event = json.loads(await answer.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("DELETED", "a")
            await until(lambda: gate.changes.latest_sent == 14)
            gate.put(*free())
            gate.changes.add([LogEntry("default/new", epoch=gate.changes.start_epoch())], "15")
            api.plan("GET", PODS, reply(pods(owned_pod("new", version=14))))
            event = json.loads(await answer.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "new")

    story(play)


def test_a_watch_from_before_the_log_is_expired() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        gate.changes.start_at(100)
        api.plan("WATCH", PODS, watching())
        status, event = await gate.get(f"{PODS}?watch=1&resourceVersion=99")
        assert (status, event["type"], event["object"]["code"], event["object"]["reason"]) == (
            200, "ERROR", 410, "Expired",
        )  # fmt: skip

    story(play)


def test_a_client_that_leaves_takes_its_watch_with_it() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        api.plan("WATCH", PODS, watching({"type": "ADDED", "object": owned_pod("a", version=12)}))
        async with gate.ask("GET", f"{PODS}?watch=1") as answer:
            assert json.loads(await answer.content.readline())["type"] == "ADDED"
            assert len(gate.changes._readers) == 1
        await until(lambda: not gate.changes._readers)

    story(play)


def test_a_pod_that_was_sent_stays_visible_and_one_that_was_not_is_held() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        gate.put(*free())
        seen, other = owned_pod("seen"), owned_pod("other")
        started = {**owned_pod("started"), "status": {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}}
        for one in (seen, other, started):
            one["metadata"]["uid"] = f"uid of {one['metadata']['name']}"
        api.plan("GET", PODS, reply(pods(seen)), reply(pods(seen, other, started)))
        assert len((await gate.get(PODS))[1]["items"]) == 1
        gate.put(*waiting())
        items = (await gate.get(PODS))[1]["items"]
        assert [item["metadata"]["name"] for item in items] == ["seen", "started"]

    story(play)


def test_the_status_is_asked_for_once_where_only_metadata_is_at_hand() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        gate.put(*waiting())
        running = {**owned_pod("running"), "status": {"phase": "Running"}}
        pending = owned_pod("pending")
        for one in (running, pending):
            one["metadata"]["uid"] = one["metadata"]["name"]
            api.plan("GET", f"{PODS}/{one['metadata']['name']}", reply(one))
        partial = [{"metadata": one["metadata"]} for one in (running, pending)]
        listed = {**pods(*partial), "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        api.plan("GET", PODS, reply(listed), reply(listed))
        for _ in range(2):
            items = (await gate.get(PODS))[1]["items"]
            assert [item["metadata"]["name"] for item in items] == ["running"]
        assert len(api.asked) == 4

    story(play)


@pytest.mark.parametrize("method", ["PATCH", "PUT", "DELETE"])
def test_a_held_pod_cannot_be_read_by_writing_to_it(method: str) -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        gate.put(*waiting())
        api.plan("GET", f"{PODS}/x", reply(owned_pod("x")))
        async with gate.ask(method, f"{PODS}/x/status?dryRun=All", data="{}") as got:
            assert got.status == 404
        api.plan("GET", "/apis", refuse(401, "Unauthorized", "who?"))
        async with gate.ask(method, f"{PODS}/x/status?dryRun=All", data="{}") as got:
            assert got.status == 401
        assert {one.method for one in api.asked} == {"GET"}

    story(play)


def test_an_announced_body_that_never_arrives_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.groupctl.edge_gate.connections.GET_BODY_TIMEOUT_S", 0.2)
    monkeypatch.setattr("muster.groupctl.edge_gate.connections.BODY_TIMEOUT_S", 0.2)

    async def play(api: FaultyApi, gate: Gate) -> None:
        for request in (f"GET {PODS}", "GET /version", "POST /apis/x/v1/things"):
            reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
            head = f"{request} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nContent-Length: 5\r\n\r\n12"
            writer.write(head.encode())
            got = await asyncio.wait_for(reader.read(), 10)
            assert got.startswith(b"HTTP/1.1 408 "), (request, got)
            writer.close()

    story(play)


def test_requests_of_one_connection_are_answered_one_after_the_other() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        api.plan("GET", "/apis", reply({"n": 1}), reply({"n": 2}))
        reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        one = b"GET /apis HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\n"
        writer.write(one + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + one + b"A: b\n\r\n\r\n")
        got = await asyncio.wait_for(reader.read(), 10)
        assert got.count(b"HTTP/1.1 200 ") == 1 and got.count(b"HTTP/1.1 400 ") == 1
        writer.close()

    story(play)


def test_a_client_that_does_not_read_its_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.groupctl.edge_gate.connections.WRITE_TIMEOUT_S", 0.3)

    async def play(api: FaultyApi, gate: Gate) -> None:
        api.plan("GET", "/apis", raw(b"x" * 40_000_000))
        _, writer = await asyncio.open_connection("127.0.0.1", gate.port, limit=1)
        writer.write(b"GET /apis HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\n\r\n")
        await until(lambda: gate.metrics.registry.get_sample_value("muster_gate_connections") == 1)
        await until(lambda: gate.metrics.registry.get_sample_value("muster_gate_connections") == 0)
        writer.close()

    story(play)


def test_refusals_are_counted_and_connections_limited() -> None:
    async def play(api: FaultyApi, gate: Gate) -> None:
        assert (await gate.get("/api/v1//pods"))[0] == 400
        assert gate.metrics.registry.get_sample_value("muster_gate_refused_total", {"code": "400"}) == 1

        async def handle(exchange: Exchange) -> None:
            raise AssertionError

        connections = Connections(handle, api.report.append, Metrics(), limit=1)
        listening = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
        at = listening.sockets[0].getsockname()
        first = await asyncio.open_connection(*at)
        second = await asyncio.open_connection(*at)
        with suppress(ConnectionError):
            assert await second[0].read() == b""
        assert api.report == ["a connection was refused: 1 are open"]
        first[1].close()
        second[1].close()
        listening.close()
        await connections.shutdown()

    story(play)
