"""The headers by which this API server lets a front proxy say who a client is.

The names are flags of the API server (--requestheader-*). It publishes them in the ConfigMap
kube-system/extension-apiserver-authentication; a client's own headers of these names are never passed on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from muster.groupctl.edge_gate.upstream import Upstream
from muster.kube.config import NoAccess
from muster.store import errors

CONFIG_MAP = "kube-system/extension-apiserver-authentication"
_PATH = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
_NAMES = ("requestheader-username-headers", "requestheader-group-headers", "requestheader-uid-headers")
_PREFIXES = "requestheader-extra-headers-prefix"


@dataclass(frozen=True, slots=True)
class TrustedHeaders:
    """`user` and `group` are the headers to send; `names` and `prefixes` (lower case) are those to remove."""

    user: str = "X-Remote-User"
    group: str = "X-Remote-Group"
    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ("x-remote-",)

    def without(self, headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The headers of a client, but for those that only a front proxy may send."""
        return [(name, value) for name, value in headers if not self._is_trusted(name.lower())]

    def _is_trusted(self, name: str) -> bool:
        return name in self.names or name.startswith(self.prefixes)

    def with_those_of(self, earlier: TrustedHeaders) -> TrustedHeaders:
        """Also without the earlier names: not every API server of a cluster is restarted at the same time."""
        prefixes = tuple(dict.fromkeys((*self.prefixes, *earlier.prefixes)))
        return TrustedHeaders(self.user, self.group, self.names | earlier.names, prefixes)


async def read(upstream: Upstream) -> TrustedHeaders:
    """NoAccess, with what to do, if the ConfigMap cannot be read or used."""
    try:
        async with upstream.ours(_PATH, {}, "application/json") as answer:
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
    """A value of the ConfigMap is a list of strings in JSON."""
    return msgspec.json.decode(data.get(key) or "[]", type=list[str])
