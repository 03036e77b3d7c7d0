"""The parts that run in a cluster: how each is started, where it runs and what it may use.

`muster manifests --values` and the Helm chart share the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from muster.cli.install import rights
from muster.cli.install.rights import Right

CONFIGURATION = "muster-scheduler"
"""The ConfigMap with the scheduler's configuration, and (with .conf) the key in it."""
PORT = 8080
PART_OF = "app.kubernetes.io/part-of"
FOLDER = "/etc/muster"
"""Where a part finds its certificate."""
# The kubelet restarts a container only after it has ended: two processes never have this name at the same time.
_THIS_POD = "$(POD_NAME)_$(POD_UID)"
_CERTIFICATE, _KEY, _CLIENTS = f"{FOLDER}/tls.crt", f"{FOLDER}/tls.key", f"{FOLDER}/ca.crt"
_EXTENDER_PORT = 8443
PRIORITY_CLASS = "system-cluster-critical"
# Value → its type.
PLACES: dict[str, type] = {"nodeSelector": dict, "tolerations": list, "affinity": dict, "priorityClassName": str}
OF_PART: dict[str, type] = {**PLACES, "replicas": int, "resources": dict}
CHART_ONLY = frozenset({"image", "enabled", "configuration", "defaultQueue"})
"""Values of the chart that are options of `muster manifests`."""
_WORDS = {dict: "a mapping", list: "a list", str: "a text", int: "a number"}


def selector_of(verb: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": verb}


def labels_of(verb: str) -> dict[str, str]:
    """Returns the labels of everything that muster creates for a part."""
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
    # Others call it through its Service: over HTTP, or over TLS at a separate port.
    serves: bool = False
    tls_port: int = 0
    # The Secret with its serving certificate, which is mounted; the account may not read Secrets.
    certificate: str = ""
    # Its flags for the address of /healthz, /readyz and /metrics.
    probes: tuple[str, str] = ("--host", "--port")
    # A NetworkPolicy lets only the API server reach its TLS port.
    guarded: bool = False
    # It changes one label of pods; an admission policy forbids all other changes.
    wakes: bool = False
    # One of its replicas is active, elected by a Lease.
    elects: bool = True
    # Installed by default, if no part is named.
    by_default: bool = True
    # It reads the scheduler's configuration.
    configured: bool = False
    # Options that are values of the chart: the option, the key of the value, the default.
    values: tuple[tuple[str, str, str], ...] = ()
    # Additional rights in its own namespace.
    at_home: tuple[Right, ...] = ()
    # It reads which front proxy headers the API server trusts.
    reads_authentication: bool = False

    @property
    def name(self) -> str:
        return f"muster-{self.verb}"

    @property
    def command(self) -> list[str]:
        """Returns the arguments of `muster`."""
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
            at_home=(*rights.own_configuration(CONFIGURATION), *rights.DESCRIBED),
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
            by_default=False, at_home=rights.DESCRIBED,
        ),
        # One replica: reservations are in memory.
        Part(
            "extender", rights.EXTENDER,
            ("--host", "0.0.0.0", "--port", str(_EXTENDER_PORT), "--tls-cert-file", _CERTIFICATE,
             "--tls-private-key-file", _KEY, "--client-ca-file", _CLIENTS),
            replicas=1, requests=(("cpu", "100m"), ("memory", "256Mi")), limits=(("memory", "1Gi"),), serves=True,
            tls_port=_EXTENDER_PORT, certificate="muster-extender", probes=("--metrics-host", "--metrics-port"),
            wakes=True,
            at_home=rights.CONFIGURED,
        ),
        # One replica: group slots are counted in memory. A second replica would be a standby and never become ready.
        Part(
            "webhook", rights.WEBHOOK, (),
            replicas=1, requests=(("cpu", "100m"), ("memory", "256Mi")), limits=(("memory", "1Gi"),), serves=True,
            tls_port=9443, guarded=True, at_home=rights.CONFIGURED,
        ),
        # One replica: the log of released and held pods is in memory. A generated certificate would change at every
        # start.
        Part(
            "edge-gate", rights.EDGE_GATE,
            ("--proxy-host", "0.0.0.0", "--tls-cert-file", _CERTIFICATE, "--tls-private-key-file", _KEY),
            replicas=1, requests=(("cpu", "100m"), ("memory", "256Mi")), limits=(("memory", "1Gi"),), serves=True,
            tls_port=6444, elects=False, certificate="muster-edge-gate", by_default=False, at_home=rights.CONFIGURED,
            reads_authentication=True,
        ),
        # It listens on loopback, for `kubectl port-forward`: who may use that is a matter of RBAC.
        Part(
            "dashboard", rights.DASHBOARD, ("-c", f"configmap:{CONFIGURATION}"),
            replicas=1, requests=(("cpu", "100m"), ("memory", "512Mi")), limits=(("memory", "2Gi"),), elects=False,
            by_default=False, probes=("--metrics-host", "--metrics-port"),
            at_home=(*rights.own_configuration(CONFIGURATION), *rights.DESCRIBED),
        ),
    )
}  # fmt: skip


