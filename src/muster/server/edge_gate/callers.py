"""In whose name a request goes to the API server: by the client's own token, or as what its certificate says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_STRIPPED = "x-remote-"
_TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."
# What the API server tells anybody.
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")

WITHOUT = (
    "the edge gate passes on bearer tokens only: this request has none, and a client certificate ends at the gate "
    "(use a token, or start `muster edge-gate` with --client-ca-file and --front-proxy-cert)"
)
WITHOUT_FRONT_PROXY = (
    "the edge gate cannot speak for the user {user} of this client certificate: start it with --front-proxy-cert "
    "(a certificate of the API server's --requestheader-client-ca-file), or use a bearer token"
)


class Unknown(Exception):
    """Nobody to speak for; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Caller:
    """`vouched`: sent over the front proxy's own connection, with these headers."""

    vouched: bool = False
    headers: list[tuple[str, str]] = field(default_factory=list)


def caller_of(
    headers: Mapping[str, str], certificate: Mapping[str, Any] | None, path: str, *, front_proxy: bool
) -> Caller:
    """Unknown if there is neither a token nor a certificate that we may vouch for."""
    token = headers.get("Authorization", "").strip().lower() not in ("", "bearer")
    if token or _TOKEN_PROTOCOL in headers.get("Sec-WebSocket-Protocol", ""):
        return Caller()
    subject = _subject(certificate)
    users = subject.get("commonName", [])
    if users and front_proxy:
        groups = [("X-Remote-Group", group) for group in subject.get("organizationName", [])]
        return Caller(True, [("X-Remote-User", users[0]), *groups])
    if path in _PUBLIC:
        return Caller()
    raise Unknown(WITHOUT_FRONT_PROXY.format(user=users[0]) if users else WITHOUT)


def allowed(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The client's headers but for those by which only a front proxy may say who somebody is."""
    return [(name, value) for name, value in headers if not name.lower().startswith(_STRIPPED)]


def _subject(certificate: Mapping[str, Any] | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in (certificate or {}).get("subject", ()):
        for name, value in part:
            found.setdefault(name, []).append(value)
    return found
