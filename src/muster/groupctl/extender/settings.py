"""Settings and flags of `muster extender`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from muster.process.settings import (
    APPLICATIONS,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
    ClusterSettings,
    Flag,
    LeaseSettings,
    SettingError,
    default_applications,
    home_of,
    port_flag,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings:
    """Settings of `muster extender`."""

    cluster: ClusterSettings
    lease: LeaseSettings
    applications: Annotated[str, APPLICATIONS] = field(default_factory=default_applications)
    host: Annotated[str, Flag(
        "--host", help="The address to listen on. Addresses other than loopback need HTTPS and --client-ca-file.",
    )] = "127.0.0.1"  # fmt: skip
    port: Annotated[int, port_flag("--port", metavar="N", help="The port; 0 chooses a free port.")]
    tls_cert_file: Annotated[str, TLS_CERT_FILE] = ""
    tls_private_key_file: Annotated[str, TLS_KEY_FILE] = ""
    client_ca_file: Annotated[str, Flag(
        "--client-ca-file", is_path=True, metavar="FILE",
        help="Serve only clients with a certificate of this CA, such as kube-scheduler.",
    )] = ""  # fmt: skip
    insecure_listen: Annotated[bool, Flag(
        "--insecure-listen", help="Serve any client that can reach an address other than loopback. Do not use it.",
    )] = False  # fmt: skip
    metrics_host: Annotated[str, Flag(
        "--metrics-host", metavar="ADDRESS", help="The address of --metrics-port.",
    )] = "127.0.0.1"  # fmt: skip
    metrics_port: Annotated[int | None, port_flag(
        "--metrics-port", help="Serve /healthz, /readyz and /metrics over plain HTTP on this port, too, for clients "
        "without a certificate.",
    )] = None  # fmt: skip
    max_request_bytes: Annotated[int, Flag(
        "--max-request-bytes", minimum=1 << 20, maximum=1 << 28, metavar="N", help="Refuse larger requests. With node "
        "names (nodeCacheCapable), and from clients that are not authenticated, the limit is 2 MiB.",
    )] = 32 << 20  # fmt: skip
    legacy: Annotated[bool, Flag(
        "--legacy-failed-nodes", help="Name refused nodes in FailedNodes as well, for schedulers before 1.22.",
    )] = False  # fmt: skip
    gate_override: Annotated[bool, Flag(
        "--gate-override-pair",
        help="Pods also wait until their application is bound to the OverridePolicy that it requires.",
    )] = False  # fmt: skip
    plugins: Annotated[str | None, Flag(
        "--plugins", is_path=True, metavar="FILE_OR_MAP", help="A scheduler configuration (a file, or "
        "configmap:NAMESPACE/NAME[/KEY]) whose plugins filter and score pods without a policy.",
    )] = None  # fmt: skip

    def __post_init__(self) -> None:
        if not self.tls_cert_file and (self.tls_private_key_file or self.client_ca_file):
            raise SettingError("--tls-private-key-file and --client-ca-file need --tls-cert-file")

    @property
    def probes(self) -> None:
        """The extender's server answers the probes, over HTTPS or on a second port."""
        return None

    @property
    def plain_probes(self) -> tuple[str, int] | None:
        return None if self.metrics_port is None else (self.metrics_host, self.metrics_port)

    @property
    def presence_lease(self) -> str:
        """Without an election: the Lease that shows that an extender is alive, as NAMESPACE/NAME."""
        return self.lease.name or f"{home_of(self.applications)}/muster-extender"
