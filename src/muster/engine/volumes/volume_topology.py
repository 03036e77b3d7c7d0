"""Finds the nodes that can reach volumes: node affinity of volumes, topologies of classes, storage capacity.

Local volumes make as many selectors as there are nodes, each for one of them; so the nodes with a given label value are
looked up, not searched for, and equal selectors are read once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from muster.engine.core.hooks import Bools, Index
from muster.engine.core.nodes import Nodes
from muster.model.affinity import NodeSelector, NodeSelectorTerm
from muster.model.meta import LabelSelector
from muster.model.selectors import check_label_selector, check_node_term, expression_matches
from muster.model.storage import PersistentVolume, TopologySelectorTerm

Requirement = tuple[str, str, Sequence[str]]  # label, operator, values

_encode = msgspec.msgpack.Encoder().encode
_NONE: Index = np.zeros(0, np.int64)
ZONE_LABELS = {  # a volume's label → the label a node may have instead
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}


def zones_of(volume: PersistentVolume) -> tuple[tuple[str, str], ...]:
    """Returns the zone and region labels of a volume."""
    labels = volume.metadata.labels
    return tuple([(key, labels[key]) for key in ZONE_LABELS if key in labels]) if labels else ()


class VolumeTopology:
    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.everywhere: Index = np.arange(len(nodes))
        self.pools: list[Index] = [self.everywhere]  # the nodes of each distinct node affinity; 0 = none given
        self._pool_of: dict[bytes, int] = {}
        self._by_value: dict[str, dict[str, Index]] = {}
        self._flat: tuple[Index, Index, Index] = (_NONE, _NONE, _NONE)
        self._flat_pools = 0

    # --- volumes

    def pool(self, volume: PersistentVolume) -> int:
        """The pool of nodes that reach the volume."""
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return 0
        key = _encode(affinity.required)
        pool = self._pool_of.get(key)
        if pool is None:
            pool = self._pool_of[key] = len(self.pools)
            self.pools.append(self._selected(affinity.required))
        return pool

    def mask(self, pool: int) -> Bools:
        mask = np.zeros(len(self.nodes), np.bool_)
        mask[self.pools[pool]] = True
        return mask

    def spread(self, pools: Index) -> tuple[Index, Index]:
        """All nodes of each of these pools: (position in `pools`, node)."""
        if self._flat_pools != len(self.pools):
            length = np.array([len(p) for p in self.pools], np.int64)
            self._flat = (np.concatenate(self.pools), np.cumsum(length) - length, length)
            self._flat_pools = len(self.pools)
        flat, start, length = self._flat
        sizes = length[pools]
        ends = np.cumsum(sizes)
        position = np.repeat(np.arange(len(pools)), sizes)
        within = np.arange(int(ends[-1]) if len(ends) else 0) - (ends - sizes)[position]
        return position, flat[start[pools][position] + within]

    def _selected(self, selector: NodeSelector) -> Index:
        return self._union(self._term(term) for term in selector.node_selector_terms)

    def _term(self, term: NodeSelectorTerm) -> Index:
        try:
            check_node_term(term, "")
        except ValueError:
            return _NONE  # kube-scheduler: a term that cannot be read matches no node
        if not term.match_expressions and not term.match_fields:
            return _NONE
        # kube-scheduler: a volume's affinity is compared with a node's labels alone, the node's name is not given.
        if not all(expression_matches(e.key, e.operator, e.values, {"metadata.name": ""}) for e in term.match_fields):
            return _NONE
        return self.where([(e.key, e.operator, e.values) for e in term.match_expressions])

    # --- classes and capacity

    def topologies(self, terms: Sequence[TopologySelectorTerm]) -> Bools:
        """Returns the nodes that one of a class's allowed topologies matches; without topologies all nodes."""
        if not terms:
            return np.ones(len(self.nodes), np.bool_)
        found = self._union(
            self.where([(e.key, "In", e.values) for e in term.match_label_expressions])
            for term in terms
            if term.match_label_expressions
        )
        mask = np.zeros(len(self.nodes), np.bool_)
        mask[found] = True
        return mask

    def selected(self, selector: LabelSelector | None) -> Index:
        """The nodes a label selector selects; none selects no node, an empty one selects all."""
        if selector is None:
            return _NONE
        try:
            check_label_selector(selector, "")
        except ValueError:
            return _NONE
        wanted: list[Requirement] = [(key, "In", (value,)) for key, value in selector.match_labels.items()]
        wanted += [(e.key, e.operator, e.values) for e in selector.match_expressions]
        return self.where(wanted)

    # --- labels

    def where(self, requirements: Sequence[Requirement]) -> Index:
        """Returns the nodes whose labels match all of these, sorted."""
        looked_up = [r for r in requirements if r[1] == "In"]
        found = self.everywhere
        for n, (key, _, values) in enumerate(looked_up):
            nodes = self._union(self._valued(key).get(value, _NONE) for value in values)
            found = nodes if n == 0 else np.intersect1d(found, nodes, assume_unique=True)
        for key, operator, values in requirements:
            if operator != "In":
                found = found[self._compare(key, operator, values)[found]]
        return found

    def _compare(self, key: str, operator: str, values: Sequence[str]) -> Bools:
        def accepts(value: str | None) -> bool:
            return expression_matches(key, operator, values, {} if value is None else {key: value})

        return self.nodes.labels.where(key, accepts)

    def _valued(self, key: str) -> dict[str, Index]:
        """Label value → its nodes."""
        known = self._by_value.get(key)
        if known is None:
            codes, values = self.nodes.labels.column(key)
            order = np.argsort(codes, kind="stable").astype(np.int64)
            cuts = np.searchsorted(codes[order], np.arange(len(values) + 1)).tolist()
            known = self._by_value[key] = {
                value: order[cuts[i] : cuts[i + 1]] for i, value in enumerate(values) if value is not None
            }
        return known

    @staticmethod
    def _union(parts: Iterable[Index]) -> Index:
        several = list(parts)
        if len(several) == 1:
            return several[0]
        return np.unique(np.concatenate(several)) if several else _NONE
