"""CustomResourceDefinitions, made from the types of the model.

`schema` turns a type into a structural schema, `definition` puts the rest of a CustomResourceDefinition around it;
`groupmanagement` has muster's own kinds, `volcano` and `topologies` those of its peers.
"""

from __future__ import annotations

from muster.model.crd import groupmanagement, topologies, volcano
from muster.model.crd.definition import Definition

__all__ = ["OURS", "PEERS", "Definition"]

OURS: tuple[Definition, ...] = groupmanagement.DEFINITIONS
"""muster's own."""
PEERS: tuple[Definition, ...] = (*volcano.DEFINITIONS, *topologies.DEFINITIONS)
"""Volcano's, Kueue's and KAI's: for clusters that do not have them."""
