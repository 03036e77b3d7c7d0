"""Volcano's kinds, for a cluster that has no Volcano: Queue, PodGroup, HyperNode.

An object that Volcano accepts is accepted here, too; what can never be intended is refused.
"""

from __future__ import annotations

from muster.model import scheduling, topology
from muster.model.crd.schema import COUNT, LABEL_KEY, REFERENCE, SHARED, Column, Definition, Demands, Rule, Schema

_POSITIVE: Schema = {"minimum": 1}

_QUEUE: dict[type, Demands] = {
    **SHARED,
    scheduling.Queue: Demands(
        rules=[
            Rule(
                "!has(self.spec.parent) || self.spec.parent != self.metadata.name",
                "a queue cannot be its own parent",
                ".spec.parent",
            )
        ]
    ),
    scheduling.QueueSpec: Demands(
        fields={
            "weight": {"minimum": 1, "maximum": 65535, "description": "Its weight relative to its siblings."},
            "capability": {"description": "The most it may use; a resource that is absent has no limit."},
            "deserved": {"description": "The amount that it can reclaim from other queues when it needs it."},
            "reclaimable": {"description": "Whether others may reclaim its usage above its share; true if absent."},
            "parent": {**REFERENCE, "description": "The parent queue; root if absent."},
            "priority": {**COUNT, "description": "Queues of higher priority come first."},
            "dequeueStrategy": {
                "enum": ["fifo", "traverse"],
                "description": "Whether a job that does not fit blocks the jobs behind it (fifo) or not (traverse).",
            },
        },
    ),
}

_NETWORK = Demands(
    fields={"mode": {"enum": ["hard", "soft"]}, "highestTierAllowed": COUNT},
    rules=[
        Rule(
            "!has(self.highestTierAllowed) || !has(self.highestTierName) || self.highestTierName == ''",
            "highestTierAllowed and highestTierName cannot both be given",
            ".highestTierName",
        )
    ],
)
_POD_GROUP: dict[type, Demands] = {
    **SHARED,
    scheduling.PodGroupSpec: Demands(
        fields={
            "minMember": {**COUNT, "description": "The number of its pods that must be able to start together."},
            "minTaskMember": {"additionalProperties": COUNT, "description": "The same by the role of the pods."},
            "queue": {"minLength": 1, "maxLength": 253},
            "minResources": {"description": "The resources that must be available before its pods are scheduled."},
            "subGroupPolicy": {"maxItems": 256},
            "subGroups": {"maxItems": 256},
        },
    ),
    scheduling.NetworkTopology: _NETWORK,
    scheduling.SubGroupPolicy: Demands(
        required=("name",),
        fields={"name": {"minLength": 1}, "subGroupSize": _POSITIVE, "minSubGroups": COUNT},
    ),
    scheduling.SubGroup: Demands(
        required=("name",),
        fields={"name": {"minLength": 1, "maxLength": 253}, "minMember": _POSITIVE, "parent": {"maxLength": 253}},
        rules=[
            Rule("!has(self.parent) || self.parent != self.name", "a sub-group cannot be its own parent", ".parent")
        ],
    ),
    scheduling.TopologyConstraint: Demands(
        fields={
            "requiredTopologyLevel": {"maxLength": LABEL_KEY["maxLength"]},
            "preferredTopologyLevel": {"maxLength": LABEL_KEY["maxLength"]},
        }
    ),
}

_HYPER_NODE: dict[type, Demands] = {
    **SHARED,
    topology.HyperNode: Demands(required=("spec",)),
    topology.HyperNodeSpec: Demands(
        required=("tier",),
        fields={"tier": {**COUNT, "description": "1 is the nearest."}, "tierName": {"maxLength": 253}},
    ),
    topology.HyperNodeMember: Demands(required=("type",), fields={"type": {"enum": ["Node", "HyperNode"]}}),
    topology.MemberSelector: Demands(
        rules=[
            Rule(
                "(has(self.exactMatch) ? 1 : 0) + (has(self.regexMatch) ? 1 : 0) + (has(self.labelMatch) ? 1 : 0) == 1",
                "give one of exactMatch, regexMatch and labelMatch",
            )
        ]
    ),
    topology.ExactMatch: Demands(required=("name",), fields={"name": {"minLength": 1}}),
    topology.RegexMatch: Demands(required=("pattern",), fields={"pattern": {"minLength": 1}}),
}

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        scheduling.Queue, "scheduling.volcano.sh/v1beta1", "queues", ("q", "queue-v1beta1"),
        (
            Column("Parent", ".spec.parent"),
            Column("Weight", ".spec.weight", "integer"),
            Column("State", ".status.state"),
            Column("Running", ".status.running", "integer"),
            Column("Pending", ".status.pending", "integer"),
            Column("Inqueue", ".status.inqueue", "integer"),
            Column("Allocated", ".status.allocated", priority=1),
            Column("Capability", ".spec.capability", priority=1),
        ),
        _QUEUE,
    ),
    Definition(
        scheduling.PodGroup, "scheduling.volcano.sh/v1beta1", "podgroups", ("pg", "podgroup-v1beta1"),
        (
            Column("Status", ".status.phase"),
            Column("MinMember", ".spec.minMember", "integer"),
            Column("Running", ".status.running", "integer"),
            Column("Queue", ".spec.queue", priority=1),
            Column("Reason", '.status.conditions[?(@.type=="Unschedulable")].message', priority=1),
        ),
        _POD_GROUP,
    ),
    Definition(
        topology.HyperNode, "topology.volcano.sh/v1alpha1", "hypernodes", ("hn",),
        (Column("Tier", ".spec.tier", "integer"), Column("Nodes", ".status.nodeCount", "integer")),
        _HYPER_NODE,
    ),
)  # fmt: skip


_TOPOLOGY: dict[type, Demands] = {
    topology.Topology: Demands(required=("spec",)),
    topology.TopologySpec: Demands(
        required=("levels",),
        fields={
            "levels": {
                "minItems": 1,
                "maxItems": 16,
                "x-kubernetes-validations": [
                    rule.plain()
                    for rule in (
                        Rule("self == oldSelf", "the levels of a topology cannot be changed"),
                        Rule(
                            "self.all(one, self.exists_one(other, other.nodeLabel == one.nodeLabel))",
                            "a node label can be only one level",
                        ),
                        Rule(
                            "!self.exists(one, one.nodeLabel == 'kubernetes.io/hostname')"
                            " || self[self.size() - 1].nodeLabel == 'kubernetes.io/hostname'",
                            "kubernetes.io/hostname can only be the last level",
                        ),
                    )
                ],
            }
        },
    ),
    topology.TopologyLevel: Demands(required=("nodeLabel",), fields={"nodeLabel": LABEL_KEY}),
}

TOPOLOGIES: tuple[Definition, ...] = tuple(
    Definition(
        topology.Topology, version, "topologies", columns=(Column("Levels", ".spec.levels"),),
        demands=_TOPOLOGY,
    )
    for version in ("kueue.x-k8s.io/v1alpha1", "kai.scheduler/v1alpha1")
)  # fmt: skip
