"""Skips nodes on which another pod of the same role and job failed (Volcano's error cache).

Pods of a role are usually equal; then this changes nothing. Where they differ, a pod may miss a node on which only
another pod of its role failed. `predicateErrorCacheEnable: false` of the action turns that off; of allocate and
preempt, that is: Volcano's backfill and reclaim start afresh with each pod, so there is nothing to turn off.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from muster.engine.core.hooks import Bools, NodeSet
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.statement import Statement

SWITCH = "predicateErrorCacheEnable"


class RoleFailures:
    """The failures of one step of a job, per role.

    Only roles whose pods differ, or have pod affinity, are recorded: a node may fit them once a sibling is placed.
    """

    def __init__(self, session: Session, action: str, tasks: Sequence[Task]) -> None:
        self._session = session
        self._refused: dict[str, Bools] = {}
        signatures: dict[str, int] = {}
        for task in tasks:
            role = task.role
            if not role:
                continue
            signature = session.signature(task)
            differs = signatures.setdefault(role, signature) != signature
            if differs or (role not in self._refused and _follows_others(task)):
                self._refused[role] = np.zeros(len(session.state.nodes), np.bool_)
        if self._refused and not session.arguments(action).bool(SWITCH, True):
            self._refused = {}

    def place_run(self, statement: Statement, run: Sequence[Task], within: NodeSet | None) -> int:
        """Places equal tasks as Placement does, on the nodes that no task of their role has failed on."""
        placement = self._session.placement
        refused = self._refused.get(run[0].role)
        if refused is None:
            return placement.place(statement, run, within)
        offered = _without(within, refused)
        placed = placement.place(statement, run[:-1], offered) if len(run) > 1 else 0
        if placed < len(run) - 1:
            return placed
        # The last task of the run has failed on most nodes; a node that the run itself filled is not a failure.
        refused |= ~placement.fits(run[-1], MoveKind.PIPELINE)
        return placed + placement.place(statement, run[-1:], offered)


class PreemptRoleFailures:
    """The failures of preempt: per job and role the nodes that no eviction makes usable for some pod of the role."""

    def __init__(self, session: Session, action: str) -> None:
        self._session = session
        self._on = session.arguments(action).bool(SWITCH, True)
        self._refused: dict[tuple[str, str], Bools] = {}

    def without_failed(self, task: Task, mask: Bools) -> Bools:
        """Returns the mask without nodes on which a pod of the task's role failed, and records the task's failures."""
        if not self._on or not task.role or task.job is None:
            return mask
        role = (task.job.key, task.role)
        known = self._refused.get(role)
        failed = ~self._session.placement.might_fit(task)
        self._refused[role] = failed if known is None else known | failed
        return mask if known is None else mask & ~known


def _follows_others(task: Task) -> bool:
    affinity = task.shape.spec.affinity
    return affinity is not None and affinity.pod_affinity is not None and bool(affinity.pod_affinity.required)


def _without(within: NodeSet | None, refused: Bools) -> NodeSet:
    if within is None:
        return NodeSet(np.flatnonzero(~refused))
    left = ~refused[within.index]
    score = None if within.score is None else within.score[left]
    return NodeSet(within.index[left], within.label, score)
