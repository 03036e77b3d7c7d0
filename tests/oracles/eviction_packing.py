"""Exact placement of a few pods on a few nodes, under the filters that the generator uses."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from oracles.eviction_model import NODE_GROUP, Gang, Member, World

Part = tuple[str, ...]
STEPS = 200_000  # of one question; a question that needs more is answered with Undecided


class Undecided(Exception):
    """The search ran out of its budget."""


@dataclass
class Effort:
    left: int = STEPS

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Undecided


class FreeCapacity:
    """What is free on the nodes beside the pods that stay."""

    def __init__(self, world: World, job: Gang, gone: Collection[str], groups: bool, terminating: bool = False) -> None:
        """`gone`: pods that no longer count. `terminating`: terminating pods still hold their capacity."""
        self.world = world
        self.job = job
        self.groups = groups
        self.free = {name: dict(offered) for name, offered in world.offered.items()}
        self.ports: dict[str, set[int]] = {name: set() for name in world.nodes}
        self.apps: dict[str, set[str]] = {name: set() for name in world.nodes}
        states = ("placed", "terminating") if terminating else ("placed",)
        for member in world.members.values():
            if member.state in states and member.key not in gone:
                free = self.free[member.node]
                for name, amount in member.request.items():
                    free[name] = free.get(name, 0) - amount
                self.ports[member.node] |= member.ports
                self.apps[member.node].add(member.labels.get("app", ""))

    def domains(self, gone: Collection[str] = ()) -> list[list[str]]:
        """The sets of nodes that the whole job may use: all, or one domain of the level that it requires."""
        level = self.job.level
        names = list(self.world.nodes)
        if not level:
            return [names]
        of = {name: node.metadata.labels.get(level, "") for name, node in self.world.nodes.items()}
        pinned = {of[m.node] for m in self.job.of("placed") if m.key not in gone}
        return [[n for n in names if of[n] == d] for d in sorted({*of.values()} - {""}) if pinned <= {d}]

    def part_domains(self, pods: Sequence[Member], gone: Collection[str]) -> Iterator[dict[Part, str]]:
        """The ways to choose a domain for every sub-group that must share one."""
        level = self.job.part_level
        if not level:
            yield {}
            return
        of = {name: node.metadata.labels.get(level, "") for name, node in self.world.nodes.items()}
        pinned: dict[Part, set[str]] = {}
        for member in self.job.of("placed"):
            if member.key not in gone and member.part is not None:
                pinned.setdefault(member.part, set()).add(of[member.node])
        parts = sorted({m.part for m in pods if m.part is not None})
        free = [[d for d in sorted({*of.values()}) if pinned.get(part, set()) <= {d}] for part in parts]
        for chosen in product(*free):
            yield dict(zip(parts, chosen, strict=True))

    def allows(self, member: Member, node: str) -> bool:
        """The filters that do not depend on the other pods of the claim."""
        labels = self.world.nodes[node].metadata.labels
        if any(labels.get(name) != value for name, value in member.selector.items()):
            return False
        if member.ports & self.ports[node] or (member.apart and member.labels["app"] in self.apps[node]):
            return False
        return not self.groups or self._group_allows(labels.get(NODE_GROUP, ""))

    def _group_allows(self, group: str) -> bool:
        affinity = self.world.queues[self.job.queue].spec.affinity
        if affinity is None:
            return True
        for_, against = affinity.node_group_affinity, affinity.node_group_anti_affinity
        if for_ is not None and for_.required and group not in for_.required:
            return False
        return against is None or group not in against.required


def pack(
    capacity: FreeCapacity, pods: Sequence[Member], effort: Effort, gone: Collection[str] = ()
) -> dict[str, str] | None:
    """Pod → node, or None if there is no placement."""
    for nodes in capacity.domains(gone):
        for domains in capacity.part_domains(pods, gone):
            found = _Packing(capacity, pods, nodes, domains, effort).place()
            if found is not None:
                return found
    return None


class _Packing:
    def __init__(
        self, capacity: FreeCapacity, pods: Sequence[Member], nodes: list[str], domains: dict[Part, str], effort: Effort
    ) -> None:
        self.effort = effort
        self.nodes = nodes
        self.pods = sorted(pods, key=lambda m: (-m.request.get("cpu", 0), repr(m.shape), m.key))
        self.names = sorted({name for m in pods for name in m.request})
        self.requests = [tuple(m.request.get(name, 0) for name in self.names) for m in self.pods]
        self.free = [[capacity.free[n].get(name, 0) for name in self.names] for n in nodes]
        level = capacity.job.part_level
        rack = {n: capacity.world.nodes[n].metadata.labels.get(level, "") for n in nodes}
        self.allowed = [
            [capacity.allows(m, n) and (m.part not in domains or domains[m.part] == rack[n]) for n in nodes]
            for m in self.pods
        ]
        self.alone = [bool(m.ports) or m.apart for m in self.pods]  # one per node: same ports, or apart
        self.taken = [False] * len(nodes)
        self.failed: set[tuple[object, ...]] = set()
        self.chosen: list[int] = []

    def place(self) -> dict[str, str] | None:
        for i, _ in enumerate(self.names):
            usable = sum(max(free[i], 0) for free in self.free)
            if sum(request[i] for request in self.requests) > usable:
                return None
        if not self._from(0):
            return None
        return {m.key: self.nodes[n] for m, n in zip(self.pods, self.chosen, strict=True)}

    def _from(self, i: int) -> bool:
        if i == len(self.pods):
            return True
        first = 0
        if i and self.pods[i].shape == self.pods[i - 1].shape:
            first = self.chosen[-1]  # equal pods go to nodes in order
        state = (i, first, tuple(map(tuple, self.free)), tuple(self.taken))
        if state in self.failed:
            return False
        request = self.requests[i]
        for n in range(first, len(self.nodes)):
            free = self.free[n]
            if not self.allowed[i][n] or (self.alone[i] and self.taken[n]):
                continue
            if any(asked > has for asked, has in zip(request, free, strict=True) if asked):
                continue
            self.effort.step()
            self.free[n] = [has - asked for asked, has in zip(request, free, strict=True)]
            taken, self.taken[n] = self.taken[n], self.taken[n] or self.alone[i]
            self.chosen.append(n)
            if self._from(i + 1):
                return True
            self.chosen.pop()
            self.free[n], self.taken[n] = free, taken
        self.failed.add(state)
        return False
