"""Connections for calls: every way to send an answer, in every split; which connections are used again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from kubernetes.client import Configuration

from muster.kube import Access
from muster.kube.call_connections import CallConnections, HttpRequest
from muster.kube.http_connection import MAX_UNREAD_BYTES, HttpAnswer
from muster.store import errors

GET = HttpRequest("GET", "/api/v1/pods")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WITH_LENGTH = HEAD + b"Content-Length: 8\r\n\r\n" + b'{"a": 1}'
IN_CHUNKS = HEAD + b'Transfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n5;x=y\r\n": 1}\r\n0\r\n\r\n'
WITH_TRAILERS = IN_CHUNKS[:-2] + b"X-Later: 1\r\n\r\n"
AFTER_AN_INTERIM_ANSWER = b"HTTP/1.1 100 Continue\r\n\r\n" + WITH_LENGTH
UNTIL_THE_END = HEAD + b'\r\n{"a": 1}'
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """A server on loopback that handles each connection as it is configured; it keeps what it was sent."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.opened = 0

    async def __aenter__(self) -> CallConnections:
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        return CallConnections(Access(Configuration(host=f"http://127.0.0.1:{port}/k8s")), 1.0)

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            await self._talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def answering(answer: bytes, *, split: int = 0, end: bool = False) -> Talk:
    """Gives this answer to each request, in two pieces; `end`: closes the connection after it."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer[:split])
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(answer[split:])
            if end:
                return

    return talk


def asked(talk: Talk, times: int = 1, *, most: int = 1000, seconds: float = 2.0) -> tuple[list[HttpAnswer], int]:
    """Returns the answers, and how many connections were opened for them."""

    async def play() -> tuple[list[HttpAnswer], int]:
        server = Server(talk)
        async with server as calls, asyncio.timeout(10):
            found = [await calls.call(GET, "GET pods", seconds, most) for _ in range(times)]
            calls.close()
            return found, server.opened

    return asyncio.run(play())


@pytest.mark.parametrize(
    "answer", [WITH_LENGTH, IN_CHUNKS, WITH_TRAILERS, AFTER_AN_INTERIM_ANSWER],
    ids=["length", "chunks", "trailers", "interim"],
)  # fmt: skip
def test_an_answer_is_the_same_however_it_is_cut_and_its_connection_is_used_again(answer: bytes) -> None:
    async def play() -> list[int]:
        splits = iter(range(len(answer)))

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for split in splits:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer[:split])
                await writer.drain()
                await asyncio.sleep(0.001)
                writer.write(answer[split:])

        server = Server(talk)
        async with server as calls, asyncio.timeout(20):
            for _ in answer:
                got = await calls.call(GET, "GET pods", 2.0, 1000)
                assert got == HttpAnswer(200, None, b'{"a": 1}')
            calls.close()
        return [server.opened]

    assert asyncio.run(play()) == [1]


def test_a_body_without_a_length_ends_with_its_connection() -> None:
    assert asked(answering(UNTIL_THE_END, end=True), 2) == ([HttpAnswer(200, None, b'{"a": 1}')] * 2, 2)


def test_an_answer_without_a_body_leaves_the_connection_usable() -> None:
    talk = answering(b"HTTP/1.1 204 No Content\r\nRetry-After: 7\r\n\r\n")
    assert asked(talk, 3) == ([HttpAnswer(204, "7", b"")] * 3, 1)


def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    closing = WITH_LENGTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    assert asked(answering(closing), 2)[1] == 2
    assert asked(answering(WITH_LENGTH.replace(b"HTTP/1.1", b"HTTP/1.0")), 2)[1] == 2


def test_bytes_after_an_answer_are_nobodys_answer() -> None:
    answers, opened = asked(answering(WITH_LENGTH + b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"), 2)
    assert [answer.status for answer in answers] == [200, 200]
    assert opened == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        HEAD + b"Content-Length: eight\r\n\r\n",
        HEAD + b"Content-Length: -8\r\n\r\n",
        HEAD + b"Content-Length: 1_0\r\n\r\n",
        HEAD + b"Content-Length: 8\r\nContent-Length: 9\r\n\r\n",
        b"HTTP/1.1 +20 OK\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x5\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 20_000,
    ],
)
def test_what_is_no_http_answer_is_an_error_of_the_connection(answer: bytes) -> None:
    with pytest.raises(errors.Unreachable, match="not an HTTP answer") as caught:
        asked(answering(answer))
    assert caught.value.maybe_done


@pytest.mark.parametrize("answer", [WITH_LENGTH, IN_CHUNKS, UNTIL_THE_END], ids=["length", "chunks", "until the end"])
def test_an_answer_over_the_limit_is_refused(answer: bytes) -> None:
    with pytest.raises(errors.TooLarge):
        asked(answering(answer, end=True), most=7)


def test_a_call_that_timed_out_takes_its_connection_with_it() -> None:
    silent = True

    async def play() -> tuple[HttpAnswer, int]:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                if not silent:
                    writer.write(WITH_LENGTH)

        nonlocal silent
        server = Server(talk)
        async with server as calls, asyncio.timeout(5):
            with pytest.raises(errors.TimedOut):
                await calls.call(GET, "GET pods", 0.1, 1000)
            silent = False
            answer = await calls.call(GET, "GET pods", 1.0, 1000)
            calls.close()
        return answer, server.opened

    assert asyncio.run(play()) == (HttpAnswer(200, None, b'{"a": 1}'), 2)


def test_a_path_cannot_add_a_header_and_the_hosts_path_comes_first() -> None:
    sent: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(WITH_LENGTH)
        await reader.read()

    async def play() -> None:
        async with Server(talk) as calls, asyncio.timeout(5):
            await calls.call(HttpRequest("GET", "/pods/a b\r\nX: ü", "limit=5"), "GET pods", 1.0, 1000)
            calls.close()

    asyncio.run(play())
    assert sent[0].startswith(b"GET /k8s/pods/a%20b%0D%0AX:%20%C3%BC?limit=5 HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nX:" not in sent[0]


# --- streams


def streamed(talk: Talk, *, silence: float = 2.0, interval: float = 0.0) -> tuple[HttpAnswer, list[bytes]]:
    """Returns the answer and the parts of its body."""

    async def play() -> tuple[HttpAnswer, list[bytes]]:
        async with (
            asyncio.timeout(10), Server(talk) as calls,
            calls.stream(GET, "GET pods", silence, 1000, interval) as (answer, parts),
        ):  # fmt: skip
            return answer, [part async for part in parts] if answer.status == 200 else []

    return asyncio.run(play())


@pytest.mark.parametrize("answer", [IN_CHUNKS, WITH_TRAILERS, UNTIL_THE_END], ids=["chunks", "trailers", "until end"])
def test_a_stream_has_the_same_bytes_however_it_is_cut(answer: bytes) -> None:
    for split in range(len(answer)):
        answered, parts = streamed(answering(answer, split=split, end=True))
        assert (answered.status, b"".join(parts)) == (200, b'{"a": 1}')


def test_what_arrives_shortly_after_a_part_is_taken_together() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(200):
            writer.write(b"3\r\nab\n\r\n")
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")

    _, parts = streamed(talk, interval=0.02)
    assert b"".join(parts) == b"ab\n" * 200
    assert len(parts) < 100
    _, at_once = streamed(talk)
    assert b"".join(at_once) == b"ab\n" * 200
    assert len(at_once) > len(parts)


def test_a_stream_larger_than_the_buffer_of_unread_bytes_is_complete() -> None:
    size = 3 * MAX_UNREAD_BYTES
    body = b"%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n"

    async def play() -> int:
        talk = answering(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body, end=True)
        async with (
            asyncio.timeout(10), Server(talk) as calls, calls.stream(GET, "GET pods", 2.0, 2 * size) as (_, parts)
        ):  # fmt: skip
            await asyncio.sleep(0.1)
            return sum([len(part) async for part in parts])

    assert asyncio.run(play()) == size


def test_a_stream_that_is_cut_or_falls_silent_is_an_error() -> None:
    with pytest.raises(errors.Unreachable, match="closed the connection"):
        streamed(answering(IN_CHUNKS[:-5], end=True))
    with pytest.raises(errors.TimedOut, match=r"nothing arrived for 0\.1 s"):
        streamed(answering(IN_CHUNKS[:-5]), silence=0.1)
    with pytest.raises(errors.TimedOut):
        streamed(answering(b""), silence=0.1)
    with pytest.raises(errors.Unreachable, match="not an HTTP answer"):
        streamed(answering(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n"))


def test_a_refused_stream_has_the_reason_in_its_answer() -> None:
    refused = WITH_LENGTH.replace(b"200 OK", b"410 Gone")
    assert streamed(answering(refused))[0] == HttpAnswer(410, None, b'{"a": 1}')
