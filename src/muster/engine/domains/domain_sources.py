"""Where domain trees come from: a Topology's node labels, or HyperNodes that name their members.

A fault in one object is kept with its tree for reports; it never stops the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
from msgspec import Struct, field

from muster.engine.core.nodes import Nodes
from muster.engine.domains.domain_tree import DomainTree, tree_of
from muster.model.selectors import matches
from muster.model.topology import HyperNode, HyperNodeMember, Topology

MAX_PATTERN_CHARACTERS = 2000
HYPERNODES = "HyperNodes"  # the name of the tree that all of them make up


class Fault(Struct, frozen=True):
    """A problem of an object that defines domains."""

    object: str  # "Topology name"
    code: str
    message: str
    fix: str


class Source(Struct):
    """A tree and what is wrong with the objects it was made of."""

    tree: DomainTree
    faults: list[Fault] = field(default_factory=list)


def from_topology(topology: Topology, nodes: Nodes) -> Source:
    """The tree of a Topology: a node is in it if it has the label of every level, whatever its value."""
    name = topology.metadata.name
    about = f"Topology {name}"
    faults: list[Fault] = []
    keys: list[str] = []
    for i, level in enumerate(topology.spec.levels):
        key = level.node_label
        if not key:
            faults.append(Fault(about, "topology-level", f"spec.levels[{i}].nodeLabel is empty", "name a node label"))
        elif key in keys:
            message = f"the level {key} is twice in spec.levels: the second is ignored"
            faults.append(Fault(about, "topology-level-twice", message, "take it out"))
        else:
            keys.append(key)
    if not keys:
        message = "has no levels: no group can be placed by it"
        faults.append(Fault(about, "topology-without-levels", message, "give spec.levels, from the widest down"))
    columns = [nodes.labels.column(key) for key in keys]
    codes = np.full((len(keys), len(nodes)), -1, np.int64)
    inside = np.ones(len(nodes), np.bool_)
    labelled = np.zeros(len(nodes), np.bool_)
    for key in keys:
        inside &= nodes.labels.has(key)
        labelled |= nodes.labels.has(key)
    for row, (column, _) in enumerate(columns):
        codes[row, inside] = column[inside]
    if keys and len(nodes) and not inside.any():
        message = f"no node has the labels of all its levels ({', '.join(keys)})"
        faults.append(Fault(about, "topology-without-nodes", message, "label the nodes, or correct the levels"))
    elif (partly := np.flatnonzero(labelled & ~inside)).size:
        first = int(partly[0])
        lacks = next(key for key in keys if not nodes.labels.has(key)[first])
        message = (
            f"{partly.size} of {len(nodes)} nodes have only some of the labels of its levels ({', '.join(keys)}) and "
            f"are in no domain; the first is {nodes.names[first]}, which lacks {lacks}"
        )
        faults.append(Fault(about, "topology-partial-labels", message, "give them the other labels"))
    names = [[value or "" for value in values] for _, values in columns]
    return Source(tree_of(name, keys, codes, names), faults)


def name_matcher(pattern: str) -> Callable[[str], bool]:
    """Compiles a `regexMatch` as Go's MatchString reads it: unanchored, matched in linear time.

    Raises ValueError with the reason if Go refuses the expression.
    """
    import re2  # only a cluster with a regexMatch needs it

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise ValueError(f"is longer than {MAX_PATTERN_CHARACTERS} characters")
    if re.search(r"(?<!\\)(\\\\)*\\C", pattern):
        raise ValueError("invalid escape sequence: \\C")  # RE2 matches a single byte with it, Go does not know it
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
    return lambda name: compiled.search(name) is not None


def from_hypernodes(hypernodes: Mapping[str, HyperNode], nodes: Nodes) -> Source:
    """The one tree of all HyperNodes. Its levels are the tiers, the highest first."""
    return _HyperNodes(hypernodes, nodes).source()


class _HyperNodes:
    def __init__(self, hypernodes: Mapping[str, HyperNode], nodes: Nodes) -> None:
        self.all = dict(sorted(hypernodes.items()))
        self.nodes = nodes
        self.faults: list[Fault] = []
        self.parent: dict[str, str] = {}
        self.leaf: dict[int, str] = {}  # node → the nearest HyperNode that names it

    def source(self) -> Source:
        for name in self.all:
            self._adopt(name)
        circular = self._cycles()
        self._ignore_wrong_tiers(circular)
        tiers = sorted({h.spec.tier for n, h in self.all.items() if n not in circular}, reverse=True)
        row = {tier: i for i, tier in enumerate(tiers)}
        known = list(self.all)
        code = {name: i for i, name in enumerate(known)}
        codes = np.full((len(tiers), len(self.nodes)), -1, np.int64)
        for node, leaf in self.leaf.items():
            at: str | None = leaf
            while at is not None and at not in circular:
                codes[row[self.all[at].spec.tier], node] = code[at]
                at = self.parent.get(at)
        keys = [str(tier) for tier in tiers]
        return Source(tree_of(HYPERNODES, keys, codes, [known] * len(tiers)), self.faults)

    def _report(self, name: str, code: str, message: str, fix: str) -> None:
        self.faults.append(Fault(f"HyperNode {name}", code, message, fix))

    def _adopt(self, name: str) -> None:
        """Assigns the members of one HyperNode to it, unless a nearer or an earlier HyperNode has them."""
        tier = self.all[name].spec.tier
        for member in self.all[name].spec.members:
            if member.type == "HyperNode":
                for child in self._named(name, member, self.all):
                    self._take(name, child)
            else:
                for node_name in self._named(name, member, self.nodes.rank):
                    node = self.nodes.rank[node_name]
                    other = self.leaf.get(node)
                    if other is None or tier < self.all[other].spec.tier:
                        self.leaf[node] = name
                    elif tier == self.all[other].spec.tier and other != name:
                        message = f"node {node_name} is a member of {other}, of the same tier: it stays there"
                        self._report(name, "hypernode-overlap", message, "name each node in one HyperNode of a tier")

    def _take(self, name: str, child: str) -> None:
        if self.parent.setdefault(child, name) != name:
            message = f"HyperNode {child} is a member of {self.parent[child]}, too: it stays there"
            self._report(name, "hypernode-overlap", message, "name each HyperNode in one other")

    def _ignore_wrong_tiers(self, circular: set[str]) -> None:
        """A HyperNode must be of a higher tier than its members; a membership that is not is ignored."""
        for child, name in sorted(self.parent.items()):
            low, high = self.all[child].spec.tier, self.all[name].spec.tier
            if high <= low and not {child, name} <= circular:
                message = f"its tier {high} is not above the tier {low} of its member {child}: that is ignored"
                self._report(name, "hypernode-tier", message, "give what contains others the higher tier")
                del self.parent[child]

    def _cycles(self) -> set[str]:
        """The HyperNodes that contain each other in a circle; they are left out, and reported once per circle."""
        circular: set[str] = set()
        for name in self.all:
            seen: list[str] = []
            at: str | None = name
            while at is not None and at not in seen:
                seen.append(at)
                at = self.parent.get(at)
            if at is None or at in circular:
                continue
            ring = seen[seen.index(at) :]
            circular.update(ring)
            message = f"contains itself ({' in '.join([*ring, ring[0]])}): left out"
            self._report(min(ring), "hypernode-cycle", message, "take the one out of the other's spec.members")
        return circular

    def _named(self, name: str, member: HyperNodeMember, among: Mapping[str, object]) -> list[str]:
        """Returns the names that one selector matches; a missing name is reported."""
        selector = member.selector
        found: list[str] = []
        if selector.exact_match is not None:
            if selector.exact_match.name in among:
                found.append(selector.exact_match.name)
            else:
                message = f"there is no {member.type} {selector.exact_match.name or '(no name)'}"
                self._report(name, "hypernode-member", message, "correct spec.members")
        if selector.regex_match is not None:
            pattern = self._pattern(name, selector.regex_match.pattern)
            found += [other for other in among if pattern(other)]
        if selector.label_match is not None and member.type != "HyperNode":
            labels, wanted = self.nodes.labels, selector.label_match
            found += [other for i, other in enumerate(self.nodes.names) if matches(wanted, labels.of(i))]
        return sorted(dict.fromkeys(found))

    def _pattern(self, name: str, text: str) -> Callable[[str], bool]:
        try:
            return name_matcher(text)
        except ValueError as error:
            message = f"{text[:100]!r} is not a regular expression as Go has them: {error}"
            self._report(name, "hypernode-pattern", message, "correct the pattern")
            return lambda _: False
