"""The cost of victims on a node for a claim: exact, as a lower bound, or as an estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muster.actions.victim_pool import Cost, VictimPool, relief_by_shape
from muster.engine.core.jobs import Job, Shape, Task
from muster.engine.core.resources import add, asked
from muster.engine.core.session import Session
from muster.engine.evictions.claim import Unit, Units

FREE: Cost = (-float("inf"), 0.0, 0.0, 0.0)


class VictimCosts:
    def __init__(self, session: Session, units: Units, pool: VictimPool) -> None:
        self.session = session
        self.units = units
        self.pool = pool
        self.nodes = session.state.nodes
        self._gains: dict[tuple[int, str], int] = {}

    def of(self, taken: Sequence[Unit], task: Task, wanted: int) -> Cost:
        """Returns the cost of evicted units per task that now fits."""
        if not taken:
            return FREE
        at = {victim.node for unit in taken for victim in unit.tasks if victim.node >= 0}
        gained = min(sum(self.copies(task, node) for node in at), wanted) if wanted > 1 else 1
        return (
            float(max(unit.priority for unit in taken)),
            sum(len(unit.tasks) for unit in taken) / max(gained, 1),
            float(sum(unit.whole for unit in taken)),
            -min(unit.created for unit in taken),
        )

    def copies(self, task: Task, node: int) -> int:
        free = self.nodes.future_idle
        needs = self.nodes.axis.needs(task.shape.amounts)
        return max(min((int(free[row, node]) // amount for row, amount in needs), default=1), 0)

    def bound(self, task: Task, wanted: int, node: int, level: int) -> Cost | None:
        """Returns a lower bound of the cost of victims on the node; None if no pod there may be evicted."""
        promised = [t for unit in self.pool.promises_on(node, level) for t in unit.tasks if t.node == node]
        here = self.pool.here(node, level) + promised
        if not here:
            return None
        axis = self.nodes.axis
        least, most = 1, wanted
        for name, amount in task.shape.amounts.items():
            if amount <= 0:
                continue
            free = int(self.nodes.future_idle[axis.rows[name], node])
            relief = sorted((t.shape.amounts.get(name, 0) for t in here), reverse=True)
            most = min(most, (free + sum(relief)) // amount)
            short, count = amount - free, 0
            for one in relief:
                if short <= 0:
                    break
                short, count = short - one, count + 1
            least = max(least, count)
        return (float(level), least / max(most, 1), 0.0, -float("inf"))

    def estimate(self, task: Task, wanted: int, node: int, level: int) -> Cost | None:
        """Returns the estimated cost of victims on the node: surplus pods, or the cheapest job evicted as a whole."""
        here = self.pool.here(node, level)
        if not here:
            return self.bound(task, wanted, node, level)  # there may be promises that can be withdrawn
        account, rows = self.nodes.future_idle, self.nodes.axis.rows
        free = {name: int(account[rows[name], node]) for name in task.shape.amounts}
        short = {name: amount - free[name] for name, amount in task.shape.amounts.items() if amount > free[name]}
        relief = relief_by_shape(here, list(short.items()))
        if self._one_is_enough(here, short, relief):
            return (float(level), 1.0, 0.0, 0.0)
        by_job: dict[str, list[Task]] = {}
        for one in here:
            assert one.job is not None
            by_job.setdefault(one.job.key, []).append(one)
        singles: list[Task] = []
        wholes: list[tuple[int, list[Task], Job | None]] = [(0, [], None)]
        for tasks in by_job.values():
            job = tasks[0].job
            assert job is not None
            singles += tasks[: self.units.surplus(job)]
            wholes.append((self.units.placed_pods(job), tasks, job))
        singles.sort(key=lambda t: -relief[t.shape])
        best: tuple[float, int] | None = None
        for pods, tasks, whole in wholes:
            left = {n: a - sum(t.shape.amounts.get(n, 0) for t in tasks) for n, a in short.items()}
            for one in singles:
                if all(a <= 0 for a in left.values()):
                    break
                if whole is None or one.job is not whole:
                    pods += 1
                    left = {n: a - one.shape.amounts.get(n, 0) for n, a in left.items()}
            if any(a > 0 for a in left.values()):
                continue
            gained = 1 if whole is None else min(max(self._gain(task, whole), 1), wanted)
            option = (max(pods, 1) / gained, int(whole is not None))
            best = option if best is None else min(best, option)
            if whole is None and pods <= 1:
                break  # one surplus pod is enough
        if best is None:  # several jobs would have to be evicted as a whole
            best = (float(sum(pods for pods, _, _ in wholes)), len(wholes))
        return (float(level), best[0], float(best[1]), 0.0)

    def _one_is_enough(self, here: Sequence[Task], short: Mapping[str, int], relief: Mapping[Shape, float]) -> bool:
        """Returns whether one surplus pod is certainly enough, and is the pod that would be evicted."""
        most = max(relief.values())
        seen: set[int] = set()
        for one in here:
            job = one.job
            assert job is not None
            if id(job) in seen:
                continue
            seen.add(id(job))  # only its first pod here is certainly a surplus pod
            if relief[one.shape] == most and self.units.surplus(job):
                best = [shape.amounts for shape, part in relief.items() if part == most]
                return all(amounts.get(n, 0) >= a for amounts in best for n, a in short.items())
        return False

    def _gain(self, task: Task, job: Job) -> int:
        """Returns how many such tasks would fit in place of the job, by the requests of its pods."""
        signature = (self.session.signature(task), job.key)
        found = self._gains.get(signature)
        if found is None:
            used_by_node: dict[int, dict[str, int]] = {}
            for one in job.tasks.values():
                if one.node >= 0:
                    add(used_by_node.setdefault(one.node, {}), one.shape.amounts)
            amounts = asked(task.shape.amounts)
            found = self._gains[signature] = sum(
                min((here.get(n, 0) // a for n, a in amounts), default=1) for here in used_by_node.values()
            )
        return found
