"""In whose name a request goes to the API server: by the client's own token, or as what its certificate says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.groupctl.edge_gate.front_proxy import TrustedHeaders

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
    """`vouched`: sent over the front proxy's own connection, with these headers. `anonymous`: anybody may ask that."""

    vouched: bool = False
    headers: list[tuple[str, str]] = field(default_factory=list)
    anonymous: bool = False


def caller_of(
    headers: Mapping[str, str], certificate: Mapping[str, Any] | None, path: str, trusted: TrustedHeaders | None
) -> Caller:
    """Unknown if there is neither a token nor a certificate that we may vouch for. `trusted`: of the API server that
    lets us vouch, None if there is none."""
    token = headers.get("Authorization", "").strip().lower() not in ("", "bearer")
    if token or _TOKEN_PROTOCOL in headers.get("Sec-WebSocket-Protocol", ""):
        return Caller()
    subject = _subject(certificate)
    users = subject.get("commonName", [])
    if any(not value.isprintable() for values in subject.values() for value in values):
        raise Unknown("the subject of the client certificate has characters that no user name has")
    if users and trusted is not None:
        groups = [(trusted.group, group) for group in subject.get("organizationName", [])]
        return Caller(True, [(trusted.user, users[0]), *groups])
    if path in _PUBLIC:
        return Caller(anonymous=True)
    raise Unknown(WITHOUT_FRONT_PROXY.format(user=users[0]) if users else WITHOUT)


def _subject(certificate: Mapping[str, Any] | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in (certificate or {}).get("subject", ()):
        for name, value in part:
            found.setdefault(name, []).append(value)
    return found
