"""Where the official client understands a kubeconfig otherwise than kubectl: made good, or refused, never passed over.

Of several files kubectl takes the current context of the first that names one, the official client that of the last. It
leaves out impersonation and login plugins that it does not know, and goes on with other rights than were asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")
_PROVIDERS = ("gcp", "oidc")
_PROXIES = ("http", "https")


class Kubeconfigs:
    """All files of a KUBECONFIG, merged as the official client does it."""

    def __init__(self, locations: str) -> None:
        from kubernetes.config.kube_config import KubeConfigMerger

        merger = KubeConfigMerger(locations)  # type: ignore[no-untyped-call]
        self._files: list[dict[str, Any]] = list(merger.config_files.values())

    def context(self) -> str | None:
        """The one that counts if none is asked for."""
        return next((str(name) for file in self._files if (name := file.get("current-context"))), None)

    def unsupported(self, context: str | None) -> list[str]:
        """What the context asks for and would not get; one line each, with what to do."""
        chosen = self._named("contexts", context).get("context") or {}
        who, where = chosen.get("user"), chosen.get("cluster")
        user = self._named("users", who).get("user") or {}
        cluster = self._named("clusters", where).get("cluster") or {}
        found = [
            f"user {who!r}: {key}: impersonation is not supported (use an account of its own)"
            for key in _IMPERSONATION
            if user.get(key)
        ]
        provider = (user.get("auth-provider") or {}).get("name")
        if provider is not None and provider not in _PROVIDERS:
            found.append(f"user {who!r}: auth-provider {provider!r} is not supported (use an exec plugin)")
        proxy = cluster.get("proxy-url")
        if proxy and urlsplit(proxy).scheme not in _PROXIES:
            found.append(f"cluster {where!r}: proxy-url {proxy!r} is not supported (use an http:// one)")
        server = cluster.get("server", "")
        if server and urlsplit(server).scheme not in ("http", "https"):
            found.append(f"cluster {where!r}: server {server!r} should begin with https://")
        return found

    def _named(self, part: str, name: str | None) -> dict[str, Any]:
        entries = (entry for file in self._files for entry in file.get(part) or [])
        return next((entry for entry in entries if entry.get("name") == name), {})


@contextmanager
def heard() -> Iterator[list[str]]:
    """What the official client complains of: a login plugin that fails it only logs, and goes on as nobody."""
    said: list[str] = []

    class _Hear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(" ".join(record.getMessage().split()))

    ear = _Hear(logging.ERROR)
    root = logging.getLogger()
    root.addHandler(ear)
    try:
        yield said
    finally:
        root.removeHandler(ear)
