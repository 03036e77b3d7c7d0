"""Resolves the path of an overrider, which is relative to the pod or to the workload that has its template.

`/spec/template/…` (for a CronJob `/spec/jobTemplate/spec/template/…`) is relative to the workload, since no pod has
such fields, and so is a path below the template of a configured custom kind. Every other path is relative to the pod.
One policy can therefore be used for workloads of several kinds.
"""

from __future__ import annotations

from collections.abc import Collection

from muster.groups.override.pointer import PointerError, text, tokens

__all__ = ["Bases", "in_pod"]

Bases = Collection[tuple[str, ...]]  # the paths of the templates in custom kinds
_TEMPLATES = (("spec", "template"), ("spec", "jobTemplate", "spec", "template"))
_METADATA = frozenset({"labels", "annotations"})
# The fields of a pod's spec (Kubernetes 1.36). Others belong to the workload, such as /spec/replicas.
_SPEC = frozenset({
    "activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy",
    "enableServiceLinks", "ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers",
    "hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName", "nodeSelector", "os",
    "overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resourceClaims", "resources",
    "restartPolicy", "runtimeClassName", "schedulerName", "schedulingGates", "securityContext", "serviceAccount",
    "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds",
    "tolerations", "topologySpreadConstraints", "volumes", "workloadRef",
})  # fmt: skip


def in_pod(path: str, bases: Bases = (), *, slash: bool = True) -> list[str]:
    """The steps from the pod to the field. Raises PointerError if no pod has it. `slash`: it must begin with /."""
    steps = tokens(path if path.startswith("/") or slash else f"/{path}")
    for template in (*bases, *_TEMPLATES):
        if tuple(steps[: len(template)]) == template:
            steps = steps[len(template) :]
            break
    top, field = [*steps, "", ""][:2]
    known = {"metadata": _METADATA, "spec": _SPEC}.get(top, frozenset())
    if field not in known:
        raise PointerError(f"{path} is not part of the pod ({_hint(top, text(steps))})")
    return steps


def _hint(top: str, path: str) -> str:
    if top == "metadata":
        return "of a pod's metadata only labels and annotations can be overridden"
    if top == "spec":
        return f"a pod has no {path}; the workload itself is never edited"
    return "paths begin with /spec/… or /metadata/…, or with the workload's /spec/template/…"
