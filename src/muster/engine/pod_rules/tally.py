"""Counts of pods per topology domain, kept current move by move; and the domains of a node label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools
from muster.engine.core.nodes import Nodes
from muster.engine.core.values import ClassKey

Codes = NDArray[np.int64]


class LabelDomains:
    """The values of a node label: a code per node; the last code, `absent`, is for nodes without the label."""

    __slots__ = ("_labelled_codes", "_narrow", "absent", "codes", "listed", "single")

    def __init__(self, codes: Codes, absent: int) -> None:
        self.codes = codes
        self.absent = absent
        self.listed: list[int] = codes.tolist()
        # every node has the label, and each a different value: what changes in a domain changes for one node
        self.single = absent == len(codes) and absent not in self.listed
        self._narrow: bool | None = True if self.single else None
        self._labelled_codes: Codes | None = None

    @classmethod
    def of(cls, nodes: Nodes, key: str) -> LabelDomains:
        codes, values = nodes.labels.column(key)
        return cls(codes.astype(np.int64), len(values) - 1)

    @classmethod
    def nodes(cls, nodes: Nodes) -> LabelDomains:
        """Makes every node a separate domain, whatever its labels."""
        return cls(np.arange(len(nodes)), len(nodes))

    @property
    def labelled(self) -> Bools:
        labelled: Bools = self.codes != self.absent
        return labelled

    @property
    def labelled_codes(self) -> Codes:
        """Returns per node 1 if it has the label, or 0; always the same array."""
        if self._labelled_codes is None:
            self._labelled_codes = self.labelled.astype(np.int64)
        return self._labelled_codes

    @property
    def narrow(self) -> bool:
        """Returns whether no two nodes have the same value."""
        if self._narrow is None:
            self._narrow = bool((np.bincount(self.codes, minlength=self.absent + 1)[: self.absent] <= 1).all())
        return self._narrow

    def only(self, eligible: Bools) -> LabelDomains:
        """The same domains with the other nodes left out of all counts."""
        return LabelDomains(np.where(eligible, self.codes, self.absent), self.absent)


class Tally:
    """Per domain the number of certain pods, or the sum of their weights. Nodes without the label do not count."""

    __slots__ = ("counts", "domains", "pods", "presence", "some", "version")

    def __init__(self, domains: LabelDomains) -> None:
        self.domains = domains
        self.counts = np.zeros(domains.absent + 1, np.int32)  # half the memory: there may be one per Deployment
        self.some = np.zeros(domains.absent + 1, np.bool_)  # counts > 0
        self.pods = 0  # how many are counted in all
        self.version = 0  # grows with each change
        self.presence = Presence(self)

    def add(self, nodes: Sequence[int], weight: int, sign: int) -> None:
        """A pod of this weight comes to (sign +1) or leaves (−1) each of the nodes."""
        domains = self.domains
        if len(nodes) > 16:
            codes = domains.codes[np.asarray(nodes, np.int64)]
            codes = codes[codes != domains.absent]
            np.add.at(self.counts, codes, weight * sign)
            self.some[codes] = self.counts[codes] > 0
            self.pods += sign * len(codes)
            self.version += 1
            return
        for node in nodes:
            code = domains.listed[node]
            if code != domains.absent:
                count = int(self.counts[code]) + weight * sign
                self.counts[code] = count
                self.some[code] = count > 0
                self.pods += sign
                self.version += 1

    def fill(self, count_by_node: Mapping[int, int], weight: int) -> None:
        """Pods of this weight are on the nodes already, so many on each."""
        codes = self.domains.codes[np.fromiter(count_by_node, np.int64, len(count_by_node))]
        numbers = np.fromiter(count_by_node.values(), np.int64, len(count_by_node))
        counted = codes != self.domains.absent
        self.version += 1
        np.add.at(self.counts, codes[counted], weight * numbers[counted])
        np.greater(self.counts, 0, out=self.some)
        self.pods += int(numbers[counted].sum())

    # --- for narrow domains: `NodeCounts`

    @property
    def empty(self) -> bool:
        return not self.pods

    def on(self, node: int) -> int:
        return int(self.counts[self.domains.listed[node]])

    def per_node(self) -> Codes:
        return self.counts.take(self.domains.codes).astype(np.int64)


class Presence:
    """Per node 1 where a tally counts some pod, or 0: `NodeCounts` of a tally with narrow domains."""

    __slots__ = ("_tally",)

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    @property
    def empty(self) -> bool:
        return not self._tally.pods

    def on(self, node: int) -> int:
        return 1 if self._tally.some[self._tally.domains.listed[node]] else 0

    def per_node(self) -> Codes:
        return self._tally.some.take(self._tally.domains.codes).astype(np.int64)


def class_key_of_presence(tallies: Iterable[Tally]) -> ClassKey:
    """Nodes differ by their domains, or where these are narrow by whether there is a pod."""
    found = class_key_of_tallies(tallies)
    return replace(found, counts=tuple([tally.presence for tally in found.counts if isinstance(tally, Tally)]))


def class_key_of_tallies(tallies: Iterable[Tally]) -> ClassKey:
    """Nodes differ by their domains, or where these are narrow by the counts there."""
    distinct = {id(tally): tally for tally in tallies}.values()
    wide = [tally for tally in distinct if not tally.domains.narrow]
    return ClassKey(
        codes=tuple(tally.domains.codes for tally in wide),
        counts=tuple(tally for tally in distinct if tally.domains.narrow),
        generation=(lambda: tuple([tally.version for tally in wide])) if wide else None,
    )
