"""Finds the moment at which a pod's turn came in a run, and looks at the cluster there.

A first run records what every cycle decided about the pods of interest, and which turn of the cycle led to it. A second
run stops after that cycle and looks at the cluster at that turn. Both decide the same, because a run is deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from muster.cycle.planning import FOLLOWS
from muster.engine.core.jobs import Job, Task
from muster.engine.core.plan import Plan, PodReason
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.engine.devices.fragmentation import Fragmentation
from muster.engine.placement.trace import NodeTrace
from muster.engine.placement.trace import explain as trace
from muster.engine.placement.turns import END, Look, Turn, TurnKind, Turns, placed_so_far
from muster.sim.eviction_options import ClaimWatch
from muster.sim.explain.explanation import FailingPod, Gang
from muster.sim.explain.node_sets import SetTrace, order_of_sets, sets_tried
from muster.sim.explain.target import Target
from muster.sim.summary import gpu_fragmentation


@dataclass(slots=True)
class Record:
    """What one cycle decided about a pod, and the turns that it had there."""

    pod: str
    cycle: int
    bound: str | None
    pipelined: str | None
    reason: PodReason | None
    turns: dict[TurnKind, int]
    role: str
    job: str
    queue: str
    gang: Gang | None

    @property
    def turn(self) -> int:
        """Returns the number of the turn that led to the decision.

        A pod with a node: the last turn in which it got one. A pod without: the turn that refused it, else an attempt
        that was undone because the rest of its gang found no nodes, else the end of the cycle.
        """
        placing = [TurnKind.CHOSEN, TurnKind.ASSIGNED]
        if self.bound is not None or self.pipelined is not None:
            return max((self.turns.get(kind, END) for kind in (*placing, TurnKind.CLAIM)), default=END)
        for kinds in ([TurnKind.REFUSED], placing):
            if number := max(self.turns.get(kind, END) for kind in kinds):
                return number
        return END

    @property
    def follows(self) -> bool:
        """Whether the pod only waits for other pods of its gang."""
        return self.reason is not None and self.reason.code in FOLLOWS


class DecisionRecorder:
    """Observes the first run: the last decision about each pod that the target may mean."""

    def __init__(self, target: Target, state: State) -> None:
        self.target = target
        self.state = state
        self.records: dict[str, Record] = {}
        self._turns = Turns(self._wanted)

    def _wanted(self, task: Task) -> bool:
        return self.target.matches(task, self.state)

    def begin(self, cycle: int) -> Turns:
        self._turns = Turns(self._wanted)
        return self._turns

    def end(self, cycle: int, plan: Plan) -> None:
        gangs: dict[str, Gang | None] = {}
        for key in (*plan.binds, *plan.reasons):
            task = self.state.tasks.get(key)
            if task is None or not self._wanted(task):
                continue
            job = task.job
            if job is not None and job.key not in gangs:
                gangs[job.key] = _gang(job, plan)
            self.records[key] = Record(
                key, cycle, plan.binds.get(key), plan.pipelined.get(key), plan.reasons.get(key),
                self._turns.numbers.get(key, {}), task.role,
                "" if job is None else job.shown, "" if job is None else job.queue_name,
                None if job is None else gangs[job.key],
            )  # fmt: skip


def _gang(job: Job, plan: Plan) -> Gang | None:
    """Returns the state of a gang after the cycle; None if the job is no gang."""
    if job.min_available <= 1:
        return None
    condition = plan.conditions.get(job.key)
    failing = None
    if condition is not None and condition.pod:
        failing = FailingPod(condition.pod, job.tasks[condition.pod].role, condition.why)
    placed = sum(1 for key, task in job.tasks.items() if task.node >= 0 or key in plan.binds)
    return Gang(job.shown, job.min_available, len(job.tasks), placed, failing)


@dataclass(slots=True)
class MomentView:
    """What the second run saw at the moment of the decision."""

    nodes: dict[str, NodeTrace] = field(default_factory=dict)
    placed_before: int = 0
    turn: Turn | None = None
    fragmentation: Fragmentation | None = None
    sets: list[SetTrace] | None = None
    set_order: str = ""


class Viewer:
    """Observes the second run: looks at the cluster at the pod's turn, and at its job's turn for the node sets."""

    def __init__(self, record: Record, *, sets: bool) -> None:
        self.record = record
        self._sets = sets
        self.view = MomentView()
        self.claims = ClaimWatch(record.pod)
        self._looks: dict[int, tuple[str, Look]] = {record.turn: (record.pod, self._look)}
        job_turn = record.turns.get(TurnKind.JOB)
        if sets and job_turn is not None:
            self._looks[job_turn] = (record.pod, self._look_at_sets)

    def begin(self, cycle: int) -> Turns | None:
        return Turns(lambda task: False, self._looks, self.claims) if cycle == self.record.cycle else None

    def end(self, cycle: int, plan: Plan) -> None:
        """The first run has the decisions."""

    def _look(self, session: Session, turn: Turn) -> None:
        view = self.view
        view.turn = turn
        view.nodes = trace(session, turn.task, turn)
        view.placed_before = placed_so_far(session)
        view.fragmentation = gpu_fragmentation(session)
        if self._sets and TurnKind.JOB not in self.record.turns and turn.kind in (TurnKind.END, TurnKind.CLAIM):
            self._look_at_sets(session, turn)  # allocate did not come to the job

    def _look_at_sets(self, session: Session, turn: Turn) -> None:
        if turn.task.job is not None and turn.task.job.queue is not None:
            self.view.sets = sets_tried(session, turn.task.job)
            self.view.set_order = order_of_sets(session, turn.task.job)
