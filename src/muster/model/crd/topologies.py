"""Topology, for a cluster that has neither Kueue nor KAI: the same kind under either's apiVersion."""

from __future__ import annotations

from muster.model import topology
from muster.model.crd.definition import Column, Definition
from muster.model.crd.schema import Demands, Rule
from muster.model.crd.words import LABEL_KEY

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

DEFINITIONS: tuple[Definition, ...] = tuple(
    Definition(
        topology.Topology, version, "topologies", columns=(Column("Levels", ".spec.levels[*].nodeLabel"),),
        demands=_TOPOLOGY,
    )
    for version in ("kueue.x-k8s.io/v1alpha1", "kai.scheduler/v1alpha1")
)  # fmt: skip
