"""Promises: capacity that was freed for a claimer counts as used for everybody else until the claimer is bound.

The pods of a claim are nominated to their nodes (status.nominatedNodeName). When a cycle opens, each nominated pod is
pipelined to its node, so that the accounts protect the capacity; a claim whose nodes have the capacity now is bound at
once, whatever the order and the quota of its queue. A promise that cannot be kept is withdrawn as a whole, and its
job makes no further claim before a back-off has passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.nodes import MoveKind

if TYPE_CHECKING:
    from muster.engine.core.session import Session
    from muster.engine.core.statement import Statement

GRACE_S = 30.0  # after the last victim has gone
BACKOFF_S, LONGEST_BACKOFF_S = 10.0, 300.0
COUNTERCLAIM_S = 600.0  # so long a job does not claim from a job that claimed from it


class ClaimBackoff(Struct):
    until: float
    wait: float
    why: str


class PromiseRecord(Struct):
    """The promises and back-offs kept from cycle to cycle. After a restart only the pods' nominations are known."""

    nodes: dict[str, dict[str, str]] = field(default_factory=dict)  # job → pod → node
    free_since: dict[str, float] = field(default_factory=dict)  # job → when nothing more was being released for it
    backoff: dict[str, ClaimBackoff] = field(default_factory=dict)  # by job
    withdrawn: dict[str, str] = field(default_factory=dict)  # pod → a nomination that is void but still on the pod
    claimed: dict[str, dict[str, float]] = field(default_factory=dict)  # job → the job that claimed from it → when


