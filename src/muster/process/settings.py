"""Settings of components: frozen dataclasses whose fields have their command-line flags.

muster.cli.flags derives the options of a command from them. A field without a Flag is not on the command line; a field
whose type is such a dataclass includes the flags of that dataclass. `muster --help` imports this module, so it imports
only the standard library.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

NAMESPACED = "NS/NAME"
"""The metavar of flags that name an object with its namespace; other values are refused."""
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


class SettingError(ValueError):
    """Settings that exclude each other, or a value that no flag accepts; printed as a usage error."""


class Flag:
    """A setting's flag. Its type, default and requiredness are those of the field."""

    def __init__(
        self, *names: str, help: str, metavar: str | None = None, minimum: float | None = None,
        maximum: float | None = None, positive: bool = False, is_path: bool = False, literals: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """`{part}` in the help is the component's name. `literals` are accepted beside NS/NAME."""
        self.names = names
        self.help = help
        self.metavar = metavar
        self.minimum = 0 if positive else minimum
        self.maximum = maximum
        self.positive = positive
        self.is_path = is_path
        self.literals = literals


def port_flag(*names: str, help: str, minimum: int = 0, metavar: str = "PORT") -> Flag:
    return Flag(*names, help=help, minimum=minimum, maximum=65535, metavar=metavar)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How to reach the API server."""

    kubeconfig: Annotated[str | None, Flag(
        "--kubeconfig", is_path=True, metavar="FILE", help="The kubeconfig of the cluster. Default: $KUBECONFIG, "
        "~/.kube/config, or the service account of the pod.",
    )] = None  # fmt: skip
    context: Annotated[str | None, Flag(
        "--context", metavar="NAME", help="The context of the kubeconfig to use. Default: its current context.",
    )] = None  # fmt: skip


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Leader election among the replicas of `part`; with `elect` off this process is the only replica."""

    elect: Annotated[bool, Flag(
        "--leader-elect/--no-leader-elect", help="Use leader election, so that only one of several replicas is active.",
    )] = True  # fmt: skip
    name: Annotated[str, Flag(
        "--lease-name", metavar=NAMESPACED, help="The Lease of the active replica. "
        "Default: muster-{part} in the namespace muster runs in, else in kube-system.",
    )] = ""  # fmt: skip
    duration: Annotated[float, Flag(
        "--lease-duration", minimum=1, metavar="SECONDS", help="How long a leader keeps the Lease without renewal.",
    )] = 15.0  # fmt: skip
    renew_deadline: Annotated[float, Flag(
        "--lease-renew-deadline", minimum=0.5, metavar="SECONDS",
        help="A leader that could not renew for this time stops sending requests.",
    )] = 10.0  # fmt: skip
    retry: Annotated[float, Flag(
        "--lease-retry-period", minimum=0.1, metavar="SECONDS", help="How often the Lease is renewed or tried.",
    )] = 2.0  # fmt: skip
    identity: Annotated[str, Flag(
        "--identity", metavar="NAME", help="The identity on the Lease. A process that restarts with the identity of "
        "one that has ended takes over its Lease at once; two must not have the same. Default: a unique name.",
    )] = field(default_factory=lambda: unique_identity())  # fmt: skip
    part: str = ""

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry:
            raise SettingError("--lease-duration must be longer than --lease-renew-deadline, and that longer than "
                               "--lease-retry-period")  # fmt: skip

    @property
    def key(self) -> str:
        """The Lease, as NAMESPACE/NAME."""
        return self.name or f"{own_namespace()}/muster-{self.part}"


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """The address at which /healthz, /readyz and /metrics are served over plain HTTP."""

    host: Annotated[str, Flag(
        "--metrics-host", "--host", metavar="ADDRESS", help="The address of /healthz, /readyz and /metrics.",
    )] = "127.0.0.1"  # fmt: skip
    port: Annotated[int, port_flag(
        "--metrics-port", "--port", help="Their port; 0 chooses a free port and logs it.",
    )] = 8080  # fmt: skip


CONFIG = Flag(
    "-c", "--config", is_path=True, metavar="FILE_OR_MAP", help="Scheduler configuration in Volcano's format: a file "
    "(also the manifest of a ConfigMap), or configmap:NAMESPACE/NAME[/KEY] of the live cluster. Without it: the one in "
    "the snapshot, else the default.",
)  # fmt: skip
APPLICATIONS = Flag(
    "--applications", metavar=NAMESPACED, help="The ConfigMap that names further kinds of applications. Default: "
    "groupmanagement-config in the namespace muster runs in, else in kubeedge.",
)  # fmt: skip
PRIVILEGED = Flag(
    "--allow-privileged-overrides", help="Allow policies to give pods privileges that their templates do not have.",
)  # fmt: skip
TLS_CERT_FILE = Flag(
    "--tls-cert-file", is_path=True, metavar="FILE", help="Serve HTTPS with this certificate (PEM).",
)  # fmt: skip
TLS_KEY_FILE = Flag(
    "--tls-private-key-file", is_path=True, metavar="FILE", help="Its key, if it is in a separate file.",
)  # fmt: skip
WORKLOAD_KINDS = Flag(
    "--workload-kinds", is_path=True, metavar="FILE", help="Descriptions of further workload kinds. May be given "
    "several times. The ConfigMap muster-workload-kinds in the namespace muster runs in, or beside the ConfigMap of "
    "--applications, is followed, too.",
)  # fmt: skip


def unique_identity() -> str:
    from socket import gethostname  # every command imports this module; few need a name
    from uuid import uuid4

    return f"{gethostname()}_{uuid4().hex[:8]}"


def check_readable(flag: Flag, files: Iterable[str]) -> None:
    """Raises SettingError if one of the files cannot be read."""
    for file in files:
        try:
            Path(file).read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as fault:
            raise SettingError(f"{flag.names[0]} {file} cannot be read: {fault}") from None


def default_applications() -> str:
    """Returns the default ConfigMap of further kinds of applications."""
    from muster.groups.custom_applications import CONFIG_NAME

    return f"{own_namespace('kubeedge')}/{CONFIG_NAME}"


def home_of(applications: str) -> str:
    """Returns the namespace of the other components: that of the ConfigMap of further kinds if given, else our own."""
    named = applications.partition("/")[0]
    return own_namespace() if named == own_namespace("kubeedge") else named


def own_namespace(outside: str = "kube-system") -> str:
    """Returns the namespace of the pod of this process; outside a cluster by default kube-system, which always exists.
    """
    try:
        return _NAMESPACE_FILE.read_text(encoding="utf-8").strip() or outside
    except OSError:
        return outside


def own_pod_key() -> str:
    """Returns the pod of this process as NAMESPACE/NAME, from the environment that `muster manifests` sets; empty
    outside a cluster.
    """
    name, namespace = os.environ.get("POD_NAME", ""), os.environ.get("POD_NAMESPACE", "")
    return f"{namespace}/{name}" if name and namespace else ""


def config_map_place(config: str) -> str:
    """Returns NAMESPACE/NAME[/KEY] of `configmap:…`; the default namespace is that of this process."""
    from muster.config.announced_config import PREFIX

    parts = config.removeprefix(PREFIX).split("/")
    if len(parts) > 3 or not all(parts):
        raise SettingError(f"-c {PREFIX}… is {PREFIX}NAMESPACE/NAME, {PREFIX}NAMESPACE/NAME/KEY or {PREFIX}NAME")
    return "/".join(parts if len(parts) > 1 else [own_namespace(), *parts])
