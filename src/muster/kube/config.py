"""Access to the cluster through the official client: kubeconfig, in-cluster account, exec plugins, OIDC.

Its Configuration provides the host, the TLS context and, for each request, the authorization header. Reading a token
file or calling an exec plugin may take long, so that is done in a thread, and the result is cached for some seconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from muster.store.errors import ApiError

if TYPE_CHECKING:
    from kubernetes.client import Configuration


# The official client itself reads a token file once a minute and a plugin's token when it has expired.
HEADER_CACHE_S = 10.0
# If a server answers 401 to everything, the exec plugin must not run for each request.
MIN_RELOAD_PERIOD_S = 5.0
_IMPERSONATION_FIELDS = ("as", "as-uid", "as-groups", "as-user-extra")
_AUTH_PROVIDERS = ("gcp", "oidc")
_PROXY_SCHEMES = ("http", "https")
_PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class NoAccess(Exception):
    """Raised if no cluster can be reached; the message has the fix."""


class Access:
    """Host, TLS and authorization as the official client reads them; `reload` reads everything again."""

    def __init__(self, configuration: Configuration, source: tuple[str | None, str | None] | None = None) -> None:
        self.on_refusal: Callable[[ApiError], None] = _nothing
        """Called with every error response to a client with this access."""
        self._source = source
        self._refreshing = asyncio.Lock()
        self._loaded_at = time.monotonic()
        self._header: str | None = None
        self._header_until = 0.0
        self._use(configuration)

    @property
    def host(self) -> str:
        """`https://…` without a slash at its end."""
        return self._host

    @property
    def tls(self) -> ssl.SSLContext | None:
        return self._tls

    def anonymous_tls(self) -> ssl.SSLContext | None:
        """Returns a TLS context with the same trust, without muster's certificate: for calls with another identity."""
        return _tls(self._configuration, with_certificate=False) if self._host.startswith("https://") else None

    @property
    def server_name(self) -> str | None:
        """The TLS server name, if it differs from the host."""
        return self._server_name

    @property
    def proxy(self) -> str | None:
        return self._proxy

    async def header(self) -> str | None:
        """Returns the authorization header, refreshed as the official client does it."""
        if time.monotonic() < self._header_until:
            return self._header
        async with self._refreshing:
            if time.monotonic() >= self._header_until:
                self._header = await asyncio.to_thread(_authorization, self._configuration)
                self._header_until = time.monotonic() + HEADER_CACHE_S
        return self._header

    async def reload(self) -> bool:
        """Reads the kubeconfig (and runs its plugin) again after a 401; False if that was done a moment ago."""
        async with self._refreshing:
            if self._source is None or time.monotonic() < self._loaded_at + MIN_RELOAD_PERIOD_S:
                return False
            self._loaded_at = time.monotonic()
            self._use(await asyncio.to_thread(_configuration, *self._source))
            return True

    def _use(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._host = str(configuration.host).rstrip("/")
        self._tls = _tls(configuration) if self._host.startswith("https://") else None
        self._server_name = configuration.tls_server_name or None
        self._proxy = _proxy(configuration)
        self._header_until = 0.0


def _nothing(error: ApiError) -> None:
    return None


def load(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """Loads the given file, else $KUBECONFIG or ~/.kube/config, else the service account of the pod."""
    return Access(_configuration(kubeconfig, context), (kubeconfig, context))


def default_namespace(kubeconfig: str | None = None, context: str | None = None) -> str:
    """Returns the namespace of the context, `default` if it names none. Raises NoAccess."""
    files = _kubeconfigs(kubeconfig)
    return "default" if files is None else files.namespace(context or files.context())


def contexts(kubeconfig: str | None = None) -> list[str]:
    """Returns the names of the contexts. Raises NoAccess."""
    files = _kubeconfigs(kubeconfig)
    return [] if files is None else files.contexts()


def _kubeconfigs(kubeconfig: str | None) -> Kubeconfigs | None:
    """Reads the kubeconfig; None if there is none, as in a pod."""
    try:
        from kubernetes import config
    except ImportError:
        return None
    locations = kubeconfig or config.KUBE_CONFIG_DEFAULT_LOCATION
    try:
        return Kubeconfigs(locations) if kubeconfig or _has_kubeconfig(locations) else None
    except Exception as problem:  # whatever the parser of the official client raises
        raise NoAccess(f"{_named(kubeconfig)} cannot be used: {problem}") from None


def _configuration(kubeconfig: str | None, context: str | None) -> Configuration:
    try:
        from kubernetes import config
        from kubernetes.client import Configuration
    except ImportError:
        raise NoAccess("the live parts need the extra `live`: pip install 'muster[live]'") from None

    found = Configuration()
    locations = kubeconfig or config.KUBE_CONFIG_DEFAULT_LOCATION
    try:
        if kubeconfig is not None or context is not None or _has_kubeconfig(locations):
            files = Kubeconfigs(locations)
            context = context or files.context()
            faults = files.unsupported(context)
            with client_errors() as complaints:
                config.load_kube_config(kubeconfig, context, found)  # type: ignore[no-untyped-call]
            if faults or complaints:
                raise NoAccess(f"{_named(kubeconfig)}: {'; '.join([*faults, *complaints])}")
        else:
            config.load_incluster_config(found)  # type: ignore[no-untyped-call]
    except config.ConfigException as problem:
        # The message contains the whole entry, tokens and keys as well.
        raise NoAccess(f"{_named(kubeconfig)}: {re.sub(r'/{.*}', '', str(problem), flags=re.DOTALL)}") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        # The official client raises these for a file that is not a kubeconfig.
        raise NoAccess(f"{_named(kubeconfig)} cannot be used: {problem}") from None
    except Exception as problem:
        if type(problem).__module__.split(".")[0] == "yaml":
            raise NoAccess(f"{_named(kubeconfig)} is not YAML: {' '.join(str(problem).split())}") from None
        raise
    return found


def _has_kubeconfig(locations: str) -> bool:
    return any(path and os.path.exists(os.path.expanduser(path)) for path in locations.split(os.pathsep))


def _named(kubeconfig: str | None) -> str:
    return kubeconfig or "the cluster's access (no kubeconfig given; give one with --kubeconfig or $KUBECONFIG)"


def _authorization(configuration: Configuration) -> str | None:
    try:
        setting = configuration.auth_settings().get("BearerToken")
    except Exception as problem:
        # A token file that went away, a plugin that fails, an identity provider that does not answer.
        raise NoAccess(f"no authorization could be had: {problem}") from problem
    return str(setting["value"]) if setting and setting["value"] else None


def _tls(configuration: Configuration, *, with_certificate: bool = True) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=configuration.ssl_ca_cert or None, cadata=getattr(configuration, "ca_cert_data", None) or None
        )
        if configuration.cert_file and with_certificate:
            load_client_certificate(context, configuration.cert_file, configuration.key_file or None)
    except (OSError, ValueError) as problem:
        raise NoAccess(f"the certificates of the kubeconfig cannot be used: {problem}") from None
    if configuration.assert_hostname is False or not configuration.verify_ssl:
        context.check_hostname = False
    if not configuration.verify_ssl:
        context.verify_mode = ssl.CERT_NONE
    return context


def load_client_certificate(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    """Loads the certificate that the client presents, so that OpenSSL sends this file and nothing else.

    Behind a single certificate OpenSSL sends its authority, if the context trusts it. The API server verifies a
    client's chain with each call, and then verifies three signatures instead of one. OpenSSL sends no authority if the
    file has more than one certificate, so a single one is loaded twice.
    """
    with open(certificate, "rb") as file:
        found = _PEM_CERTIFICATE.findall(file.read())
    with ExitStack() as stack:
        path = certificate
        if len(found) == 1:
            with suppress(OSError):  # no folder for temporary files, or no space in it: the authority is sent
                file_twice = stack.enter_context(tempfile.NamedTemporaryFile("wb", buffering=0))
                doubled = b"\n".join(found * 2) + b"\n"
                if file_twice.write(doubled) == len(doubled):
                    path = file_twice.name
        context.load_cert_chain(path, key or certificate, _no_password)


def _no_password() -> str:
    """Refuses to prompt for a password: there is no terminal."""
    raise ValueError("the client key is encrypted (give one without a password)")


def _proxy(configuration: Configuration) -> str | None:
    if not configuration.proxy:
        return None
    from kubernetes.client.rest import should_bypass_proxies

    host = str(configuration.host)
    if not urlsplit(host).hostname or should_bypass_proxies(host, configuration.no_proxy or ""):
        return None
    return str(configuration.proxy)


class Kubeconfigs:
    """All files of a KUBECONFIG, merged as the official client does it."""

    def __init__(self, locations: str) -> None:
        from kubernetes.config.kube_config import KubeConfigMerger

        merger = KubeConfigMerger(locations)  # type: ignore[no-untyped-call]
        self._files: list[dict[str, Any]] = list(merger.config_files.values())

    def context(self) -> str | None:
        """Returns the current context, which is used if none is given."""
        return next((str(name) for file in self._files if (name := file.get("current-context"))), None)

    def contexts(self) -> list[str]:
        """Returns the names of all contexts."""
        return [str(entry.get("name")) for file in self._files for entry in file.get("contexts") or []]

    def namespace(self, context: str | None) -> str:
        """Returns the namespace of a context, which is `default` if it names none."""
        return str((self._named("contexts", context).get("context") or {}).get("namespace") or "default")

    def unsupported(self, context: str | None) -> list[str]:
        """Returns the unsupported settings of a context, one message each, with what to do."""
        chosen = self._named("contexts", context).get("context") or {}
        who, where = chosen.get("user"), chosen.get("cluster")
        user = self._named("users", who).get("user") or {}
        cluster = self._named("clusters", where).get("cluster") or {}
        found = [
            f"user {who!r}: {key}: impersonation is not supported (use a separate account)"
            for key in _IMPERSONATION_FIELDS
            if user.get(key)
        ]
        provider = (user.get("auth-provider") or {}).get("name")
        if provider is not None and provider not in _AUTH_PROVIDERS:
            found.append(f"user {who!r}: auth-provider {provider!r} is not supported (use an exec plugin)")
        proxy = cluster.get("proxy-url")
        if proxy and urlsplit(proxy).scheme not in _PROXY_SCHEMES:
            found.append(f"cluster {where!r}: proxy-url {proxy!r} is not supported (use an http:// one)")
        server = cluster.get("server", "")
        if server and urlsplit(server).scheme not in ("http", "https"):
            found.append(f"cluster {where!r}: server {server!r} should begin with https://")
        return found

    def _named(self, part: str, name: str | None) -> dict[str, Any]:
        entries = (entry for file in self._files for entry in file.get(part) or [])
        return next((entry for entry in entries if entry.get("name") == name), {})


@contextmanager
def client_errors() -> Iterator[list[str]]:
    """Collects the errors that the official client logs: if an exec plugin fails, it only logs that and goes on without
    credentials."""
    messages: list[str] = []

    class _Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(" ".join(record.getMessage().split()))

    handler = _Collect(logging.ERROR)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield messages
    finally:
        root.removeHandler(handler)
