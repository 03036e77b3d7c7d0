"""The account of a queue: what its jobs have allocated, what admitted jobs still reserve, and its limits.

The plugins proportion and capacity keep one account per queue. The allocated amounts follow every move of the cycle
(pipelined pods count, evicted pods do not). The reserved amounts are read when the cycle opens and grow with each
admitted job.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from muster.engine.core import resources
from muster.engine.core.hooks import Reason
from muster.engine.core.jobs import ALLOCATED_LIKE, Job, Queue, Status, Task
from muster.engine.core.resources import ALWAYS, SLACK, Amounts, add
from muster.engine.evictions.claim import RECLAIM, Claim, request_of
from muster.engine.queues.limits import Origin
from muster.model.quantity import display

_ON_NODE = [int(status) for status in ALLOCATED_LIKE]
_STAYING = [*_ON_NODE, int(Status.UNKNOWN)]


class Account:
    __slots__ = (
        "_ancestors", "_deserved", "_messages", "_names", "_next", "_share", "allocated", "chain", "elastic", "fault",
        "guarantee", "inner", "inqueue", "origin", "queue", "real",
    )  # fmt: skip

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.allocated: dict[str, int] = {}
        self.inqueue: dict[str, int] = {}  # what admitted jobs reserve beyond what is allocated to them
        self.elastic: dict[str, int] = {}  # what jobs have allocated beyond their minimum
        self.guarantee: dict[str, int] = dict(queue.guarantee)
        self.real: dict[str, int] = {}  # real capability: the most that may be allocated to the queue
        self.origin: Origin | None = None  # where the real capability comes from
        self._deserved: Amounts = {}
        self.ancestors = ()
        self.inner = False  # has child queues
        self.fault: Reason | None = None  # why the queue admits nothing at all
        self._share: float | None = None
        self._names: list[str] = []  # of the deserved resources; from `_next` on they are tested for being lacking
        self._next = 0
        self._messages: dict[tuple[object, ...], str] = {}

    @property
    def deserved(self) -> Amounts:
        return self._deserved

    @deserved.setter
    def deserved(self, amounts: Amounts) -> None:
        self._deserved, self._names, self._next, self._share = amounts, list(amounts), 0, None

    @property
    def ancestors(self) -> tuple[Account, ...]:
        """From the root down."""
        return self._ancestors

    @ancestors.setter
    def ancestors(self, accounts: tuple[Account, ...]) -> None:
        self._ancestors = accounts
        self.chain: tuple[Account, ...] = (self, *reversed(accounts))  # the queue and its ancestors, nearest first

    def move(self, request: Mapping[str, int], times: int) -> None:
        allocated, deserved, share = self.allocated, self._deserved, self._share
        for name, amount in request.items():
            now = allocated[name] = allocated.get(name, 0) + times * amount
            # Only these shares grow: with thousands of resources, reading all of them each time would take long.
            if share is not None and (whole := deserved.get(name, 0)) >= SLACK and now / whole > share:
                share = now / whole
        self._share = share if times > 0 else None

    def lacks(self, beside: Mapping[str, int]) -> bool:
        """Whether the queue has less than it deserves of a resource that is not in `beside`.

        The search begins with the resource that answered last time.
        """
        names, deserved, allocated = self._names, self._deserved, self.allocated
        for i in itertools.chain(range(self._next, len(names)), range(self._next)):
            name = names[i]
            if deserved[name] - allocated.get(name, 0) >= SLACK and not beside.get(name, 0):
                self._next = i
                return True
        return False

    @property
    def share(self) -> float:
        """The largest share of its deserved amounts that is allocated."""
        if self._share is None:
            self._share = resources.largest_share(self.allocated, self.deserved)
        return self._share

    def refuses(self) -> Reason | None:
        """Returns why the queue admits nothing at all; None if it may."""
        if not self.queue.open:
            state = self.queue.object.status.state
            return Reason("queue-not-open", f"queue {self.queue.name} is {state}, not Open", resolvable=False)
        return self.fault

    # --- reclaim, by muster's rules

    def named(self, amounts: Mapping[str, int]) -> list[str]:
        """Returns the resources in which amounts are compared with the deserved share: those that `deserved` names.

        Where it names none of them, all count, with nothing deserved.
        """
        asked = [name for name, amount in amounts.items() if amount > 0 and name != "pods"]
        deserved = self._deserved
        return [name for name in asked if name in deserved] or asked

    def deserves(self, amounts: Mapping[str, int]) -> bool:
        """Whether the queue would stay within its deserved share in each of these amounts."""
        used, deserved = self.allocated, self.deserved
        return all(used.get(n, 0) + amounts[n] < deserved.get(n, 0) + SLACK for n in self.named(amounts))

    def undeserved(self, amounts: Mapping[str, int]) -> Reason:
        """Returns why `deserves` is False: `queue a: cpu requested 4 + allocated 2 > spec.deserved 4`."""
        used, deserved = self.allocated, self.deserved
        names = [n for n in self.named(amounts) if used.get(n, 0) + amounts[n] >= deserved.get(n, 0) + SLACK]
        text = resources.inequality(
            names, lambda n: f"{self._deserved_name(n)} {display(n, deserved.get(n, 0))}",
            requested=amounts, allocated=used,
        )  # fmt: skip
        return Reason("queue-share", f"queue {self.queue.name}: {text}")

    def _deserved_name(self, name: str) -> str:
        """The field, if the user wrote what the queue deserves; plugins may also compute it from weights."""
        return "spec.deserved" if self.queue.deserved.get(name) == self.deserved.get(name, 0) else "deserved"

    def gives_nothing(self, claim: Claim) -> bool:
        """Whether the queue has at most its deserved share of every claimed resource."""
        used, deserved = self.usage_before(claim), self.deserved
        return not any(used.get(n, 0) >= deserved.get(n, 0) + SLACK for n in claim.request)

    def usage_before(self, claim: Claim) -> dict[str, int]:
        return claim.usage_before(self.queue.name, self.allocated)

    def protects(self, claim: Claim, victims: Sequence[Task]) -> Reason | None:
        """Returns why the queue must keep these pods of one job; None if it need not.

        Only what the queue has above its deserved share of a claimed resource may be reclaimed. The queue keeps its
        share of every resource of which it had more when the claim began. As the last resort, evicting a whole job may
        take it below its share.
        """
        if claim.rule != RECLAIM:
            return None
        taken = victims[0].shape.amounts if len(victims) == 1 else request_of(victims)
        before, now, deserved = self.usage_before(claim), self.allocated, self._deserved
        named = self.named(taken)
        over = [n for n in named if before.get(n, 0) >= deserved.get(n, 0) + SLACK]
        if claim.request.keys().isdisjoint(over):
            return self._kept([n for n in named if n in claim.request] or list(claim.request), {})
        if claim.last_resort and len(victims) == _on_nodes(victims[0].job):
            if any(n in claim.request and now.get(n, 0) >= deserved.get(n, 0) + SLACK for n in over):
                return None
            return self._kept([n for n in over if n in claim.request], {})
        below = [n for n in over if now.get(n, 0) - taken[n] <= deserved.get(n, 0) - SLACK]
        return self._kept(below, taken) if below else None

    def _kept(self, names: Sequence[str], taken: Mapping[str, int]) -> Reason:
        """Returns the reason with its inequality: `queue b deserves 4 cpu and would keep 3 cpu`."""

        def text(_: int) -> str:
            verb = "would keep" if taken else "has"
            parts = (
                f"deserves {display(n, self.deserved.get(n, 0))} {n} and {verb} "
                f"{display(n, self.allocated.get(n, 0) - taken.get(n, 0))} {n}"
                for n in names
            )
            return f"queue {self.queue.name} {', '.join(parts)}"

        return Reason("queue-share", text)

    def gives_at_most(self, claim: Claim) -> dict[str, float]:
        """Returns the bound that `protects` sets for all victims together."""
        before, now, deserved = self.usage_before(claim), self.allocated, self.deserved
        if claim.rule != RECLAIM or (
            claim.last_resort and any(now.get(n, 0) >= deserved.get(n, 0) + SLACK for n in claim.request)
        ):
            return {}
        over = [n for n in claim.request if n in deserved and before.get(n, 0) >= deserved[n] + SLACK]
        return {n: max(now.get(n, 0) - deserved[n] + SLACK, 0.0) for n in over}

    # --- admission

    def overruns(self, minimum: Mapping[str, int]) -> list[str]:
        """In which dimensions a job of this minimum would pass the queue's real capability."""
        allocated, inqueue, elastic, real = self.allocated, self.inqueue, self.elastic, self.real
        return [
            name for name, amount in resources.asked(minimum)
            if amount + allocated.get(name, 0) + inqueue.get(name, 0) - elastic.get(name, 0) > real.get(name, 0)
        ]  # fmt: skip

    def admits(self, minimum: Mapping[str, int], count: int) -> int:
        """Returns how many of `count` jobs of this minimum stay within the real capability one after the other; at
        least 1. If they add less than their minimum (gated pods), it is a lower bound.
        """
        return max(resources.count_within(self._admitted(minimum), self.real, minimum, count), 1)

    def _admitted(self, names: Iterable[str]) -> dict[str, int]:
        """What jobs have and what admitted jobs reserve, less what they have beyond their minimum."""
        return {
            name: self.allocated.get(name, 0) + self.inqueue.get(name, 0) - self.elastic.get(name, 0) for name in names
        }

    def overrun_message(self, minimum: Mapping[str, int]) -> str:
        parts = {
            "requested": minimum, "allocated": self.allocated, "inqueue": self.inqueue, "less_elastic": self.elastic
        }  # fmt: skip
        # Thousands of equal jobs may be refused in one cycle: the message is made once.
        same = tuple(tuple(part.items()) for part in parts.values())
        message = self._messages.get(same)
        if message is None:
            text = resources.inequality(self.overruns(minimum), self.capability_text, **parts)
            message = self._messages[same] = f"queue {self.queue.name}: {text}"
        return message

    def capability_text(self, name: str) -> str:
        """The queue's real capability in one resource, as the user wrote it."""
        real = self.real.get(name, 0)
        if self.origin is None:
            return f"spec.capability {display(name, real)}"
        return self.origin.describe(self.queue.name, name, real)

    def share_text(self, name: str, weights: int) -> str:
        """What the queue deserves by weight; where something else limits that, the name of it."""
        share = self.deserved.get(name, 0)
        if share == self.real.get(name, 0):
            return self.capability_text(name)
        if share == self.guarantee.get(name, -1):
            return f"spec.guarantee.resource {display(name, share)}"
        return f"share {display(name, share)} (spec.weight {self.queue.weight} of {weights})"

    def quota_message(self, request: Mapping[str, int], limit: Amounts, limit_text: Callable[[str], str]) -> str:
        """`queue q: cpu requested 2 + allocated 9 > share 10 (spec.weight 1 of 3)`."""
        use = {name: amount + self.allocated.get(name, 0) for name, amount in request.items()}
        names = resources.over(use, limit, request)
        text = resources.inequality(names, limit_text, requested=request, allocated=self.allocated)
        return f"queue {self.queue.name}: {text}"


