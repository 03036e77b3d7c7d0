"""Explains every plugin's answer for every node about one pod, at the moment of the decision about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from muster.cycle.requirements import warnings
from muster.cycle.scheduler import Scheduler
from muster.engine.core.plan import Plan
from muster.engine.core.session import Log, silent
from muster.engine.core.state import Objects, State
from muster.engine.placement.trace import explain as trace
from muster.engine.placement.turns import TurnKind, Turns
from muster.model.finding import InputError
from muster.sim.eviction_options import ClaimWatch, EvictedPod, eviction_options
from muster.sim.explain.explanation import Decision, Explanation, deciding
from muster.sim.explain.moments import DecisionRecorder, MomentView, Record, Viewer
from muster.sim.explain.node_sets import SetTrace, sets_tried
from muster.sim.explain.target import Target, find
from muster.sim.group_controllers import open_cluster
from muster.sim.result import Result
from muster.sim.simulate import Run
from muster.sim.summary import gpu_fragmentation

__all__ = ["Decision", "Explanation", "SetTrace", "explain", "sets_tried"]

def explain(
    scheduler: Scheduler,
    objects: Objects,
    now: float,
    scheduler_names: Iterable[str],
    pod: str,
    log: Log = silent,
    sets: bool = False,
    *,
    cycle: int | None = None,
    before: bool = False,
    namespace: str | None = None,
    unusable: Mapping[str, str] | None = None,
) -> Explanation:
    """Explains every node's answer to the pod when its turn came; with `sets` also the node sets of its group.

    `pod` is `ns/pod`, or an owner or gang as `kind/name` (in `namespace`) or `ns/kind/name`: then the pod that fails
    is explained. The cycle is the one that bound the pod, else the last, or the given one; with `before` the state is
    the one before the first cycle. Raises InputError if there is nothing to explain.
    """
    target, names = Target.parse(pod, namespace), tuple(scheduler_names)
    if before:
        if cycle is not None:
            raise InputError("give either --cycle or --before")
        return _before(scheduler, objects, now, names, target, log, sets)
    run = Run(scheduler, *open_cluster(objects, now, names), log)
    run.unusable = unusable or {}
    run.warnings.update(dict.fromkeys(warnings(scheduler.config, run.state, log)))
    run.observer = recorder = DecisionRecorder(target, run.state)
    run.until_settled(cycle)
    result = run.finish()
    if cycle is not None and not 1 <= cycle <= result.cycles:
        raise InputError(f"there is no cycle {cycle}: the run has {result.cycles} (the first is 1)")
    record = _chosen(recorder, result, cycle)

    def again() -> Run:
        return Run(scheduler, *open_cluster(objects, now, names), silent)

    if record is None:
        if (gone := _evicted(target, result)) is not None:
            gone.evicted = evicted_pod(again, result, gone.pod)
            return gone
        answer = _before(scheduler, objects, now, names, target, log, sets)
        answer.decision = Decision(None, None, result.pending.get(answer.pod, answer.decision.reason))
        answer.notes.append("the pod does not exist yet in the run: the nodes are those before the first cycle")
        return answer
    second = again()
    second.observer = viewer = Viewer(record, sets=sets)
    second.until_settled(record.cycle)
    answer = _answer(record, viewer.view, result, _notes(target, recorder, record, result, viewer.view))
    answer.evictions, answer.evicted = viewer.claims.options, evicted_pod(again, result, record.pod)
    return answer


def _answer(record: Record, view: MomentView, result: Result, notes: list[str]) -> Explanation:
    last = record.cycle == result.cycles
    reason = result.pending.get(record.pod) if last else None
    if reason is None and record.reason is not None:
        reason = record.reason.text
    node = None if last and record.pod in result.pending else record.bound
    turn = view.turn
    by_score = turn is not None and turn.kind == TurnKind.CHOSEN
    answer = Explanation(
        record.pod, record.job, record.queue, view.nodes, Decision(node, record.pipelined, reason),
        result.summary.warnings, view.fragmentation, view.sets, record.cycle, view.placed_before,
    )  # fmt: skip
    answer.turn_kind = None if turn is None else turn.kind
    if turn is not None and turn.within is not None:
        names = list(view.nodes)
        answer.tried = frozenset(names[i] for i in turn.within.index)
        answer.node_set = turn.within.label if record.bound or record.pipelined else ""
    answer.deciding = deciding(view.nodes, record.bound or record.pipelined) if by_score else None
    answer.set_order = view.set_order
    answer.gang = record.gang
    answer.notes = notes
    return answer


def _chosen(recorder: DecisionRecorder, result: Result, cycle: int | None) -> Record | None:
    """Returns the record to explain: that of the pod, else of the pod on which the owner or gang fails."""
    records, target = recorder.records, recorder.target
    if cycle is not None:
        records = {pod: record for pod, record in records.items() if record.cycle == cycle}
        if not records and recorder.records:
            at = max(record.cycle for record in recorder.records.values())
            raise InputError(f"cycle {cycle} decided nothing about {target.pod or target}: see cycle {at}")
    if target.pod in records:
        return records[target.pod]
    ordered = [record for _, record in sorted(records.items())]
    waiting = [record for record in ordered if record.bound is None and record.cycle == result.cycles]
    for record in waiting:
        if record.gang is not None and record.gang.failing is not None and record.gang.failing.pod == record.pod:
            return record
    ordered = [record for record in waiting if not record.follows] or waiting or ordered
    return ordered[0] if ordered else None


def _notes(target: Target, recorder: DecisionRecorder, record: Record, result: Result, view: MomentView) -> list[str]:
    notes = []
    owned = [pod for pod in recorder.records if pod != target.pod]
    if record.pod == target.pod and owned:
        notes.append(f"there is also a {target} with pods; the pod {target.pod} was taken")
    elif record.pod != target.pod:
        role = f" (role {record.role})" if record.role else ""
        what = "it has no node" if record.bound is None else "all pods have a node; it is the first"
        notes.append(f"{record.pod}{role} stands for {target}: {what}")
    turn = view.turn
    if turn is not None and turn.kind == TurnKind.END:
        notes.append("the pod's turn did not come in this cycle: the nodes are those at its end")
    elif turn is not None and turn.kind == TurnKind.ASSIGNED:
        promised = turn.task.nominated or turn.task.pod.status.nominated_node_name
        notes.append(
            "the node was promised to the pod in an earlier cycle; scores did not decide" if promised
            else "a search for an arrangement of the whole gang found the node; scores did not decide"
        )  # fmt: skip
    elif turn is not None and turn.kind == TurnKind.CLAIM:
        notes.append("the pod gets its node by evictions; the nodes are those before them")
    notes += evictions_for(result, recorder.state, record.job, record.cycle)
    later = [e for cycle in result.history[record.cycle :] for e in cycle.evictions if e.pod == record.pod]
    if later and record.bound is not None:
        notes.append(f"the pod was evicted from {later[0].node} in a later cycle for {later[0].by} ({later[0].rule})")
    return notes


def _evicted(target: Target, result: Result) -> Explanation | None:
    """Returns the answer about a pod that had its node in the input and was evicted in the run."""
    for cycle in result.history:
        for eviction in cycle.evictions:
            if eviction.pod == target.pod:
                why = f"was evicted from {eviction.node} in cycle {cycle.number} for {eviction.by} ({eviction.rule})"
                return Explanation(
                    eviction.pod, "", "", {}, Decision(None, None, why), result.summary.warnings, cycle=cycle.number
                )
    return None


def _before(
    scheduler: Scheduler, objects: Objects, now: float, names: Sequence[str], target: Target, log: Log, sets: bool
) -> Explanation:
    """Explains the state before the first cycle, and what the first cycle decides."""
    _, state = open_cluster(objects, now, names, all_pods=True)
    task = find(state, target)
    warned = warnings(scheduler.config, state, log)
    session = scheduler.session(state, now, log)
    try:
        nodes = trace(session, task)
        fragmentation = gpu_fragmentation(session)
        tried = sets_tried(session, task.job) if sets and task.job is not None and task.job.queue is not None else None
        options = eviction_options(session, task)
    finally:
        session.close()
    plan = scheduler.cycle(state, now, log)
    reason = plan.reasons.get(task.key)
    decision = Decision(plan.binds.get(task.key), plan.pipelined.get(task.key), None if reason is None else reason.text)
    job, queue = (task.job.shown, task.job.queue_name) if task.job is not None else ("", "")
    warned = list(dict.fromkeys([*warned, *plan.warnings]))
    return Explanation(task.key, job, queue, nodes, decision, warned, fragmentation, tried, evictions=options)


_ACTIONS = ("preempt", "reclaim")


class _Watcher:
    """Observes the claims of one cycle for one pod."""

    def __init__(self, pod: str, cycle: int) -> None:
        self.claims = ClaimWatch(pod)
        self._cycle = cycle

    def begin(self, cycle: int) -> Turns | None:
        return Turns(lambda task: False, claims=self.claims) if cycle == self._cycle else None

    def end(self, cycle: int, plan: Plan) -> None:
        """The first run has the decisions."""


def evicted_pod(again: Callable[[], Run], result: Result, pod: str) -> dict[str, object] | None:
    """Returns the last eviction of the pod with its reason; None if the run did not evict it."""
    last = next(((c.number, e) for c in reversed(result.history) for e in c.evictions if e.pod == pod), None)
    if last is None:
        return None
    cycle, eviction = last
    if eviction.rule in _ACTIONS:
        run = again()
        run.observer = watcher = _Watcher(pod, cycle)
        run.until_settled(cycle)
        if watcher.claims.evicted is not None:
            return watcher.claims.evicted.to_dict(cycle)
        why = "by Volcano's rules, pods go in victim order until the claimer fits"
        return EvictedPod(eviction.by, eviction.rule, "victim-order", eviction.node, why).to_dict(cycle)
    why = "not the scheduler but a policy evicts it"
    return EvictedPod(eviction.by, eviction.rule, "policy", eviction.node, why).to_dict(cycle)


def evictions_for(result: Result, state: State, job: str, before: int) -> list[str]:
    """Returns a note for each cycle before the given one that evicted pods for the job."""
    pods = {key for key, task in state.tasks.items() if task.job is not None and task.job.shown == job}
    notes = []
    for cycle in result.history[: max(before - 1, 0)]:
        mine = [e for e in cycle.evictions if e.by in pods]
        if mine:
            count = f"{len(mine)} pod{'s' * (len(mine) > 1)}"
            notes.append(f"cycle {cycle.number} evicted {count} for {job} ({mine[0].rule}): see --cycle {cycle.number}")
    return notes
