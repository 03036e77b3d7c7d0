"""Volumes in one cycle: where a pod's claims can be met, and what is reserved for the pods placed so far.

A claim that waits for its first pod is settled when a pod that uses it is placed: it gets a free volume, or will be
made for that node. From then on the claim stands: other pods that use it go where it is, other claims see the volume
taken. What is reserved is counted by the pods that hold it, so taking a placement back is exact in any order.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools, Index, Ledger
from muster.engine.core.jobs import Shape, Task
from muster.engine.core.nodes import Kind
from muster.engine.volumes.volume_claims import Claim, Claims, PodClaims, claim_name
from muster.engine.volumes.volume_match import Matching, Provision
from muster.engine.volumes.volume_topology import VolumeTopology
from muster.engine.volumes.volume_use import VolumeUse, disks_of
from muster.model.meta import Object
from muster.model.pod_states import is_terminating
from muster.model.storage import PersistentVolume

if TYPE_CHECKING:
    from muster.engine.core.session import Session
    from muster.engine.core.statement import Move

# Codes of `Found`, in the order in which kube-scheduler names them.
FITS, NODE_AFFINITY, NO_VOLUME, NO_STORAGE, VOLUME_GONE = range(5)


@dataclass(frozen=True, slots=True)
class Settled:
    """What an unbound claim is to be: bound to a volume, or made for a node."""

    volume: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """Where the claims of a pod can be met: a code per node, and per claim the number of its volume, −1 = made."""

    code: NDArray[np.uint16]
    chosen: list[tuple[Claim, Index]]


def volume_signature(task: Task) -> Hashable | None:
    """What the volume rules read of a pod besides its spec: its claims are those of its namespace, or its own."""
    volumes = task.shape.spec.volumes
    if not volumes:
        return None
    named = own = False
    for volume in volumes:
        named = named or volume.persistent_volume_claim is not None
        own = own or volume.ephemeral is not None
    return (task.namespace, task.name if own else "") if named or own else None


class Volumes(Ledger):
    def __init__(self, session: Session) -> None:
        self.nodes = session.state.nodes
        self.objects: Mapping[str, Mapping[str, Object]] = session.state.objects
        self.claims = Claims(self.objects)
        self.settled: dict[str, Settled] = {}  # claim key → what this cycle made of it
        self._holders: dict[str, int] = {}  # claim key → pods that hold it
        self._held: dict[str, list[str]] = {}  # pod key → the claims it holds
        self._kinds: dict[int, tuple[bool, bool]] = {}  # shape → (has claims, has disks)
        self._pod_claims: dict[tuple[int, Hashable], PodClaims] = {}
        self._found: dict[tuple[int, Hashable], Found] = {}  # void when a reservation changes
        self._topology: VolumeTopology | None = None
        self._matching: Matching | None = None
        self._use: VolumeUse | None = None
        self._staying: VolumeUse | None = None
        self._provision: Provision | None = None

    # --- what a pod has

    def kinds(self, shape: Shape) -> tuple[bool, bool]:
        """Has such a pod claims? Disks that the spec itself names?"""
        known = self._kinds.get(shape.id)
        if known is None:
            volumes = shape.spec.volumes
            has_claims = any(claim_name("", v) is not None for v in volumes) if volumes else False
            known = self._kinds[shape.id] = (has_claims, bool(volumes) and bool(disks_of(shape.spec)))
        return known

    def of(self, task: Task) -> PodClaims:
        key = (task.shape.id, volume_signature(task))
        known = self._pod_claims.get(key)
        if known is None:
            known = self._pod_claims[key] = self.claims.of(task)
        return known

    def volume(self, name: str) -> PersistentVolume | None:
        found = self.objects.get("PersistentVolume", {}).get(name)
        return found if isinstance(found, PersistentVolume) else None

    def volume_name(self, claim: Claim) -> str:
        """The volume the claim is bound to, or is to be bound to since this cycle; "" = none yet."""
        settled = self.settled.get(claim.key)
        return settled.volume if settled is not None else claim.object.spec.volume_name

    def is_settled(self, task: Task) -> bool:
        """Is nothing about the pod's claims left to decide?"""
        return all(claim.key in self.settled for claim in self.of(task).delayed)

    @property
    def topology(self) -> VolumeTopology:
        if self._topology is None:
            self._topology = VolumeTopology(self.nodes)
        return self._topology

    @property
    def matching(self) -> Matching:
        if self._matching is None:
            self._matching = Matching(self.objects.get("PersistentVolume", {}), self.topology)
            for settled in self.settled.values():
                self._matching.take(settled.volume)
        return self._matching

    @property
    def provision(self) -> Provision:
        if self._provision is None:
            self._provision = Provision(self.objects, self.claims, self.topology)
        return self._provision

    def use(self, kind: Kind = Kind.ALLOCATE) -> VolumeUse:
        """What pods use: for a pod that is promised what comes free (PIPELINE) without those that are terminating.

        Made when it is first asked for, which is before the first move that it would count.
        """
        if self._use is None or self._staying is None:
            there = [(task, node) for node, tasks in enumerate(self.nodes.on) for task in tasks.values()]
            there = [(task, node) for task, node in there if self._uses(task.shape)]
            staying = [(task, node) for task, node in there if not is_terminating(task.pod)]
            self._use = self._staying = self._used_by(there)
            if len(staying) < len(there):
                self._staying = self._used_by(staying)
        return self._staying if kind == Kind.PIPELINE else self._use

    def _used_by(self, pods: list[tuple[Task, int]]) -> VolumeUse:
        use = VolumeUse(self.nodes, self.objects, self.claims)
        for task, node in pods:
            use.add(task, node, 1)
        return use

    def _uses(self, shape: Shape) -> bool:
        return bool(shape.spec.volumes) and True in self.kinds(shape)

    # --- where its claims can be met

    def find(self, task: Task) -> Found:
        key = (task.shape.id, volume_signature(task))
        known = self._found.get(key)
        if known is None:
            known = self._found[key] = self._find(self.of(task))
        return known

    def _find(self, claims: PodClaims) -> Found:
        count = len(self.nodes)
        given = [c for c in claims.delayed if c.key in self.settled and self.settled[c.key].volume]
        apart, gone = self._reached([*claims.bound, *given])
        unmet, short = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        made: list[tuple[Claim, Index]] = []  # claims whose node is chosen already
        free: list[Claim] = []
        for claim in claims.delayed:
            settled = self.settled.get(claim.key)
            if settled is not None and settled.volume:
                continue
            node = settled.node if settled is not None else claim.selected_node
            if node:
                elsewhere = np.ones(count, np.bool_)
                if node in self.nodes.rank:
                    elsewhere[self.nodes.rank[node]] = False
                unmet |= elsewhere
                made.append((claim, np.full(count, -1)))
            else:
                free.append(claim)
        matched: list[tuple[Claim, Index]] = []
        # kube-scheduler: small claims choose first, so that each gets the smallest volume that fits.
        for claim in sorted(free, key=lambda c: c.size or 0):
            matched.append((claim, self.matching.choose(claim, [chosen for _, chosen in matched])))
        trying = ~unmet
        for claim, chosen in made + matched:
            allowed, enough = self.provision.makeable(claim)
            to_make = trying & (chosen < 0)
            unmet |= to_make & ~allowed
            short |= to_make & allowed & ~enough
            trying &= ~to_make | (allowed & enough)
        code = np.select([apart, unmet, short, gone], [NODE_AFFINITY, NO_VOLUME, NO_STORAGE, VOLUME_GONE], FITS)
        return Found(code.astype(np.uint16), made + matched)

    def _reached(self, claims: list[Claim]) -> tuple[Bools, Bools]:
        """Nodes that do not reach the volumes these claims are bound to; nodes where a volume was missed first."""
        apart = np.zeros(len(self.nodes), np.bool_)
        for claim in claims:
            volume = self.volume(self.volume_name(claim))
            if volume is None:
                return apart, ~apart
            apart |= ~self.topology.mask(self.topology.pool(volume))
        return apart, np.zeros(len(self.nodes), np.bool_)

    # --- what is reserved

    def allocated(self, move: Move) -> None:
        self._moved(move, 1)

    def released(self, move: Move) -> None:
        self._moved(move, -1)

    def _moved(self, move: Move, sign: int) -> None:
        if not self._uses(move.task.shape):
            return
        now, later = self.use(), self.use(Kind.PIPELINE)
        for task, node in zip(move.tasks, move.nodes, strict=True):
            now.add(task, node, sign)
            if later is not now:
                later.add(task, node, sign)
            if move.kind == Kind.EVICT:
                continue  # a pod that ran has its claims; they stay bound
            if sign > 0:
                self._hold(task, node)
            else:
                self._let_go(task)

    def _hold(self, task: Task, node: int) -> None:
        claims = self.of(task)
        if claims.fault is not None or not claims.delayed:
            return
        found = self.find(task)
        if found.code[node] != FITS:
            return  # the rule is switched off, or the node is meant to become fit: nothing is settled yet
        for claim, chosen in found.chosen:
            if claim.key not in self.settled:
                number = int(chosen[node])
                volume = self.matching.names[number] if number >= 0 else ""
                self.settled[claim.key] = Settled(volume, "" if volume else self.nodes.names[node])
                self.matching.take(volume)
                self._found.clear()
        self._held[task.key] = [claim.key for claim in claims.delayed]
        for key in self._held[task.key]:
            self._holders[key] = self._holders.get(key, 0) + 1

    def _let_go(self, task: Task) -> None:
        for key in self._held.pop(task.key, ()):
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
                self.matching.give_back(self.settled.pop(key).volume)
                self._found.clear()

    def held(self, task: Task) -> list[tuple[str, Settled]]:
        """The claims that the placed pod settles, with what they are to be."""
        return [(key, self.settled[key]) for key in self._held.get(task.key, ())]