def _on_nodes(job: Job | None) -> int:
    """How many pods of the job are on a node and not terminating."""
    count = job.count if job is not None else [0] * len(Status)
    return sum([count[status] for status in _STAYING])


def real_capability(
    offered: Mapping[str, int], promised: Mapping[str, int], guarantee: Mapping[str, int], capability: Mapping[str, int]
) -> dict[str, int]:
    """Computes what is offered beyond all guarantees, plus the queue's guarantee, at most its capability.

    Volcano: a capability of 0 cpu or memory is none; of anything else it is a limit of 0.
    """
    real = {name: max(amount - promised.get(name, 0), 0) for name, amount in offered.items()}
    add(real, guarantee)
    for name, amount in capability.items():
        if name in real and (amount > 0 or name not in ALWAYS):
            real[name] = min(real[name], amount)
    return real


def promised(queues: Iterable[Queue]) -> dict[str, int]:
    """The sum of guarantees."""
    found: dict[str, int] = {}
    for queue in queues:
        add(found, queue.guarantee)
    return found


# --- what a job reserves


def minimum(job: Job) -> dict[str, int]:
    return job.min_resources or {}


def without_gated(job: Job, amounts: dict[str, int]) -> dict[str, int]:
    """Subtracts the requests of gated pods: they cannot be scheduled yet, so nothing is reserved for them."""
    if not amounts:
        return amounts
    gated: dict[str, int] = {}
    for task in job.tasks.values():
        if task.gated:
            add(gated, task.shape.amounts)
    if resources.empty(gated):
        return amounts
    return {name: max(amount - gated.get(name, 0), 0) for name, amount in amounts.items()}


