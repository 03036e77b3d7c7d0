"""Request heads: refused if two HTTP parsers could read them differently, then parsed with h11.

h11 accepts bare line feeds, folded lines and absolute-form targets, and Go reads some of them differently. The raw
bytes are therefore checked first. What is forwarded is always built from the parsed parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import h11
from multidict import CIMultiDict, CIMultiDictProxy, MultiDict, MultiDictProxy

END = b"\r\n\r\n"
MAX_HEAD_BYTES = 1 << 16
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_REQUEST_LINE = re.compile(rb"[A-Z]+ [!-~]+ HTTP/1\.1")
_TARGET = re.compile(r"/[!$&'()*+,./:;=?@_~0-9A-Za-z%\[\]-]*")
_NOT_TEXT = re.compile(rb"[^\t\r\n -~]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FRAMING = re.compile(rb"content-length: ?[0-9]{1,18}|transfer-encoding: ?chunked", re.IGNORECASE)
_SINGLE = (b"host", b"content-length", b"transfer-encoding", b"upgrade", b"expect", b"content-type")


class RefusedRequest(Exception):
    """A request that is not passed on; `code` is the HTTP status of the answer."""

    def __init__(self, message: str, code: int = 400) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Head:
    """A request without its body. `path` is decoded, as the API server decodes it; `target` is as it was sent."""

    method: str
    target: str
    path: str
    query: MultiDictProxy[str]
    headers: CIMultiDictProxy[str]

    @property
    def has_body(self) -> bool:
        return "Transfer-Encoding" in self.headers or self.headers.get("Content-Length", "0").strip("0") != ""

    @property
    def upgrade(self) -> str:
        return self.headers.get("Upgrade", "")


def check_raw(head: bytes) -> None:
    """Raises RefusedRequest unless the bytes before the blank line have only one reading."""
    line, *fields = head.split(b"\r\n")
    if any(b"\n" in one or b"\r" in one for one in (line, *fields)):
        raise RefusedRequest("the request head has a line feed or a carriage return that ends no line")
    if _NOT_TEXT.search(head):
        raise RefusedRequest("the request head has a control character or is not ASCII")
    if not _REQUEST_LINE.fullmatch(line):
        code = 505 if re.fullmatch(rb"[A-Z]+ [!-~]+ HTTP/[0-9.]+", line) else 400
        raise RefusedRequest("the request line must be METHOD /path HTTP/1.1", code)
    names = [one.partition(b":")[0].lower() for one in fields]
    if any(one[:1] in (b" ", b"\t", b"") for one in fields):
        raise RefusedRequest("a header line is folded or empty")
    for name in _SINGLE:
        if names.count(name) > 1:
            raise RefusedRequest(f"the header {name.decode()} is given several times")
    for one in fields:
        # h11 trims and joins these; they decide where the request ends, so they must be as they will be read.
        if one.lower().startswith((b"content-length", b"transfer-encoding")) and not _FRAMING.fullmatch(one):
            raise RefusedRequest("Content-Length must be a number, Transfer-Encoding must be chunked")


def parse(connection: h11.Connection, head: bytes) -> Head:
    """Checks and parses a head; `connection` is then ready to read the body."""
    check_raw(head)
    try:
        connection.receive_data(head + END)
        event = connection.next_event()
    except h11.RemoteProtocolError as fault:
        raise RefusedRequest(f"the request head is not valid HTTP: {fault}") from None
    if not isinstance(event, h11.Request):
        raise RefusedRequest("the request head is not valid HTTP")
    method, target = event.method.decode(), event.target.decode("ascii")
    if method not in _METHODS:
        raise RefusedRequest(f"the method {method} is not supported", 501)
    headers = CIMultiDictProxy(CIMultiDict((n.decode("ascii"), v.decode("latin-1")) for n, v in event.headers))
    _check_fields(headers)
    raw_path, _, raw_query = target.partition("?")
    if not _TARGET.fullmatch(target) or _ESCAPE.search(target) or "?" in raw_query:
        raise RefusedRequest("the target must be a path with an optional query, in ASCII, with valid percent-encoding")
    return Head(method, target, _decoded(raw_path), _query(raw_query), headers)


def _check_fields(headers: CIMultiDictProxy[str]) -> None:
    if "Host" not in headers:
        raise RefusedRequest("the header Host is missing")
    if "Content-Length" in headers and "Transfer-Encoding" in headers:
        raise RefusedRequest("Content-Length and Transfer-Encoding exclude each other")
    if headers.get("Expect", "100-continue").lower() != "100-continue":
        raise RefusedRequest("the only supported expectation is 100-continue", 417)


def _decoded(path: str) -> str:
    """Decodes the path like Go's URL.Path; raises RefusedRequest if it is ambiguous which object it names."""
    try:
        decoded = unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise RefusedRequest("the path is not valid UTF-8") from None
    if any(ord(character) < 32 or ord(character) == 127 for character in decoded):
        raise RefusedRequest("the path has a control character")
    return decoded


def _query(text: str) -> MultiDictProxy[str]:
    """Parses the parameters as Go does."""
    if ";" in text:
        raise RefusedRequest("the query must not contain a semicolon; write %3B")
    found: MultiDict[str] = MultiDict()
    for pair in filter(None, text.split("&")):
        name, _, value = pair.partition("=")
        try:
            found.add(*(unquote_to_bytes(part.replace("+", " ")).decode() for part in (name, value)))
        except UnicodeDecodeError:
            raise RefusedRequest("the query is not valid UTF-8") from None
    return MultiDictProxy(found)
