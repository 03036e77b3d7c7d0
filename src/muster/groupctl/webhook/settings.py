"""Settings and flags of `muster webhook`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import urlsplit

from muster.process.settings import (
    APPLICATIONS,
    CONFIG,
    NAMESPACED,
    PRIVILEGED,
    ClusterSettings,
    Flag,
    LeaseSettings,
    ProbeSettings,
    SettingError,
    default_applications,
    own_namespace,
    port_flag,
)

CERTIFICATE_LIFETIME_S = 30 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Settings of `muster webhook`."""

    cluster: ClusterSettings
    config: Annotated[str | None, CONFIG] = None
    lease: LeaseSettings
    applications: Annotated[str, APPLICATIONS] = field(default_factory=default_applications)
    given_service: Annotated[str, Flag(
        "--service", metavar=NAMESPACED, help="The Service by which the API server reaches this process. "
        "Default: muster-webhook in the namespace muster runs in.",
    )] = ""  # fmt: skip
    service_port: Annotated[int, port_flag("--service-port", minimum=1, help="The Service's port.")] = 443
    url: Annotated[str | None, Flag(
        "--url", metavar="https://HOST:PORT", help="The URL for the API server, instead of a Service.",
    )] = None  # fmt: skip
    further_names: Annotated[tuple[str, ...], Flag(
        "--name", metavar="HOST",
        help="A further name or address in the certificate. May be given several times.",
    )] = ()  # fmt: skip
    registration: Annotated[str, Flag(
        "--registration", metavar="NAME", help="The name of the webhook configurations.",
    )] = "muster-webhook"  # fmt: skip
    privileged: Annotated[bool, PRIVILEGED] = False
    ungate: Annotated[bool, Flag(
        "--ungate/--no-ungate",
        help="Remove the scheduling gate of pods when their application is bound to its policies.",
    )] = True  # fmt: skip
    readmit_after: Annotated[float, Flag(
        "--readmit-after", minimum=1, metavar="SECONDS",
        help="A pod that is unschedulable in its group for this time is evicted, so that its owner creates another.",
    )] = 300.0  # fmt: skip
    client_ca_file: Annotated[str, Flag(
        "--client-ca-file", is_path=True, metavar="FILE", help="Serve only clients with a certificate of this CA, such "
        "as the API server (docs/tasks/webhook-and-gate.md shows how it gets one).",
    )] = ""  # fmt: skip
    host: Annotated[str, Flag("--webhook-host", metavar="ADDRESS", help="The address of the HTTPS server.")] = "0.0.0.0"
    port: Annotated[int, port_flag("--webhook-port", help="Its port.")] = 9443
    probes: ProbeSettings = field(default_factory=ProbeSettings)
    certificate_lifetime: Annotated[float, Flag(
        "--certificate-lifetime", minimum=1, metavar="SECONDS",
        help="The validity of a certificate; it is renewed when a third is left.",
    )] = CERTIFICATE_LIFETIME_S  # fmt: skip
    check_period: Annotated[float, Flag(
        "--check-period", minimum=0.1, metavar="SECONDS",
        help="How often the webhook configurations and the certificate are checked.",
    )] = 30.0  # fmt: skip

    def __post_init__(self) -> None:
        if self.url is not None and self.given_service:
            raise SettingError("--url and --service exclude each other")
        if self.url is not None and not (self.url.startswith("https://") and urlsplit(self.url).hostname):
            raise SettingError("--url begins with https:// and names a host")

    @property
    def service(self) -> str:
        return self.given_service or f"{own_namespace()}/muster-webhook"

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names in the serving certificate besides those of the Service."""
        host = urlsplit(self.url).hostname if self.url is not None else None
        return (*((host,) if host else ()), *self.further_names)
