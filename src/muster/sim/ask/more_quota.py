"""The smallest increase of a queue's quota with which the job runs now.

The fields of the job's queue and of its ancestors are tried, those first that the user wrote: `capability`, `deserved`,
`guarantee` and, where plugin proportion divides the cluster, `weight`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from muster.engine.core.jobs import Task
from muster.engine.core.resources import add, total_of
from muster.engine.core.state import State
from muster.model.meta import ResourceList
from muster.model.quantity import canonical
from muster.model.requests import amounts
from muster.model.scheduling import Guarantee, Queue
from muster.sim.ask.answer import MORE_QUOTA, Proposal, patch_of
from muster.sim.ask.evictions import with_victims
from muster.sim.ask.trial import Asked, Trial

__all__ = ["QuotaSearch", "more_quota"]

MAX_WEIGHT = 1024
WEIGHT = "weight"
# The unit of the search, in internal units: a millicore is too fine to write, and so is a byte.
_STEP = {"cpu": 100, "memory": 1 << 20, "ephemeral-storage": 1000 << 20}
_STEP_OF_OTHERS = 1000  # devices are counted in thousandths


@dataclass(frozen=True, slots=True)
class Amount:
    """One number of a queue that is raised: of a resource in one of its lists, or the weight."""

    queue: str
    field: str  # capability | deserved | guarantee | weight
    resource: str  # "" for the weight
    now: int
    most: int
    guess: int  # what the queue has and the job requests

    @property
    def step(self) -> int:
        return 1 if self.field == WEIGHT else _STEP.get(self.resource, _STEP_OF_OTHERS)

    def shown(self, amount: int) -> str:
        """Returns a value exactly, as a manifest writes it."""
        return str(amount) if self.field == WEIGHT else canonical(self.resource, amount)


Values = Mapping[Amount, int]


class QuotaSearch:
    """Searches the quota of one queue and its ancestors."""

    def __init__(self, asked: Asked, state: State, queue: str, tasks: Sequence[Task]) -> None:
        self._asked = asked
        self._state = state
        self._line = _line(state, queue)
        self._total = total_of(state.nodes)
        self._request: dict[str, int] = {}
        for task in tasks:
            for name, amount in task.shape.amounts.items():
                self._request[name] = self._request.get(name, 0) + amount
        if not tasks:  # pods that are not created yet: whatever the cluster has
            self._request = dict(self._total)
        self._plugins = {option.name for option in asked.scheduler.config.plugins()}

    def candidates(self) -> Iterator[list[Amount]]:
        """Yields what may be raised together: the fewest fields first."""
        own = self._line[:1]
        above = [self._fields("capability", [name]) for name in self._line]
        yield from above
        for field in ("deserved", "guarantee"):
            yield self._fields(field, own)
        if "proportion" in self._plugins:
            yield self._weight(own)
        everywhere = [amount for amounts in above for amount in amounts]
        yield everywhere if len(self._line) > 1 else []
        yield [*everywhere, *self._fields("deserved", self._line)]

    def everything(self) -> list[Amount]:
        """Returns all that may be raised, each number once."""
        return list(dict.fromkeys(amount for amounts in self.candidates() for amount in amounts))

    def _queue(self, name: str) -> Queue | None:
        found = self._asked.cluster.get("Queue", {}).get(name)
        return found if isinstance(found, Queue) else None

    def _fields(self, field: str, names: Sequence[str]) -> list[Amount]:
        found = []
        for name in names:
            queue = self._queue(name)
            if queue is None:
                continue
            written = amounts(_list(queue, field))
            # A capability limits only what it names; a share that is not written is 0.
            resources = written if field == "capability" else {**dict.fromkeys(self._request, 0), **written}
            if field == "deserved" and not written and "capacity" not in self._plugins:
                continue
            if field == "guarantee" and not written:
                continue
            used, wanted = self._used(name)
            for resource in sorted({*resources} & {*self._request} - {"pods"}):
                now, guess = resources[resource], used.get(resource, 0) + self._request[resource]
                most = max(self._total.get(resource, 0), guess, wanted.get(resource, 0) + self._request[resource])
                if most > now:
                    found.append(Amount(name, field, resource, now, most, guess))
        return found

    def _weight(self, names: Sequence[str]) -> list[Amount]:
        queues = [queue for name in names if (queue := self._queue(name)) is not None]
        return [Amount(q.metadata.name, WEIGHT, "", q.spec.weight, MAX_WEIGHT, q.spec.weight + 1) for q in queues]

    def _used(self, name: str) -> tuple[dict[str, int], dict[str, int]]:
        """Returns what the queue and its descendants have allocated, and what they have and wait for."""
        used: dict[str, int] = {}
        wanted: dict[str, int] = {}
        for queue in self._state.queues.values():
            if name in _line(self._state, queue.name):
                for job in queue.jobs.values():
                    add(used, job.allocated)
                    add(wanted, job.total)
        return used, wanted

    def with_values(self, values: Values) -> Asked:
        """Returns the question with these numbers in the queues."""
        changed: dict[str, Any] = {}
        for amount, value in values.items():
            queue = changed.get(amount.queue) or self._queue(amount.queue)
            assert isinstance(queue, Queue)
            changed[amount.queue] = replace(queue, spec=_raised(queue, amount, value))
        return self._asked.with_objects("Queue", changed)

    def largest(self, found: Sequence[Amount]) -> Asked:
        """Returns the question with as much quota as the cluster can serve."""
        return self.with_values({amount: amount.most for amount in found})

    def smallest(self, found: Sequence[Amount], runs: Callable[[Asked], bool]) -> dict[Amount, int]:
        """Returns the smallest numbers that let the job run, one after the other: the largest must."""
        values = {amount: amount.most for amount in found}
        for amount in found:

            def runs_with(value: int, amount: Amount = amount) -> bool:
                return runs(self.with_values({**values, amount: value}))

            values[amount] = self._least(amount, runs_with)
        return {amount: value for amount, value in values.items() if value != amount.now}

    def _least(self, amount: Amount, runs: Callable[[int], bool]) -> int:
        if runs(amount.now):
            return amount.now
        step, low, high = amount.step, amount.now, amount.most  # with `low` it does not run, with `high` it does
        if low < amount.guess <= high:
            if runs(amount.guess):
                high = amount.guess
                if high - step <= low or not runs(high - step):
                    return high
                high -= step
            else:
                low = amount.guess
        while high - low > step:
            # Written numbers should be round: the middle is a multiple of the step, if one is in the interval.
            middle = (low + high) // 2 // step * step
            middle = middle if middle > low else (low + high) // 2
            if runs(middle):
                high = middle
            else:
                low = middle
        return high


def more_quota(asked: Asked, state: State, queue: str, tasks: Sequence[Task]) -> Iterator[Proposal]:
    """Yields the smallest increase for the first set of fields that lets the job run.

    If no increase lets it run now, and the scheduler may evict, the share that lets it run after evictions is searched.
    """
    search = QuotaSearch(asked, state, queue, tasks)
    waits = (Asked.try_now, Asked.try_until_settled) if _evicts(asked) else (Asked.try_now,)
    for wait in waits:

        def runs(tried: Asked, wait: Callable[[Asked], Trial] = wait) -> bool:
            return wait(tried).runs

        for found in search.candidates():
            if not found or not runs(search.largest(found)):
                continue
            values = search.smallest(found, runs)
            if values:
                proposal = quota_proposal(asked, search, values)
                yield with_victims(proposal, wait(search.with_values(values)))
            return


def _evicts(asked: Asked) -> bool:
    return not {"preempt", "reclaim"}.isdisjoint(asked.scheduler.config.actions)


def quota_proposal(asked: Asked, search: QuotaSearch, values: Values) -> Proposal:
    """Returns the proposal with these numbers."""
    parts, changes = [], []
    for amount, value in values.items():
        field = f"spec.{amount.field}{'.resource' if amount.field == 'guarantee' else ''}"
        of = f"[{amount.resource}]" if amount.resource else ""
        more = amount.shown(value - amount.now)
        was, to = amount.shown(amount.now), amount.shown(value)
        parts.append(f"{field}{of} of queue {amount.queue} from {was} to {to} (+{more})")
        changes.append({
            "queue": amount.queue, "field": field, "resource": amount.resource or None,
            "from": was, "to": to, "add": more,
        })  # fmt: skip
    after = search.with_values(values).cluster["Queue"]
    patches = [patch_of(asked.cluster["Queue"][name], after[name]) for name in sorted({a.queue for a in values})]
    return Proposal(MORE_QUOTA, f"Raise {' and '.join(parts)}.", {"quota": changes}, tuple(patches))


def _line(state: State, name: str) -> list[str]:
    """Returns the queue and its ancestors, as far as they exist."""
    line: dict[str, None] = {}
    while name in state.queues and name not in line:
        line[name] = None
        name = state.queues[name].parent
    return list(line)


def _list(queue: Queue, field: str) -> ResourceList:
    spec = queue.spec
    if field == "guarantee":
        return {} if spec.guarantee is None else spec.guarantee.resource
    return spec.capability if field == "capability" else spec.deserved


def _raised(queue: Queue, amount: Amount, value: int) -> Any:
    if amount.field == WEIGHT:
        return replace(queue.spec, weight=value)
    new = {**_list(queue, amount.field), amount.resource: canonical(amount.resource, value)}
    if value == amount.now:
        return queue.spec  # as the user wrote it
    if amount.field == "guarantee":
        return replace(queue.spec, guarantee=Guarantee(resource=new))
    return replace(queue.spec, **{amount.field: new})
