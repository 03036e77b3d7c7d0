"""The parts that run in a cluster, and how each is started."""

from __future__ import annotations

from dataclasses import dataclass

from muster.cli.install import rights
from muster.cli.install.rights import Right

CONFIGURATION = "muster-scheduler"
"""The ConfigMap with the scheduler's configuration, and (with .conf) the key in it."""
PORT = 8080
PART_OF = "app.kubernetes.io/part-of"
FOLDER = "/etc/muster"
"""Where a part finds its certificate."""
# The kubelet starts a pod's container again only after it has ended: what goes by this name comes one after the other.
_THIS_POD = "$(POD_NAME)_$(POD_UID)"
_CERTIFICATE, _KEY, _CLIENTS = f"{FOLDER}/tls.crt", f"{FOLDER}/tls.key", f"{FOLDER}/ca.crt"
_EXTENDER_PORT = 8443


def selector_of(verb: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": verb}


def labels_of(verb: str) -> dict[str, str]:
    """On everything that muster creates for a part."""
    return {**selector_of(verb), PART_OF: "muster"}


@dataclass(frozen=True, slots=True)
class Part:
    """One Deployment: its verb, its rights, its size."""

    verb: str
    rights: tuple[Right, ...]
    arguments: tuple[str, ...]
    replicas: int
    requests: tuple[tuple[str, str], ...]
    limits: tuple[tuple[str, str], ...]
    # Others call it, by its Service: over HTTP, or over TLS at a port of its own.
    serves: bool = False
    tls_port: int = 0
    # The Secret with the certificate that it shows them; it may not read it, it is mounted.
    certificate: str = ""
    # Its flags for the address of /healthz, /readyz and /metrics.
    probes: tuple[str, str] = ("--host", "--port")
    # A NetworkPolicy lets only the API server reach its TLS port.
    guarded: bool = False
    # It changes one label of pods, and a policy lets it change nothing else.
    wakes: bool = False
    # Of several replicas one is active, by a Lease.
    elects: bool = True
    # Installed unless others are named.
    by_default: bool = True
    # It follows the scheduler's configuration.
    configured: bool = False
    # Options that the chart's values set: the option, the value's key, the default.
    values: tuple[tuple[str, str, str], ...] = ()
    # What it may do besides in the namespace it runs in.
    at_home: tuple[Right, ...] = ()
    # It reads which headers the API server trusts of a front proxy.
    reads_authentication: bool = False

    @property
    def name(self) -> str:
        return f"muster-{self.verb}"

    @property
    def command(self) -> list[str]:
        """What follows `muster`."""
        named = ("--identity", _THIS_POD) if self.elects else ()
        set_to = [word for option, _, value in self.values for word in (option, value)]
        probes = (self.probes[0], "0.0.0.0", self.probes[1], str(PORT))
        return [self.verb, *self.arguments, *set_to, *named, *probes]


PARTS: dict[str, Part] = {
    part.verb: part
    for part in (
        Part(
            "scheduler", rights.SCHEDULER, ("-c", f"configmap:{CONFIGURATION}",),
            replicas=2, requests=(("cpu", "500m"), ("memory", "512Mi")), limits=(("memory", "2Gi"),), configured=True,
            at_home=(*rights.own_configuration(CONFIGURATION), *rights.CONFIGURED),
        ),
        Part(
            "controllers", rights.CONTROLLERS, (),
            replicas=2, requests=(("cpu", "100m"), ("memory", "256Mi")), limits=(("memory", "1Gi"),),
            at_home=(*rights.CONFIGURED, *rights.OTHER_LEASES),
            values=(
                ("--eviction-rate", "evictionRate", "1"),
                ("--eviction-burst", "evictionBurst", "5"),
                ("--daemonset-affinity", "daemonsetAffinity", "true"),
            ),
        ),
        Part(
            "pod-groups", rights.POD_GROUPS, (),
            replicas=2, requests=(("cpu", "50m"), ("memory", "128Mi")), limits=(("memory", "512Mi"),),
            by_default=False,
        ),
        # One: reservations are kept in memory.
        Part(
            "extender", rights.EXTENDER,
            ("--host", "0.0.0.0", "--port", str(_EXTENDER_PORT), "--tls-cert-file", _CERTIFICATE,
             "--tls-private-key-file", _KEY, "--client-ca-file", _CLIENTS),
            replicas=1, requests=(("cpu", "100m"), ("memory", "256Mi")), limits=(("memory", "1Gi"),), serves=True,
            tls_port=_EXTENDER_PORT, certificate="muster-extender", probes=("--metrics-host", "--metrics-port"),
            wakes=True,
            at_home=rights.CONFIGURED,
        ),
        # One: places are kept in memory. A second one would stand by, and never be ready beside it.
        Part(
            "webhook", rights.WEBHOOK, (),
            replicas=1, requests=(("cpu", "100m"), ("memory", "256Mi")), limits=(("memory", "1Gi"),), serves=True,
            tls_port=9443, guarded=True, at_home=rights.CONFIGURED,
        ),
        # One: what was released or held is remembered in memory. A certificate of its own would be new at every start.
        Part(
            "edge-gate", rights.EDGE_GATE,
            ("--proxy-host", "0.0.0.0", "--tls-cert-file", _CERTIFICATE, "--tls-private-key-file", _KEY),
            replicas=1, requests=(("cpu", "100m"), ("memory", "256Mi")), limits=(("memory", "1Gi"),), serves=True,
            tls_port=6444, elects=False, certificate="muster-edge-gate", by_default=False, at_home=rights.CONFIGURED,
            reads_authentication=True,
        ),
    )
}  # fmt: skip
