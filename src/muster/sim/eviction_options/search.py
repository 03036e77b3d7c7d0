"""What evictions could do for one pending pod: on each node or domain, who would have to go and who is protected.

It is a by-product of deciding: each option is a claim that the action itself searches for on those nodes only
(`actions.claims`), and the protections are asked of the rules that the search asks (`actions.protected_pods`). Every
trial is undone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import structs
from msgspec.structs import replace

from muster.actions.claim_limits import SearchLimits
from muster.actions.claims import Claims
from muster.actions.protected_pods import ProtectedPods
from muster.actions.victim_costs import FREE
from muster.actions.volcano_eviction import divided
from muster.engine.core.hooks import Bools, NodeSet, Reason
from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.statement import Statement
from muster.engine.core.subgroups import sub_group_tree
from muster.engine.evictions.claim import PREEMPT, RECLAIM, Claim, Veto
from muster.engine.placement.node_sets import divide_nodes
from muster.engine.placement.trace import FIT, verdicts
from muster.model.quantity import display
from muster.sim.eviction_options.option import (
    MAX_EXAMINED,
    MAX_OPTIONS,
    MAX_PROTECTED,
    EvictionOption,
    Protected,
    counted,
    refused,
    some,
    victim_of,
)
from muster.sim.eviction_options.volcano import volcano_options


def eviction_options(session: Session, task: Task, limit: int = MAX_OPTIONS) -> list[EvictionOption]:
    """Returns the options for a pending pod in the session as it is: possible ones first, the cheapest before others.

    Without a need for evictions there are none.
    """
    return OptionSearch(session, task).found(limit)


class OptionSearch:
    """Searches for the options of one pod."""

    def __init__(self, session: Session, task: Task) -> None:
        self.session = session
        self.task = task
        self.names = session.state.nodes.names
        self.places: list[NodeSet] = []  # what was tried
        self.divided = False  # whether plugins divide the nodes for the job
        self._untried = 0  # nodes or sets beyond the limit
        self._claims = {
            rule: Claims(session, rule) for rule in (RECLAIM, PREEMPT) if rule in session.config.actions
        }  # reclaim first: preempt leaves to reclaim what reclaim can serve
        self._guards: dict[str, ProtectedPods] = {}  # action → its protections
        self._own: ProtectedPods | None = None  # the protections of the pod's own job, if it may replace its pods
        self._refusals: dict[str, str] = {}  # action → why it cannot claim at all

    def found(self, limit: int) -> list[EvictionOption]:
        job = self.task.job
        if not self._claims:
            return refused("the configuration has neither preempt nor reclaim")
        if job is None or job.queue is None:
            return refused("a pod without a group in an existing queue evicts nobody")
        if self.session.volcano and not divided(self.session, job):
            return volcano_options(self.session, self.task, limit)
        for rule, claims in self._claims.items():
            self._prepare(rule, claims, job)
        if not self._guards:
            return refused("; ".join(self._refusals.values()))
        self.places = self._places(job, limit)
        options = [self._option(job, nodes) for nodes in self.places]
        if any(option.cost == FREE for option in options):
            return []
        if not options:
            return refused("; ".join([*self._refusals.values(), "no node could take the pod after evictions"]))
        options.sort(key=lambda option: (not option.possible, option.cost))
        if self._untried:
            text = f"not tried: explain tries up to {limit} nodes or sets"
            options.append(EvictionOption(f"{self._untried} more", False, "", [], [], text))
        return options

    def _prepare(self, rule: str, claims: Claims, job: Job) -> None:
        """Makes the widest claim of the action that has the pod, or records why it makes none."""
        session, queue = self.session, job.queue
        assert queue is not None
        gang = not session.pipelined(job)
        if claims.names_no_victims:
            self._refusals[rule] = f"{rule}: no plugin of the tiers names victims"
            return
        tasks = claims.session.in_order(claims.claimable(job, gang, self.task))
        if not tasks:
            self._refusals[rule] = f"{rule}: preemptionPolicy is Never"
            return
        if (closed := session.closed(queue)) is not None:
            self._refusals[rule] = f"{rule}: {closed.message()}"
            return
        limits = SearchLimits(pod=self.task, never_victims=session.promises.claimants(job))
        widest: tuple[Claim, list[Task]] | None = None
        for order in claims.orders(job, tasks, gang):
            claim = claims.claim(job, order, gang, claims.resorts[-1], limits)
            refusal = self._refusal(claims, claim)
            if refusal:
                self._refusals.setdefault(rule, f"{rule}: {refusal}")
            elif widest is None or (self.task in order and _wider(claim, widest[0])):
                widest = claim, order
        if widest is None:
            return
        claim, order = widest
        self._guards[rule] = ProtectedPods(claims, claim)
        if rule == PREEMPT and not gang:
            own = claims.claim(job, order, gang, False, replace(limits, within=True))
            self._own = ProtectedPods(claims, own)

    def _refusal(self, claims: Claims, claim: Claim) -> str:
        """Returns why the claimer's queue does not let it make this claim; "" if it does."""
        share = self.session.undeserved(claim.queue, claim.request) if claim.rule == RECLAIM else None
        if not claim.tasks:
            return "the group needs no further pod for its minimum"
        if share is not None:
            return share.message()
        if claims.admitted(claim):
            return ""
        quota = self.session.quota_refusal(claim.queue, claim.tasks[0])
        return quota.message() if quota is not None else "the queue does not admit the claim"

    # --- where

    def _places(self, job: Job, limit: int) -> list[NodeSet]:
        """Returns the nodes or node sets to try."""
        guard = next(iter(self._guards.values()))
        tasks, pool = guard.claim.tasks, guard.pool
        everywhere = NodeSet(np.arange(len(self.names)), freed=pool.everything() if pool.levels else None)
        if self.session.dividers:
            sets = divide_nodes(self.session, job, tasks, everywhere)
            if sets is not None:
                self.divided = True
                ruled_out = (s for p in self.session.dividers for s, _ in p.left_out(job, tasks, everywhere))
                every = [*sets, *ruled_out]
                self._untried = max(len(every) - limit, 0)
                return every[:limit]
        root = sub_group_tree(job)
        if len(tasks) > 1 or (root is not None and any(group.constrained for group in root.groups())):
            return [structs.replace(everywhere, label="all nodes")]
        return list(self._nodes(tasks[0], limit))

    def _nodes(self, task: Task, limit: int) -> Iterator[NodeSet]:
        """Yields the nodes on which evictions could make way for the task, and before them those that fit already."""
        placement, nodes = self.session.placement, self.session.state.nodes
        guards = self._guards.values()
        moving = any(guard.evicting.moving(task) for guard in guards)
        able = placement.might_fit(task) if moving else placement.answers(task).static
        fits = np.flatnonzero(placement.fits(task, MoveKind.PIPELINE))
        if len(fits):  # then the queue's limit refuses the pod, wherever it goes
            label = self.names[int(fits[0])] if len(fits) == 1 else f"{len(fits)} nodes with enough capacity"
            yield NodeSet(fits, label)
        freed = [nodes.everything().account(guard.pool.everything()) for guard in guards if guard.pool.levels]
        enough: Bools = np.ones(len(nodes), np.bool_)
        for row, amount in nodes.axis.needs(task.shape.amounts):
            able = able & (nodes.alloc[row] >= amount)
            free = nodes.future_idle[row].copy()
            for account in freed:
                free += account[row]
            enough &= free >= amount
        able = able.copy()
        able[fits] = False
        index = [i for i in np.flatnonzero(able).tolist() if nodes.on[i]]
        index.sort(key=lambda i: (not enough[i], i))
        self._untried = max(len(index) - limit, 0)
        for node in index[:limit]:
            yield NodeSet(np.array([node]), self.names[node])

    # --- one option

    def _option(self, job: Job, nodes: NodeSet) -> EvictionOption:
        for rule in self._guards:
            claims = self._claims[rule]
            for within in (False, True) if rule == PREEMPT and self._own is not None else (False,):
                statement = claims.solve(job, SearchLimits(within=within, pod=self.task, nodes=nodes))
                if statement is not None:
                    try:
                        return self.solved(claims, statement, nodes.label, nodes.index.tolist())
                    finally:
                        statement.discard()
        return self._unsolved(nodes)

    def solved(
        self, claims: Claims, statement: Statement, where: str, nodes: Sequence[int], *, chosen: bool = False
    ) -> EvictionOption:
        """Returns the option of a claim that was found, while its victims are evicted; `chosen`: the cycle makes it."""
        victims = [victim_of(move.task, self.names) for move in statement.moves if move.kind == MoveKind.EVICT]
        withdrawn = [m.task.key for m in statement.moves if m.kind == MoveKind.WITHDRAW]
        assert claims.solution is not None
        cost = claims.solution.costs.of(claims.solution.taken(statement), self.task, 1)
        parts = [f"{'evicts' if chosen else 'would evict'} {some([v.pod for v in victims])}"] * bool(victims)
        verb = "withdraws" if chosen else "would withdraw"
        parts += [f"{verb} the promise to {some(withdrawn)}"] * bool(withdrawn)
        text = f"{claims.rule} {' and '.join(parts)}"
        protected = list(self._protected(nodes))
        return EvictionOption(where, True, claims.rule, victims, protected[:MAX_PROTECTED], text, cost)

    def _unsolved(self, nodes: NodeSet) -> EvictionOption:
        index = nodes.index.tolist()
        statement = self.session.statement()
        for guard in (*self._guards.values(), *([self._own] if self._own is not None else [])):
            guard.clear(statement, index)
        protected = list(self._protected(index))
        could = sum(1 for move in statement.moves if move.kind == MoveKind.EVICT)
        why = self._lacks(nodes)
        statement.discard()
        if not why and not could:
            return EvictionOption(nodes.label, True, "", [], protected, "no eviction is needed", FREE)
        why = why or "no set of victims is enough that the rules allow together,"
        text = f"{why} after {could} possible evictions"
        text += f"; {counted(protected)}" if protected else ""
        text += f" (of the first {MAX_EXAMINED:,} pods)" if self._pods(index) > MAX_EXAMINED else ""
        return EvictionOption(nodes.label, False, "", [], protected[:MAX_PROTECTED], text)

    def _lacks(self, nodes: NodeSet) -> str:
        """Returns what is missing after all possible evictions on the nodes; "" if nothing is."""
        guard = next(iter(self._guards.values()))
        claim, index = guard.claim, nodes.index
        placement, columns = self.session.placement, self.session.state.nodes
        if len(claim.tasks) > 1:
            trial = self.session.statement()
            admits = self.session.admits
            found = [admits(claim.queue, t) and placement.promise(trial, [t], nodes) for t in claim.tasks]
            trial.discard()
            return "" if all(found) else f"{sum(found)} of {len(found)} pods of the group find a node"
        task = claim.tasks[0]
        if len(index) == 1:
            node = int(index[0])
            free = {n: int(columns.future_idle[columns.axis.rows[n], node]) for n in task.shape.amounts}
            short = [n for n, amount in task.shape.amounts.items() if free[n] < amount]
            if short:
                needs = {n: display(n, task.shape.amounts[n]) for n in short}
                return f"needs {', '.join(f'{needs[n]} {n} and {display(n, free[n])} would be free' for n in short)}"
            for plugin, verdict in verdicts(self.session, task):
                if plugin != FIT and verdict.code[node]:
                    return f"{plugin}: {verdict.reasons[int(verdict.code[node]) - 1].message(node)}"
        quota = self.session.quota_refusal(claim.queue, task)
        return quota.message() if quota is not None else ""

    def _protected(self, nodes: Sequence[int]) -> Iterator[Protected]:
        """Yields the pods on the nodes that must stay, with the accounts as they are."""
        on, here = self.session.state.nodes.on, set(nodes)
        for move in self.session.committed:
            if move.kind != MoveKind.EVICT:
                promised = move.kind == MoveKind.PIPELINE
                text = "the capacity is promised to it" if promised else "this cycle places it on the node"
                for task, node in zip(move.tasks, move.nodes, strict=True):
                    if node in here:
                        yield Protected(task.key, task.job.shown if task.job else "", "promise", "", text)
        tasks = [task for node in nodes for task in on[node].values() if task.status != Status.RELEASING]
        for task in tasks[:MAX_EXAMINED]:
            veto = self._veto(task)
            if veto is not None:
                group = task.job.shown if task.job is not None else ""
                yield Protected(task.key, group, veto.reason.code, veto.plugin, veto.reason.message())

    def _pods(self, nodes: Sequence[int]) -> int:
        return sum(len(self.session.state.nodes.on[node]) for node in nodes)

    def _veto(self, task: Task) -> Veto | None:
        job, own = task.job, self.task.job
        if job is None:
            return next(iter(self._guards.values())).veto(task)
        rule = PREEMPT if own is not None and job.queue is own.queue else RECLAIM
        guard = self._own if job is own and self._own is not None else self._guards.get(rule)
        if guard is not None:
            return guard.veto(task)
        why = self._refusals.get(rule, f"the configuration has no {rule}")
        code = "same-queue" if rule == PREEMPT else "other-queue"
        return Veto("", Reason(code, f"it is in queue {job.queue_name}; {why}"))


def _wider(claim: Claim, other: Claim) -> bool:
    """Returns whether the claim may evict pods of higher priority, for as many pods."""
    return claim.pod_priority > other.pod_priority and len(claim.tasks) == len(other.tasks)
