"""Host ports in use, per node, kept current through a cycle.

kube-scheduler's rule: two pods compete for a port if protocol and number are equal and their host addresses are equal,
or one of them takes all addresses (0.0.0.0, which is what an absent address means). Containers and sidecars count.

A pod that is being released, be it terminating or evicted in this cycle, holds its ports against pods that are placed
at once, and not against those that are promised what comes free.

Most cycles place no pod with a host port. The pods on the nodes are therefore read only when they are needed; until
then the moves of the cycle are only recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from muster.engine.core.hooks import Bools, Ledger
from muster.engine.core.jobs import Shape
from muster.engine.core.nodes import MoveKind
from muster.model.core import PodSpec
from muster.model.pod_states import is_terminating

if TYPE_CHECKING:
    from muster.engine.core.session import Session
    from muster.engine.core.statement import Move

ANY_ADDRESS = "0.0.0.0"
_KINDS = (MoveKind.ALLOCATE, MoveKind.PIPELINE)


class HostPort(NamedTuple):
    protocol: str
    number: int
    address: str


class HostPorts(Ledger):
    def __init__(self, session: Session) -> None:
        self._nodes = session.state.nodes
        self._of_shape: dict[int, tuple[HostPort, ...]] = {}
        self._noted: list[tuple[Move, int]] = []
        self._read = False
        # For each kind: (protocol, number) → address → how many pods on each node
        self._used: dict[MoveKind, dict[tuple[str, int], dict[str, NDArray[np.int32]]]] = {kind: {} for kind in _KINDS}

    def wanted(self, shape: Shape) -> tuple[HostPort, ...]:
        found = self._of_shape.get(shape.id)
        if found is None:
            found = self._of_shape[shape.id] = host_ports(shape.spec)
        return found

    def taken(self, shape: Shape, kind: MoveKind = MoveKind.ALLOCATE) -> Bools:
        """The nodes on which one of the ports that the shape wants is in use: now, or once what is released is gone."""
        if not self._read:
            self._read_nodes()
        taken = np.zeros(len(self._nodes), np.bool_)
        for protocol, number, address in self.wanted(shape):
            for other, counts in self._used[kind].get((protocol, number), {}).items():
                if other == address or ANY_ADDRESS in (other, address):
                    taken |= counts > 0
        return taken

    # --- accounts

    def allocated(self, move: Move) -> None:
        self._follow(move, 1)

    def released(self, move: Move) -> None:
        self._follow(move, -1)

    def _follow(self, move: Move, sign: int) -> None:
        if not self.wanted(move.task.shape):
            return
        if self._read:
            for node in move.nodes:
                for kind in _KINDS[1:] if move.kind == MoveKind.EVICT else _KINDS:
                    self._count(kind, move.task.shape, node, sign)
        else:
            self._noted.append((move, sign))

    def _read_nodes(self) -> None:
        self._read = True
        for node, tasks in enumerate(self._nodes.on):
            for task in tasks.values():
                terminating = is_terminating(task.pod)
                for kind in _KINDS[:1] if terminating else _KINDS:
                    self._count(kind, task.shape, node, 1)
        for move, sign in self._noted:
            self._follow(move, sign)
        self._noted.clear()

    def _count(self, kind: MoveKind, shape: Shape, node: int, sign: int) -> None:
        for protocol, number, address in self.wanted(shape):
            by_address = self._used[kind].setdefault((protocol, number), {})
            counts = by_address.get(address)
            if counts is None:
                counts = by_address[address] = np.zeros(len(self._nodes), np.int32)
            counts[node] += sign


def host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """The host ports of a pod's containers and sidecars."""
    running = [c for c in spec.init_containers if c.restart_policy == "Always"] + spec.containers
    if not any(container.ports for container in running):
        return ()
    return tuple(
        HostPort(port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in running
        for port in container.ports
        if port.host_port > 0
    )
