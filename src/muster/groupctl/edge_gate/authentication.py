"""Decides with whose identity a request is forwarded: the client's own token, or the subject of its certificate.

With a front-proxy certificate the gate sends the subject in request headers. Their names are flags of the API server
(--requestheader-*), which publishes them in the ConfigMap kube-system/extension-apiserver-authentication. A client's
own headers with these names are never forwarded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from muster.groupctl.edge_gate.upstream import Upstream
from muster.kube.config import NoAccess
from muster.store import errors

_TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."
# The API server answers these for anonymous clients.
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")

NO_TOKEN = (
    "the edge gate passes on bearer tokens only: this request has none, and a client certificate ends at the gate "
    "(use a token, or start `muster edge-gate` with --client-ca-file and --front-proxy-cert)"
)
NO_FRONT_PROXY = (
    "the edge gate cannot forward the identity {user} of this client certificate: start it with --front-proxy-cert "
    "(a certificate of the API server's --requestheader-client-ca-file), or use a bearer token"
)


class UnknownCaller(Exception):
    """The request has no usable identity; the text has the fix."""


@dataclass(frozen=True, slots=True)
class Caller:
    """How a request is forwarded: with `by_front_proxy` over the front proxy's own connection, with these headers;
    with `anonymous` without an identity."""

    by_front_proxy: bool = False
    headers: list[tuple[str, str]] = field(default_factory=list)
    anonymous: bool = False


def caller_of(
    headers: Mapping[str, str], certificate: Mapping[str, Any] | None, path: str, trusted: TrustedHeaders | None
) -> Caller:
    """Returns how to forward a request; raises UnknownCaller if it has neither a token nor a certificate whose subject
    may be sent. `trusted` are the API server's front-proxy headers, None without a front-proxy certificate."""
    token = headers.get("Authorization", "").strip().lower() not in ("", "bearer")
    if token or _TOKEN_PROTOCOL in headers.get("Sec-WebSocket-Protocol", ""):
        return Caller()
    subject = _subject(certificate)
    users = subject.get("commonName", [])
    if any(not value.isprintable() for values in subject.values() for value in values):
        raise UnknownCaller("the subject of the client certificate has characters that no user name has")
    if users and trusted is not None:
        groups = [(trusted.group, group) for group in subject.get("organizationName", [])]
        return Caller(True, [(trusted.user, users[0]), *groups])
    if path in _PUBLIC:
        return Caller(anonymous=True)
    raise UnknownCaller(NO_FRONT_PROXY.format(user=users[0]) if users else NO_TOKEN)


def _subject(certificate: Mapping[str, Any] | None) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in (certificate or {}).get("subject", ()):
        for name, value in part:
            found.setdefault(name, []).append(value)
    return found


CONFIG_MAP = "kube-system/extension-apiserver-authentication"
_PATH = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_NAMES = ("requestheader-username-headers", "requestheader-group-headers", "requestheader-uid-headers")
_PREFIXES = "requestheader-extra-headers-prefix"


@dataclass(frozen=True, slots=True)
class TrustedHeaders:
    """The headers by which the API server lets a front proxy name the user: `user` and `group` are the headers to send,
    `names` and `prefixes` (lower case) those to remove from requests of clients."""

    user: str = "X-Remote-User"
    group: str = "X-Remote-Group"
    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ("x-remote-",)

    def without(self, headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Removes the headers that only a front proxy may send."""
        return [(name, value) for name, value in headers if not self._is_trusted(name.lower())]

    def _is_trusted(self, name: str) -> bool:
        return name in self.names or name.startswith(self.prefixes)

    def merged_with(self, earlier: TrustedHeaders) -> TrustedHeaders:
        """Also removes the earlier names: the API servers of a cluster restart at different times."""
        prefixes = tuple(dict.fromkeys((*self.prefixes, *earlier.prefixes)))
        return TrustedHeaders(self.user, self.group, self.names | earlier.names, prefixes)


async def read_trusted_headers(upstream: Upstream) -> TrustedHeaders:
    """Reads the headers from the ConfigMap; raises NoAccess, with what to do, if it cannot be read or used."""
    try:
        async with upstream.get_as_gate(_PATH, {}, "application/json") as answer:
            data = msgspec.json.decode(await answer.read()).get("data") or {}
        users, groups, uids = (_list(data, key) for key in _NAMES)
        prefixes = _list(data, _PREFIXES)
    except (errors.ApiError, msgspec.DecodeError, TypeError, AttributeError) as fault:
        raise NoAccess(
            f"--front-proxy-cert: the ConfigMap {CONFIG_MAP} cannot be read: {fault} (it names the headers that the "
            "API server trusts; bind the Role extension-apiserver-authentication-reader in kube-system to the account)"
        ) from None
    if not users or not groups:
        raise NoAccess(
            f"--front-proxy-cert: the ConfigMap {CONFIG_MAP} names no {' or '.join(_NAMES[:2])}: the API server "
            "trusts no front proxy (start it with --requestheader-client-ca-file and --requestheader-*-headers)"
        )
    names = frozenset(name.lower() for name in (*users, *groups, *uids))
    own = TrustedHeaders()
    return TrustedHeaders(users[0], groups[0], names, (*own.prefixes, *(one.lower() for one in prefixes)))


def _list(data: dict[str, Any], key: str) -> list[str]:
    """Decodes a value of the ConfigMap, which is a list of strings in JSON."""
    return msgspec.json.decode(data.get(key) or "[]", type=list[str])
