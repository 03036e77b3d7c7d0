"""The Pod Security Standard "restricted", written from its table: restricted fields and their allowed values.

It shares no code with muster: `muster.groups.override` is checked against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Plain = dict[str, Any]
Allowed = Callable[[Any], bool]

_KINDS = ("containers", "initContainers", "ephemeralContainers")


def _one_of(*values: Any) -> Allowed:
    return lambda value: any(value is one or (value == one and type(value) is type(one)) for one in values)


_SAFE_SYSCTLS = [
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
]  # fmt: skip
_BASELINE = [
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
]  # fmt: skip
_SELINUX = _one_of(None, "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_NO_HOST = _one_of(None, "")
_PROFILE = _one_of(None, "RuntimeDefault", "Localhost")

# Control → restricted fields (C: each container; P: the pod) with the values that are allowed; None is undefined.
FIELDS: dict[str, list[tuple[str, Allowed]]] = {
    "HostProcess": [(f"{at}.securityContext.windowsOptions.hostProcess", _one_of(None, False)) for at in "PC"],
    "Host Namespaces": [(f"P.{field}", _one_of(None, False)) for field in ("hostNetwork", "hostPID", "hostIPC")],
    "Privileged Containers": [("C.securityContext.privileged", _one_of(None, False))],
    "Capabilities (baseline)": [("C.securityContext.capabilities.add[*]", lambda value: value in _BASELINE)],
    "HostPath Volumes": [("P.volumes[*].hostPath", _one_of(None))],
    "Host Ports": [("C.ports[*].hostPort", _one_of(None, 0))],
    "Host Probes": [
        (f"C.{handler}.{action}.host", _NO_HOST)
        for handler in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")
        for action in ("httpGet", "tcpSocket")
    ],
    "AppArmor": [(f"{at}.securityContext.appArmorProfile.type", _PROFILE) for at in "PC"],
    "SELinux": [
        *((f"{at}.securityContext.seLinuxOptions.type", _SELINUX) for at in "PC"),
        *((f"{at}.securityContext.seLinuxOptions.{part}", _NO_HOST) for at in "PC" for part in ("user", "role")),
    ],
    "/proc Mount Type": [("C.securityContext.procMount", _one_of(None, "Default"))],
    "Seccomp (baseline)": [(f"{at}.securityContext.seccompProfile.type", _PROFILE) for at in "PC"],
    "Sysctls": [("P.securityContext.sysctls[*].name", lambda value: value is None or value in _SAFE_SYSCTLS)],
    "Running as Non-root user": [(f"{at}.securityContext.runAsUser", lambda value: value != 0) for at in "PC"],
}
_VOLUMES = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret")


def satisfied(pod: Plain) -> set[str]:
    """The controls of "restricted" that the pod satisfies."""
    found = {
        control
        for control, fields in FIELDS.items()
        if all(allowed(value) for path, allowed in fields for value in _values(pod, path))
    }
    notes = (pod.get("metadata") or {}).get("annotations") or {}
    for name, value in notes.items():
        good = value in ("", "runtime/default") or value.startswith("localhost/")
        if name.startswith("container.apparmor.security.beta.kubernetes.io/") and not good:
            found.discard("AppArmor")
    return found | {control for control, holds in _REQUIRED.items() if holds(pod)}


def for_container(pod: Plain, name: str) -> set[str]:
    """The controls that one container satisfies, with what it inherits from the pod."""
    (container,) = [deepcopy(c) for c in _containers(pod) if c.get("name") == name]
    context, inherited = container.setdefault("securityContext", {}), pod["spec"].get("securityContext") or {}
    for field in ("runAsNonRoot", "runAsUser", "seccompProfile", "appArmorProfile", "seLinuxOptions", "windowsOptions"):
        if context.get(field) is None and inherited.get(field) is not None:
            context[field] = deepcopy(inherited[field])
    return satisfied({"spec": {"containers": [container], "os": pod["spec"].get("os")}})


def names(pod: Plain) -> list[str]:
    return [container["name"] for container in _containers(pod)]


def every_control() -> set[str]:
    return {*FIELDS, *_REQUIRED}


def _values(pod: Plain, path: str) -> Iterator[Any]:
    scope, *steps = path.replace("[*]", ".*").split(".")
    for start in [pod["spec"]] if scope == "P" else _containers(pod):
        yield from _at(start, steps)


def _at(value: Any, steps: list[str]) -> Iterator[Any]:
    if not steps:
        yield value
    elif steps[0] == "*":
        for item in value or []:
            yield from _at(item, steps[1:])
    else:
        yield from _at((value or {}).get(steps[0]), steps[1:])


def _containers(pod: Plain) -> list[Plain]:
    return [container for kind in _KINDS for container in pod["spec"].get(kind) or []]


def _volume_types(pod: Plain) -> bool:
    # A volume without a source is an emptyDir.
    return all(set(volume) - {"name"} <= set(_VOLUMES) for volume in pod["spec"].get("volumes") or [])


def _no_escalation(pod: Plain) -> bool:
    values = list(_values(pod, "C.securityContext.allowPrivilegeEscalation"))
    return _is_windows(pod) or all(value is False for value in values)


def _non_root(pod: Plain) -> bool:
    of_pod = next(_values(pod, "P.securityContext.runAsNonRoot"))
    own = list(_values(pod, "C.securityContext.runAsNonRoot"))
    return of_pod is not False and all(value is True or (value is None and of_pod is True) for value in own)


def _seccomp(pod: Plain) -> bool:
    good = ("RuntimeDefault", "Localhost")
    of_pod = next(_values(pod, "P.securityContext.seccompProfile.type"))
    own = list(_values(pod, "C.securityContext.seccompProfile.type"))
    holds = of_pod in (None, *good) and all(value in good or (value is None and of_pod in good) for value in own)
    return _is_windows(pod) or holds


def _capabilities(pod: Plain) -> bool:
    for container in _containers(pod):
        given = (container.get("securityContext") or {}).get("capabilities") or {}
        if "ALL" not in (given.get("drop") or []) or set(given.get("add") or []) - {"NET_BIND_SERVICE"}:
            return _is_windows(pod)
    return True


def _is_windows(pod: Plain) -> bool:
    return (pod["spec"].get("os") or {}).get("name") == "windows"


_REQUIRED: dict[str, Callable[[Plain], bool]] = {
    "Volume Types": _volume_types,
    "Privilege Escalation": _no_escalation,
    "Running as Non-root": _non_root,
    "Seccomp": _seccomp,
    "Capabilities": _capabilities,
}
