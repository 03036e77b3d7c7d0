"""Sends hostile requests to a listener and says which invariants an answer violates."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from live.hostile.corpus import Case, Words
from live.part_process import Part

AT_ONCE = 6
_ANSWER = re.compile(rb"(?:^|\n|\})HTTP/1\.[01] ([2-9]\d\d)")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PUBLIC = ("/version", "/healthz", "/livez", "/readyz")
SILENCE_TIMEOUT_S = 3.0
OVER_S = 0.3


@dataclass(frozen=True)
class Listener:
    """A port that strangers can reach. `tls` and `credentials` are by who sends: certificate, token, anybody, nobody.

    `legitimate` is a request that must work after every hostile one. `authenticates`: nobody gets an answer without
    credentials. `forwards`: it is a proxy, so a second request must not hide behind the first. `ends_s`: within so many
    seconds it closes the connection of a client that stops in the middle.
    """

    name: str
    part: Part
    port: int
    path: str
    legitimate: bytes
    tls: Mapping[str, ssl.SSLContext]
    credentials: Mapping[str, str]
    memory_mib: int
    authenticates: bool = True
    forwards: bool = False
    ends_s: float | None = None


@dataclass(frozen=True)
class Secrets:
    """What no answer may contain: texts, and the names that only a request may say first."""

    texts: tuple[bytes, ...]
    names: tuple[bytes, ...]


@dataclass(frozen=True)
class Answer:
    data: bytes
    closed: bool

    @property
    def codes(self) -> list[int]:
        return [int(code) for code in _ANSWER.findall(self.data)]


async def play(
    listener: Listener, found: Iterable[Case], words: Words, secrets: Secrets, sender: str = ""
) -> list[str]:
    """What was wrong, by request. `sender` replaces who sends."""
    wrong: list[str] = []
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(case: Case) -> None:
        async with limit if not case.waits else contextlib.nullcontext():
            who = sender or case.sender
            sent = case.sent(words.texts, listener.credentials.get(who, ""))
            answer = await ask(listener, who, sent, case)
            wrong.extend(f"{case.name}: {fault}" for fault in _faults(listener, case, who, sent, answer, secrets))
        if not case.waits:
            legitimate = await ask(listener, "anybody", listener.legitimate)
            if legitimate.codes != [200]:
                wrong.append(f"{case.name}: afterwards a legitimate request is answered {legitimate.data[:200]!r}")

    await asyncio.gather(*(one(case) for case in found))
    if not listener.part.running:
        wrong.append("the process has ended")
    elif peak_mib(listener.part.pid) > listener.memory_mib:
        wrong.append(f"the process took {peak_mib(listener.part.pid)} MiB")
    return wrong


def _faults(
    listener: Listener, case: Case, who: str, sent: bytes, answer: Answer, secrets: Secrets
) -> Iterable[str]:
    message = f"is answered {answer.data[:300]!r}"
    # Some values of a resourceVersion are answered 500 by the API server itself, which then says its Audit-Id.
    if any(code in (500, 502) for code in answer.codes) and b"Audit-Id" not in answer.data:
        yield f"{message}: a failure of the listener"
    if listener.forwards and len(answer.codes) > case.answers:
        yield f"{message}: {len(answer.codes)} answers"
    if any(text in answer.data for text in secrets.texts):
        yield f"{message}: what must stay secret"
    if any(name in answer.data and name not in sent for name in secrets.names):
        yield f"{message}: the name of a held pod"
    succeeded = any(code < 300 for code in answer.codes)
    if listener.forwards and case.refuse and succeeded:
        yield f"{message}: it was to be refused"
    if listener.authenticates and who == "nobody" and succeeded and not _is_public(sent):
        yield f"{message}: success without credentials"
    if case.waits and listener.ends_s is not None and not answer.closed:
        yield f"the connection is open after {listener.ends_s:g} s"


def _is_public(sent: bytes) -> bool:
    return any(f" {path}".encode() in sent.partition(b"\r\n")[0] for path in _PUBLIC)


async def ask(listener: Listener, who: str, sent: bytes, case: Case | None = None) -> Answer:
    """Everything that comes back until the listener closes the connection or sends nothing."""
    waits = case is not None and case.waits
    timeout_s = (listener.ends_s or SILENCE_TIMEOUT_S) if waits else SILENCE_TIMEOUT_S if case is not None else 30.0
    data, writer = b"", None
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):  # ssl.SSLError is an OSError
        tls = listener.tls.get(who)
        name = "127.0.0.1" if tls is not None else None
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=tls, server_hostname=name)
        sending = asyncio.create_task(_send(writer, sent, case.every if case is not None else 0.0))
        try:
            end = time.monotonic() + timeout_s
            while True:
                over = _is_whole(data) and (sending.done() or not waits)
                left = OVER_S if over and not waits else end - time.monotonic()
                piece = await asyncio.wait_for(reader.read(1 << 16), max(left, 0.01))
                if not piece:
                    return Answer(data, closed=True)
                data += piece
                if not waits:
                    end = time.monotonic() + timeout_s
        except TimeoutError:
            return Answer(data, closed=False)
        finally:
            sending.cancel()
            writer.transport.abort()
    return Answer(data, closed=True)


async def _send(writer: asyncio.StreamWriter, sent: bytes, every: float) -> None:
    with contextlib.suppress(OSError):
        for i in range(0, len(sent), 1 if every else 1 << 16):
            writer.write(sent[i : i + (1 if every else 1 << 16)])
            await writer.drain()
            if every:
                await asyncio.sleep(every)


def _is_whole(data: bytes) -> bool:
    head, end, body = data.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return bool(end) and (len(body) >= int(length[1]) if length else data.endswith(b"0\r\n\r\n"))


def peak_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) // 1024