class BadValues(Exception):
    """Raised for invalid values; the message is one line."""


def value_key(part: Part) -> str:
    """Returns the key of the part in the values: templates can only use keys without hyphens."""
    first, *rest = part.verb.split("-")
    return first + "".join(word.title() for word in rest)


@dataclass(frozen=True, slots=True)
class Values:
    """The values: `places` are the defaults of all parts, `parts` has the values of single parts by their keys."""

    places: Mapping[str, Any] = field(default_factory=lambda: {"priorityClassName": PRIORITY_CLASS})
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def placement(self, part: Part) -> dict[str, Any]:
        """Returns fields of the pod's spec. A value of the part replaces the default; empty values are omitted."""
        own = self.parts.get(value_key(part), {})
        found = {key: own.get(key) or self.places.get(key) for key in PLACES}
        return {key: value for key, value in found.items() if value}

    def sized(self, part: Part) -> Part:
        """Returns the part with its replicas and resources."""
        own = self.parts.get(value_key(part), {})
        part = replace(part, replicas=own.get("replicas", part.replicas))
        if "resources" not in own:
            return part
        requests, limits = (tuple((own["resources"].get(key) or {}).items()) for key in ("requests", "limits"))
        return replace(part, requests=requests, limits=limits)


def read_values(plain: object, parts: Sequence[Part]) -> tuple[Values, list[str]]:
    """Returns the values of a file, and the keys in it that only the chart uses."""
    if not isinstance(plain, dict):
        raise BadValues("the values should be a mapping, as in deploy/helm/muster/values.yaml")
    keys = {value_key(part) for part in parts}
    passed_over: list[str] = []
    own = {key: value for key, value in plain.items() if key in keys}
    for key, value in own.items():
        if not isinstance(value, dict):
            raise BadValues(f"{key} should be a mapping")
        own[key] = _checked(value, f"{key}.", OF_PART, passed_over)
    rest = {key: value for key, value in plain.items() if key not in keys}
    places = {"priorityClassName": PRIORITY_CLASS, **_checked(rest, "", PLACES, passed_over, keys)}
    return Values(places, own), passed_over


def _checked(
    given: Mapping[str, Any], where: str, known: Mapping[str, type], passed_over: list[str],
    others: frozenset[str] | set[str] = frozenset(),
) -> dict[str, Any]:  # fmt: skip
    from muster.config.names import suggest  # `muster --help` imports this file, and needs no configuration

    found = {}
    for key, value in given.items():
        if key in CHART_ONLY:
            passed_over.append(f"{where}{key}")
        elif key not in known:
            raise BadValues(f"unknown value {where}{key}: {suggest(str(key), [*known, *others])}")
        elif value is not None and (not isinstance(value, known[key]) or isinstance(value, bool)):
            raise BadValues(f"{where}{key} should be {_WORDS[known[key]]}")
        elif value is not None:
            found[key] = value
    return found
