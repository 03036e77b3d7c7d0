"""One live cycle, in the cycle thread: take in what happened, repair what was cut short, decide, assume, say.

Everything here is synchronous and touches the engine's state; nothing here waits for the network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import Effect
from muster.engine.core.plan import Eviction, Plan
from muster.engine.core.session import Session
from muster.model.meta import Object
from muster.process.logs import Log
from muster.scheduler.backoffs import keep_to_budgets
from muster.scheduler.cache import Cache
from muster.scheduler.commits import Commits, commits_of
from muster.scheduler.configuration import LoadedConfig
from muster.scheduler.figures import deserved, drift, figures, overused
from muster.scheduler.findings import UnmetRequirements
from muster.scheduler.inbox import BindRefused
from muster.scheduler.journal import JournalCarrier
from muster.scheduler.kubelet_rejections import KubeletRejections
from muster.scheduler.metrics import Metrics
from muster.scheduler.queue_gates import admit
from muster.scheduler.queue_usage import QueueUsage
from muster.scheduler.queueing_hints import Hint
from muster.scheduler.recovery import Repair, Way, repair
from muster.scheduler.status import StatusPatch, StatusUpdater
from muster.scheduler.timed import measured

SOON = 1.0
RECOUNT = 60.0


class Drift(Exception):
    """The accounts are wrong: a fault of ours. The cluster must be read anew."""


@dataclass(slots=True)
class Decision:
    """What a cycle leaves for the event loop to do."""

    commits: Commits
    notes: list[StatusPatch]
    close: list[JournalCarrier] = field(default_factory=list)  # journals that have done their service
    overdue: dict[str, str] = field(default_factory=dict)  # pods to look at
    due: float | None = None  # monotonic: when a cycle should look again by itself
    took: float = 0.0
    bound: int = 0
    pending: int = 0


class Decider:
    def __init__(
        self, cache: Cache, loaded: LoadedConfig, holder: str, period: float, metrics: Metrics, log: Log,
        clock: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.cache = cache
        self.rejections = KubeletRejections()
        self._holder = holder
        self._period = period
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._ticks = ticks  # never goes back
        self._teller = StatusUpdater()
        self._queue_usage = QueueUsage()
        self._unmet = UnmetRequirements(metrics, log, ticks)
        self._count = 0
        self._recount_at = ticks() + RECOUNT
        self._repairs: dict[str, float] = {}  # group → when we first looked at its journal
        self._tried: set[str] = set()
        self._overfull = False
        self.use(loaded)

    def use(self, loaded: LoadedConfig) -> None:
        """Another configuration from the next cycle on."""
        self._loaded = loaded
        # A scheduler of our own: the configuration outlives the term, and plugins and shapes are of this term's state.
        self._scheduler = Scheduler(
            loaded.config, last=[self.rejections], measure=measured(self._metrics)
        )

    def load(self, objects: Mapping[str, Mapping[str, Object]]) -> None:
        self.cache.load(objects)
        self._note_rejections()

    def take_in(self) -> Hint:
        weight = self.cache.take_in()
        self._note_rejections()
        return weight

    def cycle(self) -> Decision:
        begin, now = self._ticks(), self._clock()
        cache, state = self.cache, self.cache.state
        self._count += 1
        plan, close = self._repaired(now)
        made = commits_of(plan, state, self._holder, now) if plan.binds or plan.evictions else Commits()
        self._assume(plan, made)
        cache.backoffs.mark(state, begin)
        plan = self._decided(now)
        keep_to_budgets(plan, state, cache.backoffs, begin)
        cache.backoffs.tell(plan, state, begin)
        admitted = admit(plan, state)
        fresh = commits_of(plan, state, self._holder, now)
        for key, why in fresh.faults.items():
            cache.backoffs.hold(BindRefused(key, state.tasks[key].uid, why), begin)
            plan.binds.pop(key)
        self._assume(plan, fresh)
        transition = f"{self._holder}.{self._count}"
        notes = [*admitted, *self._teller.notes(plan, state, self._queue_usage.now(state), transition, now)]
        self._metrics.statistics.assumed = len(cache.assumed)
        self._metrics.statistics.below_minimum = self._teller.below
        made.commits += fresh.commits
        made.removals += fresh.removals
        took = self._ticks() - begin
        self._tell(plan, took)
        return Decision(
            made, notes, close, self._overdue(), self._due(plan), took, len(plan.binds), len(plan.reasons)
        )

    def _decided(self, now: float) -> Plan:
        scheduler, state = self._scheduler, self.cache.state
        shares: dict[str, dict[str, float]] = {}
        over: set[str] = set()

        def look(session: Session) -> None:
            shares.update(deserved(session))
            over.update(overused(session))

        self._unmet.look(scheduler.config, state)
        plan = scheduler.cycle(state, now, self._log, look)
        usage = self._queue_usage
        self._metrics.statistics = figures(
            plan, state, shares, over, usage.now(state), usage.in_node_groups(state)
        )  # fmt: skip
        self._tell_overfull(self._metrics.statistics.overfull)
        self._recount()
        return plan

    def _tell_overfull(self, nodes: list[str]) -> None:
        """When the first node becomes overfull, and when none is any more."""
        if nodes and not self._overfull:
            cause = "another scheduler binds pods to them, or they offer less than before"
            self._log(0, "nodes are overfull", nodes=len(nodes), some=nodes[:5], cause=cause)
        elif self._overfull and not nodes:
            self._log(0, "no node is overfull any more")
        self._overfull = bool(nodes)

    def _recount(self) -> None:
        """Now and then: do the accounts say what the pods say?"""
        if self._ticks() < self._recount_at:
            return
        self._recount_at = self._ticks() + RECOUNT
        wrong = drift(self.cache.state)
        self._metrics.drift.set(wrong)
        if wrong:
            raise Drift(f"{wrong} accounts of nodes differ from a recount of their pods")

    def _assume(self, plan: Plan, made: Commits) -> None:
        self.cache.assume(plan)
        self.cache.committing.update(commit.group for commit in made.commits if commit.group)

    # --- commits cut short

    def _repaired(self, now: float) -> tuple[Plan, list[JournalCarrier]]:
        """What finishes or undoes commits that were cut short, as a plan; and the journals that can be closed."""
        cache, plan = self.cache, Plan()
        close: list[JournalCarrier] = []
        open_ = sorted(cache.open_journals())
        self._repairs = {group: self._repairs.get(group, now) for group in open_}
        self._tried &= self._repairs.keys()
        for group in open_:
            what = repair(cache.state, group, group in self._tried, self._repairs[group], now)
            if what.way is Way.CLOSE:
                if what.place is not None:
                    close.append(what.place)
                    cache.carriers.discard(what.place.key)
                cache.journalled.discard(group)  # until the watch shows it is still there
            elif what.way is not Way.WAIT:
                self._follow(plan, group, what)
        return plan, close

    def _follow(self, plan: Plan, group: str, what: Repair) -> None:
        assert what.journal is not None
        self._metrics.repairs.labels(what.way.value).inc()
        self._log(0, f"a commit was cut short: {what.way.value}", group=group, pods=len(what.tasks))
        for task in what.tasks:
            entry = what.journal.pods[task.name]
            if what.way is Way.FINISH:
                self._tried.add(group)
                plan.binds[task.key] = entry.node
                if entry.notes:
                    plan.effects[task.key] = [Effect("annotations", task.key, dict(entry.notes))]
            else:
                plan.evictions.append(Eviction(task.key, entry.node, "", "gang"))

    # --- the end of a cycle

    def _note_rejections(self) -> None:
        now = self._clock()
        for key in self.cache.take_rejected():
            task = self.cache.state.tasks.get(key)
            if task is not None and self.rejections.note(task.shape, task.pod, now):
                self._metrics.rejections.labels(task.pod.status.reason).inc()
                self._log(0, "a kubelet rejected a pod", pod=key, node=task.pod.spec.node_name,
                          reason=task.pod.status.reason)  # fmt: skip

    def _overdue(self) -> dict[str, str]:
        found = self.cache.overdue(self._ticks())
        self._metrics.rechecks.inc(len(found))
        return found

    def _due(self, plan: Plan) -> float | None:
        now, wall = self._ticks(), self._clock()
        ends = [self.cache.backoffs.wake(now), self._unmet.due]
        again = self.rejections.wake(wall)
        ends.append(None if again is None else now + again - wall)
        ends.append(now + self._period if plan.reasons else None)
        ends.append(now + self._teller.again_at - wall if self._teller.again_at < float("inf") else None)
        if not plan.empty:
            ends.append(now + SOON)  # phases and conditions follow from what was just decided
        elif self.cache.open_journals() or self.cache.assumed:
            ends.append(now + self._period)
        return min((end for end in ends if end is not None), default=None)

    def _tell(self, plan: Plan, took: float) -> None:
        metrics = self._metrics
        metrics.cycle_seconds.observe(took)
        metrics.cycle_ms.observe(took * 1000)
        metrics.decisions.inc(len(plan.binds))
        metrics.attempts.labels("scheduled").inc(len(plan.binds))
        metrics.attempts.labels("unschedulable").inc(len(plan.reasons))
        metrics.preemptions.inc(len({eviction.by for eviction in plan.evictions}))
        if plan.evictions:
            metrics.victims.set(len(plan.evictions))
        for created in metrics.statistics.placed:
            metrics.job_ms.observe(max(self._clock() - created, 0.0) * 1000)
        bound = self.cache.take_accepted()  # of what earlier cycles decided: these bindings are yet to be sent
        level = 1 if plan.binds or plan.evictions or bound else 3
        self._log(
            level, "cycle", number=self._count, configuration=self._loaded.version, decided=len(plan.binds),
            bound=bound, evicted=len(plan.evictions), pending=len(plan.reasons), milliseconds=round(took * 1000, 1),
        )  # fmt: skip
        for key, node in plan.binds.items():
            self._log(4, "bind", pod=key, node=node, configuration=self._loaded.version)
        for eviction in plan.evictions:
            self._log(1, "evict", pod=eviction.pod, by=eviction.by, rule=eviction.rule,
                      configuration=self._loaded.version)  # fmt: skip
