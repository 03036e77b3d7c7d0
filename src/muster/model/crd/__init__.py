"""CustomResourceDefinitions, generated from the types of the model.

`schema` turns a type into a structural schema and a CustomResourceDefinition; `groupmanagement` has muster's own kinds,
`volcano` those of Volcano, Kueue and KAI.
"""

from __future__ import annotations

from muster.model.crd import groupmanagement, volcano
from muster.model.crd.schema import Definition

__all__ = ["OURS", "PEERS", "Definition"]

OURS: tuple[Definition, ...] = groupmanagement.DEFINITIONS
"""The kinds that muster defines."""
PEERS: tuple[Definition, ...] = (*volcano.DEFINITIONS, *volcano.TOPOLOGIES)
"""The kinds of Volcano, Kueue and KAI, for clusters that do not have them."""
