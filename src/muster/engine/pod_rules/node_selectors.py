"""Node selectors and node affinity over all nodes at once, from the interned label columns.

An expression is decided once per distinct value of its label and taken by code. Expressions of a term are ANDed, the
terms of a required affinity ORed; a nodeSelector must hold besides. A term that cannot be evaluated selects no node, as
kube-scheduler has it, and the terms beside it still count.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools
from muster.engine.core.nodes import Nodes
from muster.engine.core.static import PerSpec, read_only
from muster.model.core import Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec
from muster.model.selectors import expression_matches

Weights = NDArray[np.int64]

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Required(PerSpec[Bools]):
    """Which nodes the pod's nodeSelector and required node affinity accept."""

    def differs(self, old: Node, new: Node) -> bool:
        return old.metadata.labels != new.metadata.labels

    @staticmethod
    def concerns(spec: PodSpec) -> bool:
        affinity = _node_affinity(spec)
        return bool(spec.node_selector) or (affinity is not None and affinity.required is not None)

    def part(self, spec: PodSpec) -> Hashable:
        affinity = _node_affinity(spec)
        return _encode((spec.node_selector, affinity.required if affinity else None))

    def answer(self, spec: PodSpec, nodes: Nodes) -> Bools:
        accepted = np.ones(len(nodes), np.bool_)
        for key, value in spec.node_selector.items():
            accepted &= nodes.labels.where(key, _accepts(key, "In", (value,)))
        affinity = _node_affinity(spec)
        if affinity is not None and affinity.required is not None:
            accepted &= selected(affinity.required, nodes)
        return read_only(accepted)


class Preferred(PerSpec[Weights]):
    """Per node the sum of the weights of the preferred terms that select it."""

    def differs(self, old: Node, new: Node) -> bool:
        return old.metadata.labels != new.metadata.labels

    @staticmethod
    def concerns(spec: PodSpec) -> bool:
        affinity = _node_affinity(spec)
        return affinity is not None and bool(affinity.preferred)

    def part(self, spec: PodSpec) -> Hashable:
        affinity = _node_affinity(spec)
        return _encode(affinity.preferred if affinity else ())

    def answer(self, spec: PodSpec, nodes: Nodes) -> Weights:
        total = np.zeros(len(nodes), np.int64)
        affinity = _node_affinity(spec)
        for preferred in affinity.preferred if affinity else ():
            if preferred.weight:
                total += preferred.weight * term_selects(preferred.preference, nodes)
        return read_only(total)


def selected(selector: NodeSelector, nodes: Nodes) -> Bools:
    """The nodes that one of the terms selects; without terms there are none."""
    found = np.zeros(len(nodes), np.bool_)
    for term in selector.node_selector_terms:
        found |= term_selects(term, nodes)
    return found


def term_selects(term: NodeSelectorTerm, nodes: Nodes) -> Bools:
    """Returns the nodes that every expression of the term matches; an empty term selects none."""
    found = np.full(len(nodes), bool(term.match_expressions or term.match_fields))
    try:
        for e in term.match_expressions:
            found &= nodes.labels.where(e.key, _accepts(e.key, e.operator, e.values))
        for e in term.match_fields:
            found &= _field_selects(e, nodes)
    except ValueError:
        return np.zeros(len(nodes), np.bool_)
    return found


def _accepts(key: str, operator: str, values: Sequence[str]) -> Callable[[str | None], bool]:
    listed = frozenset(values)
    if operator == "In":
        return lambda have: have is not None and have in listed
    if operator == "NotIn":
        return lambda have: have is None or have not in listed
    return lambda have: expression_matches(key, operator, values, {} if have is None else {key: have})


def _field_selects(e: NodeSelectorRequirement, nodes: Nodes) -> Bools:
    """kube-scheduler: metadata.name is the one field there is, and it is only listed (In, NotIn)."""
    if e.key != "metadata.name" or e.operator not in ("In", "NotIn"):
        raise ValueError(f"{e.key} {e.operator} is no selection by field")
    listed = np.zeros(len(nodes), np.bool_)
    listed[[nodes.rank[name] for name in e.values if name in nodes.rank]] = True
    return listed if e.operator == "In" else ~listed


def _node_affinity(spec: PodSpec) -> NodeAffinity | None:
    return spec.affinity.node_affinity if spec.affinity is not None else None