class Promises:
    """The promises of one cycle."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.record = session.state.promises
        self.kept: dict[str, dict[str, str]] = {}  # job → pod → node: still waiting
        self.bound: set[str] = set()  # jobs whose promise is fulfilled in this cycle
        self.free_since: dict[str, float] = {}
        self.reasons: dict[str, str] = {}  # job → why its promise was withdrawn
        self.made: set[str] = set()  # jobs that got a promise in this cycle
        self.counterclaims: set[str] = set()  # jobs that could claim now but for a claim that was made from them

    # --- the start of a cycle

    def open(self) -> None:
        """Makes the moves of every promise that can be kept."""
        promised = self.record.nodes
        for key in promised:
            if key in self.session.jobs:
                self.session.take(self.session.jobs[key])
        for job in self.session.active.values():
            if job.single_class is not None and job.key not in promised:
                continue  # no pod of a job that has a class names a node
            nodes = self._promised(job) if job.count[Status.PENDING] else {}
            if not nodes:
                continue
            # A gang is promised its minimum as a whole; what comes above it, pod by pod.
            gang = not self.session.pipelined(job)
            for part in [nodes] if gang else [{pod: node} for pod, node in nodes.items()]:
                if why := self._keep(job, part, gang):
                    self.withdraw(job, why)

    def _promised(self, job: Job) -> dict[str, str]:
        """Returns the nodes that were promised to pods of the job that are not bound yet."""
        promised = self.record.nodes.get(job.key, {})
        found: dict[str, str] = {}
        if not promised and not any(task.nominated for task in job.tasks.values()):
            return found
        for key, task in sorted(job.tasks.items()):
            if task.status != Status.PENDING:
                continue
            node = promised.get(key, "")
            if not node and self.record.withdrawn.get(key) != task.nominated:
                node = task.nominated  # of an earlier run of the scheduler
            if node:
                found[key] = node
        return found

    def _keep(self, job: Job, nodes: dict[str, str], missing: bool) -> str:
        """Keeps the job's promise; returns why not, if it cannot be kept."""
        session = self.session
        tasks = [job.tasks[key] for key in nodes]
        statement = session.statement()
        if why := self._all(statement, tasks, nodes, MoveKind.PIPELINE):
            statement.discard()
            return why
        if missing and not session.pipelined(job):
            statement.discard()
            return "pods of the claim are gone"
        able = not any(task.gated for task in tasks) and session.valid(job) is None
        if able and self._idle(tasks, nodes):
            statement.discard()
            if not self._all(statement, tasks, nodes, MoveKind.ALLOCATE) and session.ready(job):
                self._commit(statement)
                self.bound.add(job.key)
                return ""
            statement.discard()
            self._all(statement, tasks, nodes, MoveKind.PIPELINE)
        since = self._waited(job, nodes)
        if since is not None and session.now >= since + GRACE_S:
            statement.discard()
            return f"the pods could not be bound within {GRACE_S:.0f} s after the capacity became free"
        if since is not None:
            self.free_since[job.key] = since
        self._commit(statement)
        self.kept.setdefault(job.key, {}).update(nodes)
        job.phase = "Inqueue" if job.is_pending else job.phase
        return ""

    def _commit(self, statement: Statement) -> None:
        if self.session.turns is not None:
            self.session.turns.assigned(statement)
        statement.commit()

    def _idle(self, tasks: list[Task], nodes: dict[str, str]) -> bool:
        """Returns whether the requests of the pods are free on their nodes now."""
        found = self.session.state.nodes
        needed: dict[tuple[int, int], int] = {}
        for task in tasks:
            node = found.rank[nodes[task.key]]
            for name, amount in task.shape.amounts.items():
                at = (found.axis.rows[name], node)
                needed[at] = needed.get(at, 0) + amount
        return all(found.idle[at] >= amount for at, amount in needed.items())

    def _all(self, statement: Statement, tasks: list[Task], nodes: dict[str, str], kind: MoveKind) -> str:
        """Moves every pod to its node; returns why not, if one cannot be moved."""
        placement, rank = self.session.placement, self.session.state.nodes.rank
        for task in tasks:
            node = rank.get(nodes[task.key], -1)
            if node < 0:
                return f"node {nodes[task.key]} is gone"
            # What is being released may still refuse the pod (a host port, a volume): that is no reason to withdraw.
            waits = kind == MoveKind.PIPELINE and self._releasing(node)
            if not placement.accepts(task, node, kind) and not (waits and placement.may_hold(task, node)):
                return f"node {nodes[task.key]} cannot hold {task.key} any more"
            (statement.allocate if kind == MoveKind.ALLOCATE else statement.pipeline)([task], [node])
        return ""

    def _waited(self, job: Job, nodes: dict[str, str]) -> float | None:
        """Returns since when nothing is being released on the job's nodes; None: something is."""
        rank = self.session.state.nodes.rank
        if any(self._releasing(node) for node in {rank[name] for name in nodes.values()}):
            return None
        return self.record.free_since.get(job.key, self.session.now)

    def _releasing(self, node: int) -> bool:
        return any(task.status == Status.RELEASING for task in self.session.state.nodes.on[node].values())

    # --- during a cycle

    def make(self, job: Job, statement: Statement) -> None:
        """The statement's pipelined pods are promised their nodes."""
        names = self.session.state.nodes.names
        mine = self.kept.setdefault(job.key, {})
        self.made.add(job.key)
        for move in statement.moves:
            if move.kind == MoveKind.PIPELINE:
                mine.update((t.key, names[n]) for t, n in zip(move.tasks, move.nodes, strict=True))
            elif move.kind == MoveKind.EVICT and move.job is not None and move.job is not job:
                self.record.claimed.setdefault(move.job.key, {})[job.key] = self.session.now
        if job.is_pending:
            self.session.enqueued(job)
            job.phase = "Inqueue"

    def withdraw(self, job: Job, why: str) -> None:
        self.kept.pop(job.key, None)
        self.reasons[job.key] = why

    def may_claim(self, job: Job) -> bool:
        """Returns False while the job waits for a promise to its minimum, and in its back-off."""
        if job.key in self.reasons:
            return False
        back = self.record.backoff.get(job.key)
        return back is None or back.until <= self.session.now

    def backoff_text(self, job: Job) -> str:
        """Returns until when the job makes no claim, and why."""
        back = self.record.backoff.get(job.key)
        if back is None:
            return f"the promise to the group was withdrawn in this cycle: {self.reasons.get(job.key, '')}"
        left = max(back.until - self.session.now, 0)
        return f"the group claims again in {left:.0f} s, because its promise was withdrawn: {back.why}"

    def claimants(self, job: Job) -> frozenset[str]:
        """Returns the jobs that claimed from this one not long ago.

        Deserved shares follow the demand of all queues. Without this rule, two jobs could evict each other in turn
        whenever a share changes.
        """
        since = self.session.now - COUNTERCLAIM_S
        return frozenset([by for by, at in self.record.claimed.get(job.key, {}).items() if at > since])

    @property
    def nominations(self) -> dict[str, str]:
        return {pod: node for pods in self.kept.values() for pod, node in pods.items()}

    # --- the end of a cycle

    def close(self) -> bool:
        """Remembers the promises; returns whether any was made or withdrawn."""
        record, now, state = self.record, self.session.now, self.session.state
        changed = record.nodes != self.kept
        for key, why in self.reasons.items():
            before = record.backoff.get(key)
            wait = min(before.wait * 2, LONGEST_BACKOFF_S) if before is not None else BACKOFF_S
            record.backoff[key] = ClaimBackoff(now + wait, wait, why)
        for key in self.bound:
            record.backoff.pop(key, None)
        record.backoff = {key: back for key, back in record.backoff.items() if key in state.jobs}
        if record.claimed:
            record.claimed = {
                key: recent for key, by in record.claimed.items()
                if key in state.jobs
                and (recent := {one: at for one, at in by.items() if at > now - COUNTERCLAIM_S and one in state.jobs})
            }  # fmt: skip
        nominations = self.nominations
        record.withdrawn = {
            key: task.nominated
            for job in self.session.active.values()
            if job.single_class is None  # no pod of a job that has a class names a node
            and job.count[Status.PENDING] + job.count[Status.PIPELINED] + job.count[Status.ALLOCATED]
            for key, task in job.tasks.items()
            if task.nominated and nominations.get(key) != task.nominated
            and not self._fulfilled(task)  # if its binding fails the promise is still valid
        }
        record.nodes, record.free_since = self.kept, self.free_since
        return changed

    def _fulfilled(self, task: Task) -> bool:
        return task.status == Status.ALLOCATED and self.session.state.nodes.names[task.node] == task.nominated

    def next_time(self) -> float | None:
        """Returns when a promise or a back-off ends by itself."""
        now = self.session.now
        ends = [since + GRACE_S for since in self.free_since.values()]
        for key, back in self.record.backoff.items():
            job = self.session.jobs.get(key)
            if job is not None and job.count[Status.PENDING]:
                ends.append(back.until)
        ends += [min(self.record.claimed[key].values()) + COUNTERCLAIM_S for key in self.counterclaims]
        return min((end for end in ends if end > now), default=None)
