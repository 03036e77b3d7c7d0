"""Plugins, actions and arguments that Volcano has and muster does not, and what to use instead."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["VOLCANO_ACTIONS", "VOLCANO_ARGUMENTS", "VOLCANO_PLUGINS", "SERVED_BY", "VolcanoOnly"]


class VolcanoOnly(NamedTuple):
    """What a name does in Volcano, and what to use instead."""

    did: str
    instead: str


SERVED_BY = {"network-topology-aware": "topology"}
"""Volcano's names for plugins that have another name in muster."""

VOLCANO_PLUGINS = {
    "capacity-card": VolcanoOnly(
        "shares out accelerator cards by card name", "give the queues their cards in `deserved` and use capacity"
    ),
    "cdp": VolcanoOnly(
        "protects pods for a cooldown time after they started", "protect them with a PodDisruptionBudget and pdb"
    ),
    "deviceshare": VolcanoOnly(
        "shares one GPU among pods and picks the card",
        "use gpu-share, which serves volcano.sh/gpu-memory and volcano.sh/gpu-number; vGPUs are not served",
    ),
    "extender": VolcanoOnly(
        "asks an HTTP server at each hook", "register a Python plugin in the entry-point group muster.plugins"
    ),
    "numa-aware": VolcanoOnly(
        "fits pods to the NUMA nodes of a machine", "set the kubelet's topology manager policy to single-numa-node"
    ),
    "rescheduling": VolcanoOnly(
        "moves running pods to even out the load", "run the Kubernetes descheduler beside muster"
    ),
    "reservation": VolcanoOnly(
        "keeps nodes free for a chosen job", "give the queue a guarantee and use capacity or proportion"
    ),
    "resourcequota": VolcanoOnly("holds jobs back by their namespace's ResourceQuota", "give the queue a capability"),
    "task-topology": VolcanoOnly(
        "puts chosen task roles of a job together or apart", "use pod affinity with predicates and nodeorder"
    ),
    "tdm": VolcanoOnly(
        "lends nodes to revocable pods by the time of day", "taint the nodes on a schedule, or give them a nodegroup"
    ),
    "usage": VolcanoOnly(
        "avoids nodes by their measured load", "use nodeorder or resource-strategy-fit, which go by requests"
    ),
}

VOLCANO_ACTIONS = {
    "elect": VolcanoOnly("chose a job to reserve nodes for", "give the queue a guarantee"),
    "gangpreempt": VolcanoOnly("preempts for a whole gang at once", "use preempt"),
    "gangreclaim": VolcanoOnly("reclaims for a whole gang at once", "use reclaim"),
    "reserve": VolcanoOnly("kept nodes free for the elected job", "give the queue a guarantee"),
    "shuffle": VolcanoOnly(
        "evicts what plugins such as tdm and rescheduling name", "run the Kubernetes descheduler beside muster"
    ),
}

_ALL_NODES = "muster looks at all nodes, always"
_GPUS = "use the plugin gpu-share"
_PROPORTIONAL = "use the plugin resource-strategy-fit with `sra.policy: proportional`"
_TAINTED = "Kubernetes taints such nodes, and predicates obeys taints"
_DOMAINS = "topology fills domains in its own order; use binpack for the nodes inside them"

VOLCANO_ARGUMENTS: dict[str, dict[str, str]] = {
    "predicates": {
        "predicate.CacheEnable": "muster always keeps the answers of predicates",
        "predicate.DynamicResourceAllocationEnable": "muster does not allocate ResourceClaims: such pods wait",
        "predicate.ProportionalEnable": _PROPORTIONAL,
        "predicate.resources": _PROPORTIONAL,
        "predicate.resources.*": _PROPORTIONAL,
        "predicate.GPUSharingEnable": _GPUS,
        "predicate.GPUNumberEnable": _GPUS,
        "predicate.NodeLockEnable": _GPUS,
        "predicate.MemoryPressureEnable": _TAINTED,
        "predicate.DiskPressureEnable": _TAINTED,
        "predicate.PIDPressureEnable": _TAINTED,
    },
    "nodeorder": {
        "selectorspread.weight": "use topology spread constraints and podtopologyspread.weight",
        "volumebinding.weight": "muster does not score nodes by their volumes",
    },
    "network-topology-aware": {
        "weight": _DOMAINS,
        "hypernode.binpack.*": _DOMAINS,
    },
    "enqueue": {"overcommit-factor": "use the plugin overcommit, which has this argument"},
    "preempt": {
        "topologyAwarePreemptWorkerNum": _ALL_NODES,
        "minCandidateNodesPercentage": _ALL_NODES,
        "minCandidateNodesAbsolute": _ALL_NODES,
        "maxCandidateNodesAbsolute": _ALL_NODES,
    },
}
"""Plugin or action → its arguments in some version of Volcano that have no effect in muster, and why or what to do."""
