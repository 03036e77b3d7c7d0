"""Settings and flags of `muster dashboard`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from muster.process.settings import (
    APPLICATIONS,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
    WORKLOAD_KINDS,
    ClusterSettings,
    Flag,
    ProbeSettings,
    SettingError,
    check_readable,
    default_applications,
    port_flag,
)

MIN_TOKEN_CHARACTERS = 16
LOOPBACK_NAMES = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """Settings of `muster dashboard`."""

    cluster: ClusterSettings
    scheduler_names: Annotated[tuple[str, ...], Flag(
        "--scheduler-name", metavar="NAME",
        help="Show pods with this schedulerName (and those with none) as pods to schedule. May be given several times.",
    )] = ("muster", "volcano")  # fmt: skip
    applications: Annotated[str, APPLICATIONS] = field(default_factory=default_applications)
    workload_kinds: Annotated[tuple[str, ...], WORKLOAD_KINDS] = ()
    host: Annotated[str, Flag(
        "--host", metavar="ADDRESS", help="The address to listen on. Addresses other than loopback need --token-file, "
        "and --tls-cert-file or --insecure-listen.",
    )] = "127.0.0.1"  # fmt: skip
    port: Annotated[int, port_flag("--port", metavar="N", help="The port; 0 chooses a free port and prints it.")] = 8088
    allowed_hosts: Annotated[tuple[str, ...], Flag(
        "--allowed-host", metavar="NAME", help="A further name by which browsers reach the dashboard, such as that of "
        "an Ingress. May be given several times. Requests to other names are refused.",
    )] = ()  # fmt: skip
    token_file: Annotated[str, Flag(
        "--token-file", is_path=True, metavar="FILE", help="Serve only clients that know the token in this file "
        "(at least 16 characters): as a bearer token, or in the login form.",
    )] = ""  # fmt: skip
    tls_cert_file: Annotated[str, TLS_CERT_FILE] = ""
    tls_private_key_file: Annotated[str, TLS_KEY_FILE] = ""
    insecure_listen: Annotated[bool, Flag(
        "--insecure-listen", help="Serve plain HTTP on an address other than loopback: everyone on the network can "
        "read the token. Use it only behind a proxy that serves HTTPS.",
    )] = False  # fmt: skip
    metrics_host: Annotated[str, Flag(
        "--metrics-host", metavar="ADDRESS", help="The address of --metrics-port.",
    )] = "127.0.0.1"  # fmt: skip
    metrics_port: Annotated[int | None, port_flag(
        "--metrics-port", help="Serve /healthz, /readyz and /metrics on this port, too (live cluster only).",
    )] = None  # fmt: skip

    def __post_init__(self) -> None:
        check_readable(WORKLOAD_KINDS, self.workload_kinds)
        if self.tls_private_key_file and not self.tls_cert_file:
            raise SettingError("--tls-private-key-file needs --tls-cert-file")
        if self.host not in LOOPBACK_NAMES and not self.host.startswith("127."):
            if not self.token_file:
                raise SettingError(f"--host {self.host} can be reached by other machines: give --token-file, or listen "
                                   "on 127.0.0.1 and use `kubectl port-forward` or ssh")  # fmt: skip
            if not self.tls_cert_file and not self.insecure_listen:
                raise SettingError(f"--host {self.host} would show the token to the network: give --tls-cert-file, or "
                                   "--insecure-listen behind a proxy that serves HTTPS")  # fmt: skip
        self.token()

    def token(self) -> str:
        """Returns the token that clients must know; empty if none is needed."""
        if not self.token_file:
            return ""
        try:
            token = Path(self.token_file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as fault:
            raise SettingError(f"--token-file {self.token_file} cannot be read: {fault}") from None
        if len(token) < MIN_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable():
            raise SettingError(f"--token-file {self.token_file} must have one line of at least "
                               f"{MIN_TOKEN_CHARACTERS} ASCII characters")  # fmt: skip
        return token

    @property
    def lease(self) -> None:
        """There is no election: the dashboard writes nothing."""
        return None

    @property
    def probes(self) -> ProbeSettings | None:
        return None if self.metrics_port is None else ProbeSettings(self.metrics_host, self.metrics_port)
