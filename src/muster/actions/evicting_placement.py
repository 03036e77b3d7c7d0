"""Places pods of a claim: on nodes with enough capacity, and on nodes where evictions free enough.

It places as `Placement.promise` does, and also chooses victims: on the node whose victims cost least per pod that is
placed. Evictions are moves of the same statement, so that every filter, account and minimum takes them into account.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

import numpy as np

from muster.actions.cheapest_victims import CheapestVictims
from muster.actions.victim_costs import VictimCosts
from muster.actions.victim_pool import Cost, VictimPool
from muster.engine.core.hooks import Batch, NodeSet
from muster.engine.core.jobs import Job, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.resources import add, asked
from muster.engine.core.session import Session
from muster.engine.core.statement import Move, Statement, perform, revert
from muster.engine.core.subgroups import sub_group_tree
from muster.engine.evictions.claim import RECLAIM, Claim, Unit, Units

Make = Callable[[], Unit | None]  # makes a unit with its current pods
_ONE_FOR_ONE = [(MoveKind.EVICT, 1), (MoveKind.PIPELINE, 1)]


class EvictingPlacement:
    """One attempt of a claim. The caller commits or discards the statement."""

    def __init__(self, session: Session, units: Units, pool: VictimPool, claim: Claim) -> None:
        self.session = session
        self.units = units
        self.pool = pool
        self.claim = claim
        self.nodes = session.state.nodes
        self.costs = VictimCosts(session, units, pool)
        self._before = [dict(used) for used, _ in session.usage(claim.queue)]
        self._unit_of: dict[int, Unit] = {}  # id of an eviction's move → the unit it belongs to
        self._moves: list[Move] = []  # keeps those ids alive
        self._moving: dict[int, bool] = {}
        self.cheapest = CheapestVictims(session, pool, self.costs, self._evict_on, self.gives_at_most)

    def moving(self, task: Task) -> bool:
        """Returns whether a filter other than the capacity depends on the pods of the node."""
        signature = self.session.signature(task)
        found = self._moving.get(signature)
        if found is None:
            filters = self.session.placement.answers(task).moving_filters()
            found = self._moving[signature] = any(not term.capacity for term in filters)
        return found

    def gives_at_most(self) -> dict[str, float]:
        return self.pool.gives_at_most(self.units, self.claim)

    # --- placing

    def place(self, statement: Statement, run: Sequence[Task], within: NodeSet | None) -> int:
        """Pipelines equal tasks in order, with evictions where needed; returns how many found a node."""
        done = self.session.placement.promise(statement, run, within)
        self.cheapest.begin()
        start = statement.checkpoint()
        while done < len(run) and self._make_way(statement, run[done], len(run) - done, within):
            placed = self._promise(statement, start, run[done:], within)
            if not placed:
                break  # a rule between pods refuses the task on a node with enough capacity
            done += placed
            done += self._promise_again(statement, start, run[done:])
            start = statement.checkpoint()
        return done

    def _promise(self, statement: Statement, start: int, run: Sequence[Task], within: NodeSet | None) -> int:
        """Pipelines equal tasks onto what the moves since `start` have freed. Before them no node took such a task."""
        task, freed = run[0], {node for move in statement.moves[start:] for node in move.nodes}
        if len(freed) != 1 or self.moving(task) or self.session.placement.answers(task).batch() != Batch.COLUMNS:
            return self.session.placement.promise(statement, run, within)
        (node,) = freed  # there is only one node
        count = min(self.costs.copies(task, node), len(run))
        statement.pipeline(list(run[:count]), [node] * count)
        return count

    def _promise_again(self, statement: Statement, start: int, run: Sequence[Task]) -> int:
        """Evicts on the same node for further tasks, if the moves since `start` are a victim and a task of one size.

        The columns of the node are then as before. If the scores read nothing else and all candidates there have that
        size, the next task finds the node as the last task found it: the cheapest, by one victim. It is decided anew
        when a victim is protected.
        """
        moves = statement.moves[start:]
        if not run or [(move.kind, len(move.tasks)) for move in moves] != _ONE_FOR_ONE:
            return 0
        task, victim, node = run[0], moves[0].task.shape, moves[0].nodes[0]
        same_size = (victim.amounts, victim.nonzero) == (task.shape.amounts, task.shape.nonzero)
        if not same_size or not self._by_columns(task) or not self.cheapest.stays(node):
            return 0
        here = self.pool.eviction_order(node, self.pool.levels[0], task.shape)
        if any(one.shape is not victim for one in here):
            return 0
        done = 0
        for one in here[: len(run)]:
            unit = self.units.single(one)
            if self.units.protected(self.claim, unit) is not None:
                break
            self.evict(statement, unit, self.claim.tasks[0])
            done += 1
        if done:
            statement.pipeline(list(run[:done]), [node] * done)
        return done

    def _by_columns(self, task: Task) -> bool:
        """Returns whether a node's columns alone decide about the task, apart from what does not change."""
        answers = self.session.placement.answers(task)
        return not self.moving(task) and answers.batch() == Batch.COLUMNS and answers.columns.scored_by_columns

    def _make_way(self, statement: Statement, task: Task, wanted: int, within: NodeSet | None) -> bool:
        """Evicts the cheapest victims for at least one more such task; returns False if no victims are enough."""
        if not self.pool.levels:
            return False
        placement = self.session.placement
        able = placement.might_fit(task) if self.moving(task) else placement.answers(task).static
        if within is not None:
            inside = np.zeros(len(self.nodes), np.bool_)
            inside[within.index] = True
            able = able & inside
        return self.cheapest.make_way(statement, task, wanted, able)

    # --- evicting on one node

    def _evict_on(
        self, statement: Statement, task: Task, wanted: int, node: int, level: int, exact: bool
    ) -> Cost | None:
        """Evicts the cheapest set found on the node that lets the task in; returns its cost, None if there is none."""
        start = statement.checkpoint()
        best: tuple[Cost, list[Unit]] | None = None
        orders = list(self.orders(node, task, level)) if exact else [self._eviction_order(node, task, level)]
        for order in orders:
            found = self._cover(statement, order, lambda: self.enough(task, node), lambda: self._short(task, node))
            if found is not None:
                cost = self.costs.of(found, task, 1 if self.moving(task) else wanted)
                if order is orders[-1] and (best is None or cost <= best[0]):
                    return cost
                if best is None or cost < best[0]:
                    best = cost, found
                statement.rollback(start)
        if best is None:
            return None
        for unit in best[1]:
            self.evict(statement, unit, task)
        return best[0]

    def _eviction_order(self, node: int, task: Task, level: int) -> Iterator[Make]:
        """Yields the units on the node by priority: single pods that free most, then whole jobs, then promises."""
        here, at = self.pool.eviction_order(node, level, task.shape), 0
        while at < len(here):
            some: list[Task] = []
            while at < len(here) and here[at].priority == (some or here[at:])[0].priority:
                some.append(here[at])
                at += 1
                yield lambda u=self.units.single(some[-1]): u  # type: ignore[misc]  # noqa: B008
            jobs = {t.job.key: t.job for t in some if t.job is not None}
            wholes = [unit for job in jobs.values() if (unit := self.pool.whole(job)) and unit.priority <= level]
            for unit in sorted(wholes, key=lambda u: (u.cost, u.job.key)):
                yield lambda j=unit.job: self.pool.whole(j)  # type: ignore[misc]
        for promise in self.pool.promises_on(node, level):
            yield lambda u=promise: u  # type: ignore[misc]

    def orders(self, node: int, task: Task, level: int) -> Iterator[list[Make]]:
        """Yields orders of the units on the node: by preference, and by how much they free of what is requested."""
        entries: list[tuple[tuple[float, ...], float, str, Make]] = []
        jobs: dict[str, Job] = {}
        wanted = asked(task.shape.amounts)

        def relief(tasks: Sequence[Task]) -> float:
            parts = [sum(t.shape.amounts.get(name, 0) for t in tasks) / amount for name, amount in wanted]
            return max(parts, default=0.0)

        for one in self.pool.here(node, level):
            assert one.job is not None
            jobs[one.job.key] = one.job
            unit = self.units.single(one)
            entries.append((unit.cost, relief([one]), one.key, lambda u=unit: u))  # type: ignore[misc]
        for job in jobs.values():
            whole = self.pool.whole(job)
            if whole is not None and whole.priority <= level:
                mine = [t for t in whole.tasks if t.node == node]
                # The rest of the job: some of its pods may have been evicted one by one before.
                entries.append((whole.cost, relief(mine), job.key, lambda j=job: self.pool.whole(j)))  # type: ignore[misc]
        for promise in self.pool.promises_on(node, level):
            mine = [t for t in promise.tasks if t.node == node]
            entries.append((promise.cost, relief(mine), promise.job.key, lambda u=promise: u))  # type: ignore[misc]
        entries.sort(key=lambda e: e[2], reverse=True)  # of equal units the last by name is evicted first
        by_preference = sorted(entries, key=lambda e: e[0])
        yield [e[3] for e in by_preference]
        largest = sorted(entries, key=lambda e: (e[0][0], -e[1] / e[0][1], e[0]))
        if [e[2] for e in largest] != [e[2] for e in by_preference]:
            yield [e[3] for e in largest]

    def units_on(self, node: int) -> list[Unit]:
        """Returns the units of possible victims on the node by preference, protected or not."""
        if not self.pool.levels:
            return []
        order = next(iter(self.orders(node, self.claim.tasks[0], self.pool.levels[-1])))
        return [unit for make in order if (unit := make()) is not None]

    def _cover(
        self,
        statement: Statement,
        order: Iterable[Make],
        enough: Callable[[], bool],
        short: Callable[[], list[str]],
    ) -> list[Unit] | None:
        """Evicts units in order until it is enough, then gives back those not needed; None if undone as not enough."""
        start = statement.checkpoint()
        taken: list[Unit] = []
        covered = enough()
        for make in order if not covered else ():
            unit = make()
            if unit is None or not _helps(unit, short()) or self.units.protected(self.claim, unit) is not None:
                continue
            self.evict(statement, unit, self.claim.tasks[0])
            taken.append(unit)
            if covered := enough():
                break
        if not covered:
            statement.rollback(start)
            return None
        return self.give_back(statement, taken, enough) if len(taken) > 1 else taken

    # --- units

    def enough(self, task: Task, node: int) -> bool:
        if not self.session.placement.fits_future(task, node):
            return False
        return not self.moving(task) or self.session.placement.passes(task, node)

    def _short(self, task: Task, node: int) -> list[str]:
        """Returns the resources that the node lacks; empty if a filter refuses."""
        rows, free = self.nodes.axis.rows, self.nodes.future_idle
        return [n for n, a in task.shape.amounts.items() if free[rows[n], node] < a]

    def evict(self, statement: Statement, unit: Unit, by: Task) -> None:
        start = statement.checkpoint()
        if unit.promise:
            keys = {task.key for task in unit.tasks}
            made = [m for m in self.session.committed if m.kind == MoveKind.PIPELINE and m.task.key in keys]
            for move in made:
                statement.withdraw(move, by)
        else:
            for task in unit.tasks:
                statement.evict(task, by, self.claim.rule)
        for move in statement.moves[start:]:
            self._unit_of[id(move)] = unit
            self._moves.append(move)

    def taken(self, statement: Statement) -> list[Unit]:
        """Returns the units that the statement evicts."""
        found = {id(u): u for m in statement.moves if (u := self._unit_of.get(id(m)))}
        return list(found.values())

    def give_back(
        self, statement: Statement, taken: Sequence[Unit], enough: Callable[[], bool], *, placed: bool = False
    ) -> list[Unit]:
        """Gives back units that are not needed, the highest `Unit.cost` first; returns the units that stay evicted."""
        left = list(taken)
        wholes = Counter(id(unit.job) for unit in taken if unit.whole and not unit.promise)
        moves: dict[int, list[Move]] = {}
        for move in statement.moves:
            if (of := self._unit_of.get(id(move))) is not None:
                moves.setdefault(id(of), []).append(move)
        for unit in sorted(taken, key=lambda u: (-u.priority, -len(u.tasks), -u.whole, u.created, u.tasks[0].key)):
            if not unit.whole and wholes[id(unit.job)] and (self.claim.rule == RECLAIM or _below_minimum(unit)):
                continue  # a queue may give a job beyond its share only as a whole
            mine = moves[id(unit)]
            if placed and self._lacks(mine):
                continue
            for move in reversed(mine):
                revert(self.session, move)
            if enough():
                gone = {id(move) for move in mine}
                statement.moves[:] = [m for m in statement.moves if id(m) not in gone]
                left.remove(unit)
                wholes[id(unit.job)] -= unit.whole and not unit.promise
            else:
                for move in mine:
                    perform(self.session, move)
        return left

    # --- the whole claim

    def overflow(self) -> list[str]:
        """Returns the claim's resources in which the queue exceeds its limit, or its prior usage if that is more."""
        return sorted({name for _, name in self._exceeded()})

    def _exceeded(self) -> Iterator[tuple[Mapping[str, int], str]]:
        for (used, limit), before in zip(self.session.usage(self.claim.queue), self._before, strict=True):
            for name in self.claim.resources:
                if used.get(name, 0) > max(limit.get(name, 0), before.get(name, 0)):
                    yield used, name

    def settle_quota(self, statement: Statement) -> bool:
        """Evicts further units until the queue is within its limits; returns False if that is not enough."""
        if not self.overflow():
            return True
        return self._cover(statement, self.relieving(), lambda: not self.overflow(), self.overflow) is not None

    def relieving(self) -> list[Make]:
        """Returns the units of the queues that count for a limit which the claim exceeds."""
        full, own = [used for used, _ in self._exceeded()], self.claim.queue
        owners = {t.job.queue for t in self.pool.tasks if t.job is not None and t.job.queue is not None} - {own}
        counting = {q.name for q in owners if any(used is one for used, _ in self.session.usage(q) for one in full)}
        return self.everything({own.name, *counting})

    def everything(self, queues: Container[str] | None = None) -> list[Make]:
        """Returns every unit of the pool, or of these queues, by preference: single pods, then whole jobs."""
        pairs = [(t, t.job) for t in self.pool.tasks if t.job is not None]
        tasks = sorted((t for t, job in pairs if queues is None or job.queue_name in queues), key=lambda t: t.key)
        singles = sorted((self.units.single(t) for t in reversed(tasks)), key=lambda u: u.cost)
        makes: list[Make] = [lambda u=unit: u for unit in singles]  # type: ignore[misc]
        jobs = {t.job.key: t.job for t in tasks if t.job is not None}
        wholes = [(whole.cost, key) for key, job in jobs.items() if (whole := self.pool.whole(job))]
        makes += [lambda j=jobs[key]: self.pool.whole(j) for _, key in sorted(wholes)]  # type: ignore[misc]
        return makes

    def has_capacity(self) -> bool:
        """Returns whether the nodes and the queue still have the capacity for what was placed."""
        if self.overflow():
            return False
        if not (at := sorted(self._used)):
            return True
        future_idle, rows = self.nodes.future_idle, self.nodes.axis.rows
        if any((future_idle[rows[name]][at] < 0).any() for name in self._asked):
            return False
        return not any(self.moving(move.task) for move in self._promised) or self._accepted()

    def _lacks(self, evictions: Sequence[Move]) -> bool:
        """Returns whether a node would lack capacity for what was placed on it, without one of these evictions."""
        future_idle, axis = self.nodes.future_idle, self.nodes.axis
        for move in evictions:
            if move.kind != MoveKind.EVICT or move.nodes[0] not in self._used:
                continue
            node, amounts = move.nodes[0], move.task.shape.amounts
            if any(future_idle[axis.rows[n], node] < amounts.get(n, 0) for n in self._asked):
                # As if it had been tried: the known costs of the nodes are computed again.
                self.nodes.log.extend([one.nodes[0] for one in evictions])
                return True
        return False

    def _accepted(self) -> bool:
        """Returns whether every filter would accept the placed pods again, one after the other."""
        session, placement = self.session, self.session.placement
        for move in reversed(self._promised):
            revert(session, move)
        again: list[Move] = []
        accepted = True
        for task, node in [pair for m in self._promised for pair in zip(m.tasks, m.nodes, strict=True)]:
            accepted = placement.accepts(task, node, MoveKind.PIPELINE)
            if not accepted:
                break
            again.append(Move(MoveKind.PIPELINE, [task], [node], task.status))
            perform(session, again[-1])
        for move in reversed(again):
            revert(session, move)
        for move in self._promised:
            perform(session, move)
        return accepted

    def reprieve(self, statement: Statement) -> None:
        """Gives back every unit that the claim does not need."""
        self._promised = [m for m in statement.moves if m.kind == MoveKind.PIPELINE]
        self._used = {node for move in self._promised for node in move.nodes}
        self._asked = {n for move in self._promised for n, a in move.task.shape.amounts.items() if a > 0}
        self.give_back(statement, self.taken(statement), self.has_capacity, placed=True)

    def placed(self, statement: Statement) -> dict[str, int]:
        """Returns the sum of the requests of the placed pods, without `pods`."""
        total: dict[str, int] = {}
        for move in statement.moves:
            if move.kind == MoveKind.PIPELINE:
                add(total, move.task.shape.amounts, len(move.tasks))
        return total if not total else dict(asked(total)) or {"": 0}

    def total(self, statement: Statement) -> tuple[object, ...]:
        """Returns the cost of the attempt: priorities from the highest down, pods, whole jobs, age; less is better."""
        taken = self.taken(statement)
        pods = sorted((task.priority for unit in taken for task in unit.tasks), reverse=True)
        age = -min((unit.created for unit in taken), default=0.0)
        return (tuple(pods), sum(unit.whole for unit in taken), age)


def _helps(unit: Unit, lacking: Sequence[str]) -> bool:
    """Returns whether the unit frees a lacking resource; if none is lacking, a filter refuses and any unit may help."""
    return not lacking or any(task.shape.amounts.get(name, 0) > 0 for name in lacking for task in unit.tasks)


def _below_minimum(unit: Unit) -> bool:
    """Returns whether the job, of which the other pods are evicted as a whole, would be incomplete with this unit."""
    job = unit.job
    return bool(job.roles) or sub_group_tree(job) is not None or job.ready + len(unit.tasks) < job.min_available
