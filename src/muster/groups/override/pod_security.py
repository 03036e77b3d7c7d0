"""The controls of the Pod Security Standard "restricted" (Kubernetes 1.34 and newer), as violations of one pod.

A violation is a value: its control and what is wrong. Two pods are compared by the sets of their violations, so a
template that already violates a control in one way does not permit its edition to violate it in another way. The
controls of a container look at the values that take effect, with what it inherits from the pod's security context.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["CONTAINERS", "Plain", "Violation", "container_violations", "containers", "is_windows", "mapping",
           "mappings", "pod_violations", "source_of", "texts"]  # fmt: skip

Plain = dict[str, Any]
Violation = tuple[str, str]  # the control, and what is wrong

CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_VOLUMES = frozenset({
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
})  # fmt: skip
_SYSCTLS = frozenset({
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
})  # fmt: skip
_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_PROBES = (
    ("livenessProbe",), ("readinessProbe",), ("startupProbe",), ("lifecycle", "postStart"), ("lifecycle", "preStop"),
)  # fmt: skip


def pod_violations(pod: Plain) -> Iterator[Violation]:
    """The controls on the pod's own fields."""
    spec = mapping(pod.get("spec"))
    context = mapping(spec.get("securityContext"))
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield "Host Namespaces", field
    for volume in mappings(spec.get("volumes")):
        kind, source = source_of(volume)
        if kind not in _VOLUMES:
            control = "HostPath Volumes" if kind == "hostPath" else "Volume Types"
            yield control, f"volume of type {kind} {json.dumps(source, sort_keys=True, default=str)}"
    for sysctl in mappings(context.get("sysctls")):
        if sysctl.get("name") not in _SYSCTLS:
            yield "Sysctls", f"{sysctl.get('name')}={sysctl.get('value')}"
    for name, value in mapping(mapping(pod.get("metadata")).get("annotations")).items():
        fits = value in ("", "runtime/default") or str(value).startswith("localhost/")
        if name.startswith(_APPARMOR) and not fits:
            yield "AppArmor", f"annotation {name}: {value}"
    if context.get("runAsNonRoot") is False:
        yield "Running as Non-root", "runAsNonRoot is false"
    if context.get("seccompProfile") is not None:
        yield from _seccomp(context)
    yield from _inherited(context)


def container_violations(container: Plain, pod: Plain, *, windows: bool = False) -> Iterator[Violation]:
    """The controls on a container of the pod. `windows`: without those that Windows containers are exempt from."""
    context = mapping(container.get("securityContext"))
    effective = _effective(mapping(mapping(pod.get("spec")).get("securityContext")), context)
    if context.get("privileged"):
        yield "Privileged Containers", "privileged"
    if context.get("procMount") not in (None, "", "Default"):
        yield "/proc Mount Type", f"procMount {context['procMount']}"
    for port in mappings(container.get("ports")):
        if port.get("hostPort"):
            address = f"{port.get('hostIP') or '*'}:{port['hostPort']}/{port.get('protocol') or 'TCP'}"
            yield "Host Ports", f"hostPort {address}"
    yield from _probe_hosts(container)
    if effective.get("runAsNonRoot") is not True:
        yield "Running as Non-root", "runAsNonRoot is not true"
        if not effective.get("runAsUser"):
            yield "Running as Non-root", "may run as root"  # beyond the standard: the template names another user
    yield from _inherited(effective)
    yield from _seccomp(effective, windows=windows)
    capabilities = mapping(context.get("capabilities"))
    for name in texts(capabilities.get("add")):
        if name != "NET_BIND_SERVICE":
            yield "Capabilities", f"adds {name}"
    if windows:
        return
    if "ALL" not in texts(capabilities.get("drop")):
        yield "Capabilities", "does not drop ALL"
    if context.get("allowPrivilegeEscalation") is not False:
        yield "Privilege Escalation", "allowPrivilegeEscalation is not false"


def _effective(pod: Plain, container: Plain) -> Plain:
    """The effective security context: the container's values, and the pod's where it has none."""
    merged = {**pod, **{field: value for field, value in container.items() if value is not None}}
    own = mapping(container.get("windowsOptions")).items()
    inherited = mapping(pod.get("windowsOptions"))
    merged["windowsOptions"] = {**inherited, **{field: value for field, value in own if value is not None}}
    return merged


def _inherited(context: Plain) -> Iterator[Violation]:
    """The controls that hold for the pod's security context and for that of each container."""
    if mapping(context.get("windowsOptions")).get("hostProcess"):
        yield "HostProcess", "hostProcess"
    if context.get("runAsUser") == 0:
        yield "Running as Non-root user", "runAsUser is 0"
    profile = mapping(context.get("appArmorProfile")).get("type")
    if profile not in (None, "", "RuntimeDefault", "Localhost"):
        yield "AppArmor", f"appArmorProfile {profile}"
    options = mapping(context.get("seLinuxOptions"))
    if (options.get("type") or "") not in _SELINUX_TYPES:
        yield "SELinux", f"type {options['type']}"
    for field in ("user", "role"):
        if options.get(field):
            yield "SELinux", f"{field} {options[field]}"


def _seccomp(context: Plain, *, windows: bool = False) -> Iterator[Violation]:
    profile = mapping(context.get("seccompProfile")).get("type")
    if profile in ("RuntimeDefault", "Localhost"):
        return
    if not windows:
        yield "Seccomp", "seccompProfile is neither RuntimeDefault nor Localhost"
    if profile:
        yield "Seccomp", f"seccompProfile {profile}"  # worse than none: the kubelet may have a default


def _probe_hosts(container: Plain) -> Iterator[Violation]:
    for path in _PROBES:
        handler = container
        for step in path:
            handler = mapping(handler.get(step))
        for action in ("httpGet", "tcpSocket"):
            host = mapping(handler.get(action)).get("host")
            if host:
                yield "Host Probes / Lifecycle Hooks", f"{'.'.join(path)}.{action}.host {host}"


def is_windows(pod: Plain) -> bool:
    return mapping(mapping(pod.get("spec")).get("os")).get("name") == "windows"


def source_of(volume: Plain) -> tuple[str, Plain]:
    """The volume's type and its source; Kubernetes makes an emptyDir of a volume without one."""
    kinds = sorted(kind for kind, source in volume.items() if kind != "name" and source is not None)
    # Two sources are invalid; the one that is not permitted, if there is one, must not hide behind the other.
    kind = next((kind for kind in kinds if kind not in _VOLUMES), kinds[0] if kinds else "emptyDir")
    return kind, mapping(volume.get(kind))


def containers(pod: Plain) -> Iterator[Plain]:
    """All containers of a pod, with init and ephemeral containers."""
    spec = mapping(pod.get("spec"))
    for field in CONTAINERS:
        yield from mappings(spec.get(field))


def mapping(value: Any) -> Plain:
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[Plain]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
