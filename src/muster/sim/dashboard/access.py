"""Decides which requests are answered, and adds the security headers to every response.

Refused are: hosts that the dashboard is not known by (DNS rebinding), other origins, methods that change something
without the header that only our own script sends, and clients without the token. A login form exchanges the token for a
session cookie; the cookie is not the token, so that it can expire.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from hashlib import sha256

from aiohttp import web
from yarl import URL

from muster.sim.dashboard.settings import LOOPBACK_NAMES

COOKIE = "muster-dashboard"
REQUESTED_BY = "X-Requested-By"
"""The header of requests that make the server compute: a form or an image of another site cannot send it."""
SESSION_S = 12 * 3600.0
MAX_SESSIONS = 256
PUBLIC = frozenset(("/login", "/healthz", "/readyz"))
"""Paths, besides /static/, that are answered without the token: they show nothing of the cluster."""
_READING = frozenset(("GET", "HEAD"))
_POSTS = frozenset(("/login", "/api/v1/redecide"))
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Server": "muster",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without a referrer, browsers send the login form with the origin `null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Refused(Exception):
    """A request that is not answered: the status and one sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Access:
    """The rules for one server. `secure`: it serves HTTPS."""

    def __init__(
        self, host: str, allowed: tuple[str, ...] = (), token: str = "", *, secure: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._hosts = {name.strip("[]").lower() for name in (*LOOPBACK_NAMES, host, *allowed)}
        self._token = _digest(token) if token else b""
        self.secure = secure
        self._clock = clock
        self._sessions: dict[str, float] = {}  # id → when it expires

    @property
    def needs_token(self) -> bool:
        return bool(self._token)

    def check(self, request: web.Request) -> None:
        """Raises Refused unless the request may be answered."""
        self._check_host(request)
        self._check_origin(request)
        if request.method not in _READING:
            if request.method != "POST" or request.path not in _POSTS:
                raise Refused(405, f"{request.method} is not allowed: the dashboard is read-only")
            if request.path != "/login" and REQUESTED_BY not in request.headers:
                raise Refused(403, f"the header {REQUESTED_BY} is missing")
        public = request.path in PUBLIC or request.path.startswith("/static/")
        if self._token and not public and not self._knows_token(request):
            raise Refused(401, "the token is missing or wrong: send `Authorization: Bearer TOKEN`, or log in at /login")

    def login(self, token: str) -> str:
        """Returns the id of a new session; raises Refused if the token is wrong."""
        if not self._token or not hmac.compare_digest(_digest(token.strip()), self._token):
            raise Refused(401, "the token is wrong")
        now = self._clock()
        self._sessions = {one: ends for one, ends in self._sessions.items() if ends > now}
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        made = secrets.token_urlsafe(32)
        self._sessions[made] = now + SESSION_S
        return made

    def _check_host(self, request: web.Request) -> None:
        given = request.headers.getall("Host", [])
        try:
            host = URL(f"http://{given[0]}").host if len(given) == 1 else None
        except ValueError:
            host = None
        if host is None or host.lower() not in self._hosts:
            # The name is not repeated: it comes from the client.
            raise Refused(421, "the dashboard is not known by this host name (--allowed-host adds one)")

    def _check_origin(self, request: web.Request) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"{'https' if self.secure else 'http'}://{request.headers['Host']}" and (
            # Behind a proxy that serves HTTPS the scheme differs.
            self.secure or origin != f"https://{request.headers['Host']}"
        ):
            raise Refused(403, "requests of other origins are refused")
        site = request.headers.get("Sec-Fetch-Site", "none")
        navigates = request.headers.get("Sec-Fetch-Mode") == "navigate" and request.method == "GET"
        if site not in ("none", "same-origin") and not navigates:
            raise Refused(403, "requests of other sites are refused")

    def _knows_token(self, request: web.Request) -> bool:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return hmac.compare_digest(_digest(given.strip()), self._token)
        session = request.cookies.get(COOKIE, "")
        # The ids are random: the time of a dict lookup reveals nothing about another one.
        return self._sessions.get(session, 0.0) > self._clock()


def _digest(text: str) -> bytes:
    """Digests have one length, so that the comparison takes the same time for every token."""
    return sha256(text.encode("utf-8", "surrogateescape")).digest()