def still_reserved(job: Job) -> dict[str, int]:
    """Returns the part of an admitted job's minimum that is not allocated yet."""
    if job.min_resources is None or not reserves(job):
        return {}
    missing = {name: max(amount - job.allocated.get(name, 0), 0) for name, amount in job.min_resources.items()}
    return without_gated(job, missing)


def reserves(job: Job) -> bool:
    """Whether the job reserves its minimum: admitted jobs do, running jobs while enough of their pods are allocated.

    Volcano: a job whose pods have mostly ended is still called Running; it must not reserve its minimum once more.
    """
    if job.phase == "Inqueue":
        return True
    return job.phase == "Running" and placed_pods(job) >= job.min_available


def placed_pods(job: Job) -> int:
    return sum([job.count[status] for status in _ON_NODE])


def elastic(job: Job) -> dict[str, int]:
    """Returns what the job has allocated beyond its minimum."""
    if not job.allocated:
        return {}
    least = minimum(job)
    beyond = {name: amount - least.get(name, 0) for name, amount in job.allocated.items()}
    return {name: amount for name, amount in beyond.items() if amount > 0}


def valid_tasks(job: Job) -> int:
    """Pods that have or can still get a node."""
    c = job.count
    return job.ready + c[Status.PIPELINED] + c[Status.PENDING]


def parts(job: Job) -> tuple[Mapping[str, int], ...]:
    """What a job has allocated, requests in all, still reserves, and has beyond its minimum."""
    return job.allocated, job.total, still_reserved(job), elastic(job)
