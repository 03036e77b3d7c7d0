"""What each part may do in the cluster: what it was seen to need, and nothing else. No part reads Secrets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

READ = ("get", "list", "watch")

_CORE = ""
_APPS = "apps"
_BATCH = "batch"
_STORAGE = "storage.k8s.io"
_VOLCANO = "scheduling.volcano.sh"
_GROUPS = "groupmanagement.kubeedge.io"
_ADMISSION = "admissionregistration.k8s.io"
_WEBHOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on resources of one API group; with names only on those objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        rule: dict[str, Any] = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return {**rule, "resourceNames": list(self.names)} if self.names else rule


# Applications, up to the object whose labels name a policy.
_OWNERS = (
    Right(_CORE, ("replicationcontrollers",), READ),
    Right(_APPS, ("deployments", "replicasets", "statefulsets", "daemonsets"), READ),
    Right(_BATCH, ("jobs", "cronjobs"), READ),
)
# Workloads of the kinds that the built-in table describes (muster/workloads/kinds.yaml) and whose pods form gangs.
_WORKLOADS = (
    Right("leaderworkerset.x-k8s.io", ("leaderworkersets",), READ),
    Right("jobset.x-k8s.io", ("jobsets",), READ),
    Right("ray.io", ("rayclusters",), READ),
    Right("kubeflow.org", ("pytorchjobs", "tfjobs", "mpijobs", "xgboostjobs", "paddlejobs"), READ),
    Right("sparkoperator.k8s.io", ("sparkapplications",), READ),
)
_DIVISION = Right(_GROUPS, ("nodegroups", "propagationpolicies"), READ)
_EVENTS = Right(_CORE, ("events",), ("create", "patch"))

# What decisions are made from.
_DECIDED_FROM = (
    Right(_CORE, ("nodes", "pods", "namespaces", "persistentvolumes", "persistentvolumeclaims"), READ),
    Right("scheduling.k8s.io", ("priorityclasses", "podgroups", "compositepodgroups", "workloads"), READ),
    Right("policy", ("poddisruptionbudgets",), READ),
    Right(_STORAGE, ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities"), READ),
    Right(_VOLCANO, ("queues", "podgroups"), READ),
    Right("topology.volcano.sh", ("hypernodes",), READ),
    Right("kueue.x-k8s.io", ("topologies",), READ),
    Right("kai.scheduler", ("topologies",), READ),
    *_OWNERS,
    *_WORKLOADS,
    _DIVISION,
)

SCHEDULER: tuple[Right, ...] = (
    *_DECIDED_FROM,
    Right(_CORE, ("pods/binding", "pods/eviction"), ("create",)),
    # Conditions, the nominated node, and the note on a pod that was evicted.
    Right(_CORE, ("pods/status",), ("patch",)),
    # The selected node of a claim; the claim of a volume.
    Right(_CORE, ("persistentvolumeclaims", "persistentvolumes"), ("patch",)),
    # Volcano's own definition of PodGroup has no subresource `status`: there the status is a field like any other.
    Right(_VOLCANO, ("podgroups", "podgroups/status", "queues/status"), ("patch",)),
    # The conditions of Kubernetes' own groups.
    Right("scheduling.k8s.io", ("podgroups/status", "compositepodgroups/status"), ("patch",)),
    _EVENTS,
)

CONTROLLERS: tuple[Right, ...] = (
    Right(_CORE, ("nodes", "pods", "namespaces", "persistentvolumes", "persistentvolumeclaims"), READ),
    Right("policy", ("poddisruptionbudgets",), READ),
    *_OWNERS,
    _DIVISION,
    Right(_GROUPS, ("overridepolicies",), READ),
    # The templates that pods of StatefulSets and DaemonSets were made of.
    Right(_APPS, ("controllerrevisions",), READ),
    # Is a webhook registered that makes new pods right?
    Right(_ADMISSION, ("mutatingwebhookconfigurations",), ("get",), ("muster-webhook",)),
    Right(_CORE, ("pods/eviction",), ("create",)),
    # Images in place, the label by which a pending pod is tried again, why a pod was evicted.
    Right(_CORE, ("pods",), ("patch",)),
    # The labels by which a pod's affinity finds the nodes of its group, and the finalizer that takes them off again.
    Right(_CORE, ("nodes",), ("patch",)),
    Right(_GROUPS, ("nodegroups",), ("patch",)),
    # The label that binds an application to its policy.
    Right(_CORE, ("replicationcontrollers",), ("patch",)),
    Right(_APPS, ("deployments", "replicasets", "statefulsets", "daemonsets"), ("patch",)),
    Right(_BATCH, ("jobs", "cronjobs"), ("patch",)),
    Right(_GROUPS, ("nodegroups/status", "propagationpolicies/status", "overridepolicies/status"), ("patch",)),
    _EVENTS,
)

# The switch: a part of its own, so that nobody else may write groups and change the specs of pods.
POD_GROUPS: tuple[Right, ...] = (
    Right(_CORE, ("pods",), READ),
    Right(_APPS, ("replicasets", "statefulsets", "daemonsets"), READ),
    Right(_BATCH, ("jobs",), READ),
    *_WORKLOADS,
    Right(_VOLCANO, ("podgroups",), (*READ, "create", "patch", "delete")),
    # The group's name, role and sub-group, and the gate that opens.
    Right(_CORE, ("pods",), ("patch",)),
    _EVENTS,
)

EXTENDER: tuple[Right, ...] = (
    Right(_CORE, ("nodes", "pods"), READ),
    # The label by which kube-scheduler tries a pod again that waited for a reservation.
    Right(_CORE, ("pods/status",), ("patch",)),
    *_OWNERS,
    _DIVISION,
    # With --plugins.
    Right(_CORE, ("namespaces",), READ),
    Right("scheduling.k8s.io", ("priorityclasses",), READ),
    Right(_VOLCANO, ("queues", "podgroups"), READ),
)

WEBHOOK: tuple[Right, ...] = (
    Right(_CORE, ("nodes", "pods"), READ),
    *_OWNERS,
    _DIVISION,
    Right(_GROUPS, ("overridepolicies",), READ),
    Right(_VOLCANO, ("queues",), READ),
    # A pod that waited for its policies is let go, or evicted to be made anew, as is one without a place.
    Right(_CORE, ("pods",), ("patch",)),
    Right(_CORE, ("pods/eviction",), ("create",)),
    # The manifests create them; the webhook writes the authority to trust.
    Right(_ADMISSION, _WEBHOOKS, ("get", "update"), ("muster-webhook",)),
)

EDGE_GATE: tuple[Right, ...] = (
    # Only looked at when an application is bound or unbound. Clients read pods with their own tokens.
    Right(_CORE, ("pods",), ("get", "list")),
    *_OWNERS,
    # With --hold-outdated.
    Right(_CORE, ("nodes",), READ),
    _DIVISION,
    Right(_GROUPS, ("overridepolicies",), READ),
)

# It writes nothing.
DASHBOARD: tuple[Right, ...] = (*_DECIDED_FROM, Right(_GROUPS, ("overridepolicies",), READ))


# In the namespace it runs in: the ConfigMap that names further kinds of applications.
CONFIGURED: tuple[Right, ...] = (Right(_CORE, ("configmaps",), READ, ("groupmanagement-config",)),)
# … and the one that describes further workload kinds.
DESCRIBED: tuple[Right, ...] = (
    Right(_CORE, ("configmaps",), READ, ("groupmanagement-config", "muster-workload-kinds")),
)


def own_configuration(name: str) -> tuple[Right, ...]:
    """In the namespace it runs in: the ConfigMap that it is configured by."""
    return (Right(_CORE, ("configmaps",), READ, (name,)),)


# … and the Leases of the parts whose work the controllers rely on, which say whether they are alive.
OTHER_LEASES: tuple[Right, ...] = (
    Right("coordination.k8s.io", ("leases",), ("get",), ("muster-webhook", "muster-extender", "muster-scheduler")),
)


def own_lease(name: str) -> tuple[Right, ...]:
    """What a part may do where it runs: hold its Lease."""
    return (
        # An object that is being created has no name yet that a rule could list.
        Right("coordination.k8s.io", ("leases",), ("create",)),
        Right("coordination.k8s.io", ("leases",), ("get", "update"), (name,)),
    )
