"""Claims of preempt and reclaim: a job that cannot get nodes otherwise takes them from units that may be evicted.

A claim covers everything that the claimer needs: a job up to its minimum, above it one pod. It is placed with its
victims removed, under every filter, in node sets where plugins divide the nodes. Nothing is evicted if the whole claim
cannot be placed. A claim that succeeds gets a promise (`engine.evictions.promises`), which later cycles keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from muster.actions.arrangements import largest_first, mixed
from muster.actions.claim_limits import UNLIMITED, SearchLimits, enough_at_most, given_enough
from muster.actions.claim_search import ClaimSearch
from muster.actions.evicting_placement import EvictingPlacement
from muster.actions.sub_groups import SubGroupPlacement, needed
from muster.actions.victim_pool import VictimPool, giving, takeable_promises
from muster.engine.core.hooks import NodeSet
from muster.engine.core.jobs import Job, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session, candidates
from muster.engine.core.statement import Statement
from muster.engine.core.subgroups import sub_group_tree
from muster.engine.evictions.claim import RECLAIM, Claim, Units
from muster.engine.evictions.victims import Opinions
from muster.engine.placement.node_sets import divide_nodes

_SETS = 32  # node sets that are compared by the cost of their victims

Solution = tuple[tuple[object, ...], list[Task], NodeSet | None, bool]  # cost, order of pods, set, searched


class Claims:
    """The claims of one action in one cycle."""

    def __init__(self, session: Session, rule: str) -> None:
        self.session = session
        self.rule = rule
        self.units = Units(session)
        self._opinions = Opinions(session, rule)
        self._pools: dict[tuple[object, ...], VictimPool] = {}
        self.solution: EvictingPlacement | None = None  # the attempt that led to the last solution
        # Kind of claim → the number of pods of a failed claim, and the number of committed moves at that time.
        self._failed: dict[tuple[object, ...], tuple[int, int]] = {}

    @property
    def names_no_victims(self) -> bool:
        return self._opinions.names_no_victims

    def serve(self, job: Job, *, within: bool = False) -> bool:
        """Makes one claim for the job and commits it; returns False if nothing was decided."""
        statement = self.solve(job, SearchLimits(within=within))
        if self.session.turns is not None:
            self.session.turns.claimed(self.session, self, job, statement)
        if statement is None:
            return False
        evicts = any(move.kind in (MoveKind.EVICT, MoveKind.WITHDRAW) for move in statement.moves)
        # allocate serves jobs that need no victim. If allocate has already run, only its search was too narrow.
        if not evicts and (job.attempt.may_evict or not self._allocated_before()):
            statement.discard()
            return False
        if not self.session.volcano:
            for loser in {move.job for move in statement.moves if move.kind == MoveKind.WITHDRAW}:
                assert loser is not None
                self.session.promises.withdraw(loser, f"a pod of higher priority needs the capacity ({job.shown})")
            self.session.promises.make(job, statement)
        statement.commit()
        return True

    def could_serve(self, job: Job) -> bool:
        statement = self.solve(job)
        if statement is None:
            return False
        statement.discard()
        return True

    def _allocated_before(self) -> bool:
        actions = self.session.config.actions
        return "allocate" in actions and actions.index("allocate") < actions.index(self.rule)

    # --- one claim

    def solve(self, job: Job, limits: SearchLimits = UNLIMITED) -> Statement | None:
        """Returns a statement with the evictions and promises of a claim for the job; None if it cannot be served."""
        statement = self._without_counterclaims(job, limits)
        if statement is not None:
            statement.name_claimers()
        return statement

    def _without_counterclaims(self, job: Job, limits: SearchLimits) -> Statement | None:
        statement = self._solve(job, limits)
        claimants = self.session.promises.claimants(job)
        if statement is None or not any(m.kind == MoveKind.EVICT and _in(m.job, claimants) for m in statement.moves):
            return statement
        statement.discard()
        for pool in self._pools.values():
            pool.known.clear()
        statement = self._solve(job, replace(limits, never_victims=claimants))
        if statement is None and limits.nodes is None:
            self.session.promises.counterclaims.add(job.key)
        return statement

    def _solve(self, job: Job, limits: SearchLimits) -> Statement | None:
        """Searches for victims within the limits."""
        queue = job.queue
        gang = not self.session.pipelined(job)
        tasks = self.claimable(job, gang, limits.pod)
        if queue is None or not tasks or self.session.closed(queue) is not None:
            return None
        if self.session.turns is not None:
            self.session.turns.claim(self.session, tasks)
        if limits.within and len({task.priority for task in job.tasks.values()}) == 1:
            return None
        shares = not limits.never_victims and limits.nodes is None
        claim_class = self._claim_class(job, tasks, gang, limits.within) if shares else None
        need = self._short(job) if gang else 1
        decided = len(self.session.committed) + len(self.session.reserved)
        if claim_class is not None and claim_class in self._failed:
            then, failed = self._failed[claim_class]
            if then == decided and failed <= need:
                return None
        claims = list(self._admitted_claims(job, tasks, gang, limits, equal=claim_class is not None))
        if claim_class is not None and not self.session.placement.might_ever_fit(tasks[0]):
            claims = []  # whoever is evicted
        for resort in self.resorts if claims else ():
            found = self._with_victims(job, claims, gang, resort, limits)
            if found is not None:
                return found
        if claim_class is not None:
            self._failed[claim_class] = (decided, need)
        return None

    @property
    def resorts(self) -> tuple[bool, ...]:
        """Returns for each attempt in turn whether it is the last resort."""
        return (False, True) if self.rule == RECLAIM or self.session.promises.kept else (False,)

    def claimable(self, job: Job, gang: bool, pod: Task | None = None) -> list[Task]:
        """Returns the job's pods that may claim, in no order."""
        if job.never_preempts:
            return []
        tasks = candidates(job) if gang or pod is None else [pod]
        return [
            t for t in tasks if t.shape.spec.preemption_policy != "Never" and not (gang and t.best_effort)
        ]  # fmt: skip

    def _claim_class(self, job: Job, tasks: list[Task], gang: bool, within: bool) -> tuple[object, ...] | None:
        """Returns the class of the claim; None if no other claim is in it.

        If a claim for some pods failed, a claim of the same class for more pods fails as well.
        """
        if sub_group_tree(job) is not None or job.roles:
            return None
        if self.session.dividers and divide_nodes(self.session, job, tasks) is not None:
            return None
        if within or len({(task.shape.id, task.priority) for task in tasks}) > 1 or mixed(self.session, tasks):
            return None
        named = self._named_for(tasks[0])
        return (job.queue_name, self.session.signature(tasks[0]), tasks[0].priority, self.units.priority(job), named)

    def _named_for(self, task: Task) -> tuple[object, ...]:
        """Returns on what it depends, besides the queue and the priority, whom the tiers name for a claimer."""
        job = task.job
        if self._opinions.names_all:
            return ()
        if job is None or job.waiting or not self.session.equal_answers:
            return (task.key,)
        return (task.shape.id, *sorted(job.allocated.items()))

    def _admitted_claims(
        self, job: Job, tasks: list[Task], gang: bool, limits: SearchLimits, *, equal: bool
    ) -> Iterator[tuple[list[Task], Claim]]:
        """Yields the claims that the job's queue admits, each with the order of the pods."""
        if equal and not self._admits(self.claim(job, tasks, gang, False, limits)):
            return  # whatever the order
        for order in self.orders(job, self.session.in_order(tasks), gang):
            claim = self.claim(job, order, gang, False, limits)
            if self._admits(claim):
                yield order, claim

    def _admits(self, claim: Claim) -> bool:
        if not claim.tasks or (self.rule == RECLAIM and not self.session.deserves(claim.queue, claim.request)):
            return False
        return self.admitted(claim)

    def _with_victims(
        self, job: Job, claims: Sequence[tuple[list[Task], Claim]], gang: bool, resort: bool, limits: SearchLimits
    ) -> Statement | None:
        session = self.session
        root = sub_group_tree(job)
        best: Solution | None = None
        for order, first in claims:
            claim = replace(first, last_resort=True, usage={}) if resort else first
            if resort and self.rule != RECLAIM and not takeable_promises(session, self.units, claim):
                continue  # without promises to take it is the first attempt again
            pool = self.pool(claim)
            # The bounds are those of the first pods; others of the job may take their place.
            bounded = len(order) == len(claim.tasks) or (root is None and not mixed(session, order))
            if not pool.levels or (bounded and not given_enough(session, self.units, claim, pool)):
                continue
            sets = self._sets(job, order, pool) if limits.nodes is None else [limits.nodes]
            for node_set in sets:
                if bounded and not enough_at_most(session, claim.tasks, pool, node_set):
                    continue
                for search in (False, True):
                    evicting = EvictingPlacement(session, self.units, pool, claim)
                    statement = session.statement()
                    if self._attempt(evicting, statement, order, gang, node_set, search):
                        if len(claims) == len(sets) == 1:
                            self.solution = evicting
                            return statement  # there is no other solution to compare it with
                        solution = (evicting.total(statement), order, node_set, search)
                        statement.discard()
                        pool.known.clear()  # costs that were computed with evictions that are now undone are not valid
                        if best is None or solution[0] < best[0]:
                            best = solution
                        break
                    statement.discard()
                    pool.known.clear()
                    if root is not None and any(group.constrained for group in root.groups()):
                        break
            if best is not None and (not gang or not best[0][0]):
                break  # the first pod in task order that can be served; or no eviction is needed
        if best is None:
            return None
        _, order, node_set, search = best
        claim = self.claim(job, order, gang, resort, limits)
        self.solution = evicting = EvictingPlacement(session, self.units, self.pool(claim), claim)
        statement = session.statement()
        if self._attempt(evicting, statement, order, gang, node_set, search):
            return statement
        statement.discard()
        return None

    def claim(self, job: Job, order: Sequence[Task], gang: bool, resort: bool, limits: SearchLimits) -> Claim:
        assert job.queue is not None
        tasks = self.least(job, order, gang)
        within, never_victims = limits.within, limits.never_victims
        return Claim(self.rule, job, job.queue, tasks, resort, within=within, never_victims=never_victims, order=order)

    def pool(self, claim: Claim) -> VictimPool:
        """Returns the pool of possible victims; claims for which it is the same share it."""
        queues = giving(self.session, self.units, claim)
        takes_promises = claim.last_resort and self.rule != RECLAIM
        if claim.within or claim.never_victims or takes_promises:
            return VictimPool(self.session, self.units, self._opinions, claim, queues)
        priorities = (claim.priority, claim.pod_priority)
        names = tuple(queue.name for queue in queues)
        shared = (claim.queue.name, *priorities, names, self._named_for(claim.tasks[0]))
        pool = self._pools.get((*shared, claim.last_resort))
        if pool is None or not pool.current():
            other = self._pools.get((*shared, not claim.last_resort))
            if other is not None and other.unmoved:
                pool = other.twin()
            else:
                pool = VictimPool(self.session, self.units, self._opinions, claim, queues)
            self._pools[*shared, claim.last_resort] = pool
        elif claim.last_resort:
            pool.known.clear()  # how much a whole job may give depends on the claim
        return pool

    def _attempt(
        self,
        evicting: EvictingPlacement,
        statement: Statement,
        tasks: list[Task],
        gang: bool,
        node_set: NodeSet | None,
        search: bool,
    ) -> bool:
        """Places what the job needs, keeps the queue within its quota, and gives back victims that are not needed."""
        session, job = self.session, evicting.claim.job
        root = sub_group_tree(job)
        if search:
            return ClaimSearch(session, evicting, statement, node_set).solve(tasks, gang)
        if root is not None and gang:
            assert job.queue is not None
            parts = SubGroupPlacement(session, statement, job.queue, job, root, evicting.place)
            parts.place(list(tasks), node_set)
        elif gang:
            self._in_order(evicting, statement, tasks, node_set)
        else:
            evicting.place(statement, tasks[:1], node_set)
        placed = evicting.placed(statement)
        if not placed or not session.pipelined(job) or not evicting.settle_quota(statement):
            return False
        request = evicting.claim.request
        more = any(amount > request.get(name, 0) for name, amount in placed.items())
        if self.rule == RECLAIM and (more or not request.keys() <= placed.keys()):
            return False  # other pods than those that the queue admitted, or that the other queues gave for
        evicting.reprieve(statement)
        return True

    def _in_order(
        self, evicting: EvictingPlacement, statement: Statement, tasks: list[Task], node_set: NodeSet | None
    ) -> None:
        session, job = self.session, evicting.claim.job
        at = 0
        while at < len(tasks) and not session.pipelined(job):
            first = tasks[at]
            equal = 1
            while at + equal < len(tasks) and _equal(session, first, tasks[at + equal]):
                equal += 1
            wanted = min(self._short(job, first), equal)
            if wanted:
                evicting.place(statement, tasks[at : at + wanted], node_set)
            at += equal

    def _short(self, job: Job, task: Task | None = None) -> int:
        """Returns how many more pods (of the task's role) the job needs for its minimum."""
        short = max(job.min_available - job.ready - job.waiting - job.best_effort_pending, 0)
        if not job.roles or job.min_available < job.roles_total:
            return short
        lacking = {role: max(least - self._having(job, role), 0) for role, least in job.roles.items()}
        beyond = max(short - sum(lacking.values()), 0)
        return max(short, sum(lacking.values())) if task is None else lacking.get(task.role, 0) + beyond

    @staticmethod
    def _having(job: Job, role: str) -> int:
        return sum(1 for t in job.tasks.values() if t.role == role and (t.node >= 0 or t.best_effort))

    def least(self, job: Job, order: Sequence[Task], gang: bool) -> list[Task]:
        """Returns the pods of the order that the claim covers."""
        if not gang:
            return list(order[:1])
        if (root := sub_group_tree(job)) is not None:
            return needed(root, order, self._short(job))
        chosen: list[Task] = []
        quota: dict[str, int] = {}
        beyond = self._short(job)
        if job.roles and job.min_available >= job.roles_total:
            quota = {role: max(least - self._having(job, role), 0) for role, least in job.roles.items()}
            beyond = max(beyond - sum(quota.values()), 0)
        for task in order:
            if quota.get(task.role, 0) > 0:
                quota[task.role] -= 1
                chosen.append(task)
            elif beyond > 0:
                beyond -= 1
                chosen.append(task)
        return chosen

    def orders(self, job: Job, tasks: list[Task], gang: bool) -> Iterator[list[Task]]:
        """Yields the orders in which the pods are tried: task order and, if they differ, by size."""
        session = self.session
        if not gang:
            distinct = dict[tuple[int, int], Task]()
            for task in tasks:
                distinct.setdefault((session.signature(task), task.priority), task)
            yield from ([task] for task in distinct.values())
            return
        # Pods of low priority may evict fewer others, so the claim is also tried without them.
        for least in sorted({task.priority for task in tasks}):
            some = [task for task in tasks if task.priority >= least]
            yield some
            if mixed(session, some):
                largest = largest_first(session, some, None)
                yield largest
                yield largest[::-1]

    def admitted(self, claim: Claim) -> bool:
        """Asks plugins that limit queues but do not report usage, pod by pod, before anything is evicted."""
        session, counts = self.session, dict[int, list[Task]]()
        for task in claim.tasks:
            counts.setdefault(session.signature(task), []).append(task)
        return all(session.admits_unlisted(claim.queue, some[0], len(some)) for some in counts.values())

    def _sets(self, job: Job, tasks: list[Task], pool: VictimPool) -> Sequence[NodeSet | None]:
        session = self.session
        if not session.dividers:
            return [None]
        everywhere = NodeSet(np.arange(len(session.state.nodes)), freed=pool.everything())
        sets = divide_nodes(session, job, tasks, everywhere)
        if sets is None:
            root = sub_group_tree(job)
            return [everywhere if root is not None and any(group.constrained for group in root.groups()) else None]
        job.attempt.divided = True
        found: list[NodeSet | None] = []
        for node_set in sets:
            if enough_at_most(session, self.least(job, tasks, not session.pipelined(job)), pool, node_set):
                found.append(node_set)
            if len(found) == _SETS:
                break
        return found


def _equal(session: Session, a: Task, b: Task) -> bool:
    return a.role == b.role and session.signature(a) == session.signature(b)


def _in(job: Job | None, keys: frozenset[str]) -> bool:
    return job is not None and job.key in keys
