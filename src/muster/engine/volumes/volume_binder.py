"""Binds volumes in one cycle: finds the nodes where a pod's claims can be bound, and reserves volumes for placed pods.

An unbound claim with WaitForFirstConsumer gets an assumed binding when a pod that uses it is placed: a free volume, or
a volume to be provisioned for that node. Other pods that use the claim must then go where it is, and other claims see
the volume as taken. A reservation counts the pods that use it, so undoing a placement is exact in any order.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools, Index, Ledger
from muster.engine.core.jobs import Shape, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.volumes.volume_claims import PodClaims, VolumeClaim, VolumeClaims, claim_name
from muster.engine.volumes.volume_match import Provisioner, VolumeMatcher
from muster.engine.volumes.volume_topology import VolumeTopology, zones_of
from muster.engine.volumes.volume_usage import VolumeUsage, disks_of
from muster.model.meta import Object
from muster.model.storage import PersistentVolume

if TYPE_CHECKING:
    from muster.engine.core.session import Session
    from muster.engine.core.statement import Move

# Codes of `ClaimFit`, in the order in which kube-scheduler names them.
FITS, NODE_AFFINITY, NO_VOLUME, NO_STORAGE, VOLUME_GONE = range(5)


class AssumedBinding(Struct, frozen=True):
    """The binding of an unbound claim in this cycle: to a volume, or to be provisioned for a node."""

    volume: str = ""
    node: str = ""


class ClaimFit(Struct, frozen=True):
    """Where the claims of a pod can be bound: a code per node, and per claim its volume (−1: to be provisioned)."""

    code: NDArray[np.uint16]
    chosen: list[tuple[VolumeClaim, Index]]


def volume_signature(task: Task) -> Hashable | None:
    """Returns what the volume rules read of a pod besides its shape: the keys of its claims."""
    if not task.shape.spec.volumes:
        return None
    names = [claim_name(task.name, volume) for volume in task.pod.spec.volumes]
    claims = tuple([name for name in names if name is not None])
    return (task.namespace, *claims) if claims else None


class VolumeBinder(Ledger):
    def __init__(self, session: Session) -> None:
        self._state = session.state
        self._state.volume_usage.limit_changes(session.state)
        self.nodes = session.state.nodes
        self.objects: Mapping[str, Mapping[str, Object]] = session.state.objects
        self.claims = VolumeClaims(self.objects)
        self.assumed: dict[str, AssumedBinding] = {}  # by claim key
        self._users: dict[str, int] = {}  # claim key → pods that use it
        self._claims_of: dict[str, list[str]] = {}  # pod key → its claims
        self._has: dict[int, tuple[bool, bool]] = {}  # shape → (has claims, has disks)
        self._pod_claims: dict[str, PodClaims] = {}  # by pod key
        self._found: dict[tuple[int, Hashable], ClaimFit] = {}  # void when a reservation changes
        self._topology: VolumeTopology | None = None
        self._matching: VolumeMatcher | None = None
        self._use: VolumeUsage | None = None
        self._staying: VolumeUsage | None = None
        self._provision: Provisioner | None = None

    # --- what a pod has

    def has(self, shape: Shape) -> tuple[bool, bool]:
        """Returns whether such a pod has claims, or disks that its spec names."""
        known = self._has.get(shape.id)
        if known is None:
            volumes = shape.spec.volumes
            has_claims = any(claim_name("", v) is not None for v in volumes) if volumes else False
            known = self._has[shape.id] = (has_claims, bool(volumes) and bool(disks_of(shape.spec)))
        return known

    def of(self, task: Task) -> PodClaims:
        """Returns the pod's claims.

        `node_rules` are the node affinities and zones of its volumes, if the claims restrict the pod in no other way:
        they are bound, usable, and not for one pod only. Volumes that all nodes reach have no rules.
        """
        known = self._pod_claims.get(task.key)
        if known is None:
            known = self._pod_claims[task.key] = self.claims.of(task)
            limits = self.use().limits()
            known.limited = bool(limits) and any(one.driver in limits for one in self.use().attachable(task))
            if known.fault is None and not known.delayed and not known.once:
                known.node_rules = self._node_rules(known)
        return known

    def node_signature(self, task: Task) -> Hashable | None:
        """Returns what the limits of CSI drivers read of the pod: its claims, if they concern it."""
        claims = volume_signature(task)
        concerned = claims is not None and (self.of(task).limited or self.of(task).missing is not None)
        return claims if concerned else None

    def cluster_signature(self, task: Task) -> Hashable | None:
        """Returns what the other rules read of the pod: its claims, or only what their volumes demand of a node."""
        claims = volume_signature(task)
        rules = self.of(task).node_rules if claims is not None else None
        return claims if rules is None else rules

    def _node_rules(self, claims: PodClaims) -> frozenset[Hashable] | None:
        rules: set[Hashable] = set()
        for claim in claims.bound:
            volume = self.volume(claim.object.spec.volume_name)
            if volume is None:
                return None
            zones = () if claim.key in claims.ephemeral else zones_of(volume)
            if zones or volume.spec.node_affinity is not None:
                rules.add((self.topology.pool(volume), zones))
        return frozenset(rules)

    def volume(self, name: str) -> PersistentVolume | None:
        found = self.objects.get("PersistentVolume", {}).get(name)
        return found if isinstance(found, PersistentVolume) else None

    def volume_name(self, claim: VolumeClaim) -> str:
        """Returns the volume that the claim is bound to, or will be since this cycle; "" if there is none yet."""
        assumed = self.assumed.get(claim.key)
        return assumed.volume if assumed is not None else claim.object.spec.volume_name

    def is_assumed(self, task: Task) -> bool:
        """Returns whether all claims of the pod have a binding or an assumed binding."""
        return all(claim.key in self.assumed for claim in self.of(task).delayed)

    @property
    def topology(self) -> VolumeTopology:
        if self._topology is None:
            self._topology = VolumeTopology(self.nodes)
        return self._topology

    @property
    def matching(self) -> VolumeMatcher:
        if self._matching is None:
            self._matching = VolumeMatcher(self.objects.get("PersistentVolume", {}), self.topology)
            for assumed in self.assumed.values():
                self._matching.take(assumed.volume)
        return self._matching

    @property
    def provision(self) -> Provisioner:
        if self._provision is None:
            self._provision = Provisioner(self.objects, self.claims, self.topology)
        return self._provision

    def use(self, kind: MoveKind = MoveKind.ALLOCATE) -> VolumeUsage:
        """Returns what pods use; for a pod that is promised what comes free (PIPELINE), without terminating pods.

        Made when it is first asked for, which is before the first move that it would count.
        """
        if self._use is None or self._staying is None:
            self._use, self._staying = self._state.volume_usage.update(self._state, self.claims, self._uses)
        return self._staying if kind == MoveKind.PIPELINE else self._use

    def _uses(self, shape: Shape) -> bool:
        return bool(shape.spec.volumes) and True in self.has(shape)

    # --- where its claims can be bound

    def find(self, task: Task) -> ClaimFit:
        key = (task.shape.id, self.cluster_signature(task))
        known = self._found.get(key)
        if known is None:
            known = self._found[key] = self._find(self.of(task))
        return known

    def _find(self, claims: PodClaims) -> ClaimFit:
        count = len(self.nodes)
        given = [c for c in claims.delayed if c.key in self.assumed and self.assumed[c.key].volume]
        apart, gone = self._reached([*claims.bound, *given])
        unmet, short = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        made: list[tuple[VolumeClaim, Index]] = []  # claims whose node is chosen already
        free: list[VolumeClaim] = []
        for claim in claims.delayed:
            assumed = self.assumed.get(claim.key)
            if assumed is not None and assumed.volume:
                continue
            node = assumed.node if assumed is not None else claim.selected_node
            if node:
                elsewhere = np.ones(count, np.bool_)
                if node in self.nodes.rank:
                    elsewhere[self.nodes.rank[node]] = False
                unmet |= elsewhere
                made.append((claim, np.full(count, -1)))
            else:
                free.append(claim)
        matched: list[tuple[VolumeClaim, Index]] = []
        # kube-scheduler: small claims choose first, so that each gets the smallest volume that fits.
        for claim in sorted(free, key=lambda c: c.size or 0):
            matched.append((claim, self.matching.choose(claim, [chosen for _, chosen in matched])))
        trying = ~unmet
        for claim, chosen in made + matched:
            allowed, enough = self.provision.provisionable(claim)
            to_make = trying & (chosen < 0)
            unmet |= to_make & ~allowed
            short |= to_make & allowed & ~enough
            trying &= ~to_make | (allowed & enough)
        code = np.select([apart, unmet, short, gone], [NODE_AFFINITY, NO_VOLUME, NO_STORAGE, VOLUME_GONE], FITS)
        return ClaimFit(code.astype(np.uint16), made + matched)

    def _reached(self, claims: list[VolumeClaim]) -> tuple[Bools, Bools]:
        """Returns the nodes that do not reach these claims' volumes, and the nodes where a volume was missed first."""
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
        now, later = self.use(), self.use(MoveKind.PIPELINE)
        for task, node in zip(move.tasks, move.nodes, strict=True):
            volumes = now.of(task, node)
            now.add(volumes, node, sign)
            if later is not now:
                later.add(volumes, node, sign)
            if move.kind == MoveKind.EVICT:
                continue  # the claims of a running pod stay bound
            if sign > 0:
                self._reserve(task, node)
            else:
                self._release(task)

    def _reserve(self, task: Task, node: int) -> None:
        claims = self.of(task)
        if claims.fault is not None or not claims.delayed:
            return
        found = self.find(task)
        if found.code[node] != FITS:
            return  # the rule is switched off, or evictions will make the node fit: nothing is assumed yet
        for claim, chosen in found.chosen:
            if claim.key not in self.assumed:
                number = int(chosen[node])
                volume = self.matching.names[number] if number >= 0 else ""
                self.assumed[claim.key] = AssumedBinding(volume, "" if volume else self.nodes.names[node])
                self.matching.take(volume)
                self._found.clear()
        self._claims_of[task.key] = [claim.key for claim in claims.delayed]
        for key in self._claims_of[task.key]:
            self._users[key] = self._users.get(key, 0) + 1

    def _release(self, task: Task) -> None:
        for key in self._claims_of.pop(task.key, ()):
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]
                self.matching.release(self.assumed.pop(key).volume)
                self._found.clear()

    def assumed_bindings(self, task: Task) -> list[tuple[str, AssumedBinding]]:
        """Returns the claims that are assumed for the placed pod, with their bindings."""
        return [(key, self.assumed[key]) for key in self._claims_of.get(task.key, ())]
