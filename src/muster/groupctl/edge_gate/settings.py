"""Settings and flags of `muster edge-gate`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from muster.process.settings import (
    APPLICATIONS,
    TLS_KEY_FILE,
    ClusterSettings,
    Flag,
    ProbeSettings,
    SettingError,
    default_applications,
    port_flag,
)


@dataclass(frozen=True, slots=True)
class GateProbeSettings(ProbeSettings):
    """The address of the probes, and of POST /gate for clients on this machine."""

    host: Annotated[str, Flag(
        "--metrics-host", "--host", metavar="ADDRESS",
        help="The address of /healthz, /readyz and /metrics; on loopback also of POST /gate.",
    )] = "127.0.0.1"  # fmt: skip


@dataclass(frozen=True, slots=True)
class GateSettings:
    """Settings of `muster edge-gate`. Every replica works, so there is no election."""

    cluster: ClusterSettings
    applications: Annotated[str, APPLICATIONS] = field(default_factory=default_applications)
    host: Annotated[str, Flag(
        "--proxy-host", metavar="ADDRESS", help="The address of the proxy.",
    )] = "127.0.0.1"  # fmt: skip
    port: Annotated[int, port_flag("--proxy-port", help="Its port; 0 chooses a free port and logs it.")] = 6444
    tls_cert_file: Annotated[str, Flag(
        "--tls-cert-file", is_path=True, metavar="FILE",
        help="The serving certificate (PEM). Default: one that muster creates.",
    )] = ""  # fmt: skip
    tls_private_key_file: Annotated[str, TLS_KEY_FILE] = ""
    names: Annotated[tuple[str, ...], Flag(
        "--name", metavar="HOST",
        help="A name or address in the certificate that muster creates. May be given several times.",
    )] = ("localhost", "127.0.0.1")  # fmt: skip
    write_ca_file: Annotated[str, Flag(
        "--write-ca-file", is_path=True, metavar="FILE", help="The file for the CA certificate that clients need.",
    )] = ""  # fmt: skip
    client_ca_file: Annotated[str, Flag(
        "--client-ca-file", is_path=True, metavar="FILE",
        help="Accept certificates of this CA from clients; needs --front-proxy-cert.",
    )] = ""  # fmt: skip
    front_proxy_cert: Annotated[str, Flag(
        "--front-proxy-cert", is_path=True, metavar="FILE", help="A certificate of the API server's request header CA, "
        "which lets the gate tell the API server the identity of a client.",
    )] = ""  # fmt: skip
    front_proxy_key: Annotated[str, Flag(
        "--front-proxy-key", is_path=True, metavar="FILE", help="Its key, if it is in a separate file.",
    )] = ""  # fmt: skip
    gate_port: Annotated[int | None, port_flag(
        "--gate-port", help="Answer POST /gate over HTTPS on this port of --proxy-host, to clients with a certificate "
        "of --client-ca-file.",
    )] = None  # fmt: skip
    hold_outdated: Annotated[bool, Flag(
        "--hold-outdated", help="Also hold back pods that differ from their node group's edition.",
    )] = False  # fmt: skip
    hold_strict: Annotated[bool, Flag(
        "--hold-strict", help="Also hold back pods that were already sent, even running pods: they are deleted at the "
        "edge while their application is not bound.",
    )] = False  # fmt: skip
    privileged: Annotated[bool, Flag(
        "--allow-privileged-overrides",
        help="Editions may have privileges that templates do not have, as with the same flag of the controllers.",
    )] = False  # fmt: skip
    probes: GateProbeSettings = field(default_factory=GateProbeSettings)

    def __post_init__(self) -> None:
        if self.tls_private_key_file and not self.tls_cert_file:
            raise SettingError("--tls-private-key-file needs --tls-cert-file")
        if self.front_proxy_key and not self.front_proxy_cert:
            raise SettingError("--front-proxy-key needs --front-proxy-cert")
        if self.front_proxy_cert and not self.client_ca_file:
            raise SettingError("--front-proxy-cert needs --client-ca-file, the CA of the client certificates")
        if self.gate_port is not None and not self.client_ca_file:
            raise SettingError("--gate-port needs --client-ca-file: only authenticated clients are served")

    @property
    def lease(self) -> None:
        return None

    @property
    def front_proxy(self) -> tuple[str, str] | None:
        """The certificate and key that the API server trusts, or None."""
        return (self.front_proxy_cert, self.front_proxy_key) if self.front_proxy_cert else None
