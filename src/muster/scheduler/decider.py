"""Runs one scheduling cycle in the cycle thread: applies messages, recovers interrupted commits, decides, assumes the
placements, and computes status patches.

Everything here is synchronous and changes the engine's state; nothing here waits for the network.
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
from muster.scheduler.backoffs import KubeletRejections
from muster.scheduler.cache import Cache
from muster.scheduler.cluster_metrics import cycle_statistics, deserved, drift, overused
from muster.scheduler.commits import Commits, commits_of, entry_of, hold_back
from muster.scheduler.configuration import LoadedConfig, UnmetRequirements
from muster.scheduler.inbox import BindRefused
from muster.scheduler.journal import Attempts, JournalCarrier, Recovery, RecoveryAction, recover
from muster.scheduler.metrics import Metrics, measured
from muster.scheduler.queue_gates import withhold_gated
from muster.scheduler.queue_usage import QueueUsage
from muster.scheduler.queueing_hints import Hint
from muster.scheduler.status import StatusPatch, StatusUpdater

FOLLOW_UP_DELAY_S = 1.0
RECOUNT_INTERVAL_S = 60.0


class Drift(Exception):
    """The accounts of the nodes are wrong, which is a bug of muster. The cluster must be read again."""


@dataclass(slots=True)
class Decision:
    """The work of a cycle that the event loop carries out."""

    commits: Commits
    status_patches: list[StatusPatch]
    closed_journals: list[JournalCarrier] = field(default_factory=list)  # to be removed
    overdue: dict[str, str] = field(default_factory=dict)  # pods to read from the API server
    due: float | None = None  # monotonic: when the next cycle should run
    took: float = 0.0
    bound: int = 0
    pending: int = 0


class Decider:
    """Runs the cycles of one leadership term."""

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
        self._ticks = ticks  # monotonic
        self._status = StatusUpdater()
        self._queue_usage = QueueUsage()
        self._unmet = UnmetRequirements(metrics, log, ticks)
        self._count = 0
        self._recount_at = ticks() + RECOUNT_INTERVAL_S
        self._interrupted: dict[str, float] = {}  # group → when its journal was first seen
        self._finished_once: set[str] = set()  # groups whose remaining pods were bound by recovery
        self._overfull = False
        self.use(loaded)

    def use(self, loaded: LoadedConfig) -> None:
        """Uses this configuration from the next cycle on."""
        self._loaded = loaded
        # Built for this term: plugins and shapes refer to the term's state.
        self._scheduler = Scheduler(loaded.config, last=[self.rejections], measure=measured(self._metrics))

    def load(self, objects: Mapping[str, Mapping[str, Object]]) -> None:
        self.cache.load(objects)
        self._record_rejections()

    def apply_messages(self) -> Hint:
        hint = self.cache.apply_messages()
        self._record_rejections()
        return hint

    def cycle(self) -> Decision:
        begin, now = self._ticks(), self._clock()
        cache, state = self.cache, self.cache.state
        self._count += 1
        plan, closed_journals = self._recovered(now)
        commits = self._commits(plan, now, begin) if plan.binds or plan.evictions else Commits()
        self._assume(plan, commits)
        cache.backoffs.mark(state, begin)
        plan = self._decided(now)
        cache.backoffs.drop_refused_evictions(plan, state, begin)
        cache.backoffs.explain(plan, state, begin)
        admitted = withhold_gated(plan, state)
        fresh = self._commits(plan, now, begin)
        self._assume(plan, fresh)
        transition = f"{self._holder}.{self._count}"
        usage = self._queue_usage.by_queue(state)
        patches = [*admitted, *self._status.patches(plan, state, usage, transition, now)]
        self._metrics.statistics.assumed = len(cache.assumed)
        self._metrics.statistics.below_minimum = self._status.below_minimum
        commits.bindings += fresh.bindings
        commits.evictions += fresh.evictions
        took = self._ticks() - begin
        self._report(plan, took)
        return Decision(
            commits, patches, closed_journals, self._overdue(), self._due(plan), took, len(plan.binds),
            len(plan.reasons),
        )  # fmt: skip

    def _decided(self, now: float) -> Plan:
        scheduler, state = self._scheduler, self.cache.state
        shares: dict[str, dict[str, float]] = {}
        over: set[str] = set()

        def read_shares(session: Session) -> None:
            shares.update(deserved(session))
            over.update(overused(session))

        self._unmet.check(scheduler.config, state)
        plan = scheduler.cycle(state, now, self._log, read_shares)
        self.cache.held |= hold_back(plan, state, self.cache.committing)
        self._metrics.statistics = cycle_statistics(plan, state, shares, over, self._queue_usage)
        self._log_overfull(self._metrics.statistics.overfull)
        self._recount()
        return plan

    def _log_overfull(self, nodes: list[str]) -> None:
        """Logs when the first node becomes overfull, and when none is any more."""
        if nodes and not self._overfull:
            cause = "another scheduler binds pods to them, or they offer less than before"
            self._log(0, "nodes are overfull", nodes=len(nodes), some=nodes[:5], cause=cause)
        elif self._overfull and not nodes:
            self._log(0, "no node is overfull any more")
        self._overfull = bool(nodes)

    def _recount(self) -> None:
        """Checks at intervals that the accounts of the nodes agree with their pods."""
        if self._ticks() < self._recount_at:
            return
        self._recount_at = self._ticks() + RECOUNT_INTERVAL_S
        wrong = drift(self.cache.state)
        self._metrics.drift.set(wrong)
        if wrong:
            raise Drift(f"{wrong} accounts of nodes differ from a recount of their pods")

    def _commits(self, plan: Plan, now: float, ticks: float) -> Commits:
        """Returns the plan's commits; bindings that cannot be sent are removed from the plan and backed off."""
        cache = self.cache
        commits = commits_of(plan, cache.state, self._holder, now, cache.unfinished)
        for key, why in commits.errors.items():
            cache.backoffs.bind_refused(BindRefused(key, cache.state.tasks[key].uid, why), ticks)
            del plan.binds[key]
        return commits

    def _assume(self, plan: Plan, commits: Commits) -> None:
        self._remember(commits)
        self.cache.assume(plan, {c.bindings[0].key: c.journal for c in commits.bindings if c.journal})
        self.cache.committing.update(commit.group for commit in commits.bindings if commit.group)

    # --- interrupted commits

    def _remember(self, commits: Commits) -> None:
        """Adds the bindings of gangs with an incomplete commit to it: what is undone later is the whole gang."""
        cache = self.cache
        if not cache.unfinished:
            return
        for binding in (one for commit in commits.bindings for one in commit.bindings):
            job = cache.state.tasks[binding.key].job
            journal = cache.unfinished.get(job.key) if job is not None else None
            if journal is not None:
                name, entry = entry_of(binding)
                journal.pods[name] = entry

    def _recovered(self, now: float) -> tuple[Plan, list[JournalCarrier]]:
        """Returns a plan that finishes or undoes interrupted commits, and the journals that can be removed."""
        cache, plan = self.cache, Plan()
        finished: list[JournalCarrier] = []
        groups = sorted(cache.open_journals())
        # A group whose commit is being sent is not looked at, but its grace period goes on.
        sending = {group: since for group, since in self._interrupted.items() if group in cache.committing}
        self._interrupted = sending | {group: self._interrupted.get(group, now) for group in groups}
        self._finished_once &= self._interrupted.keys()
        for group in groups:
            recovery = recover(cache.state, group, self._attempts(group), now)
            if recovery.action is RecoveryAction.CLOSE:
                finished += recovery.carriers
                cache.close_journals(group)
                continue
            if recovery.journal is not None:
                # A pod of it may be recreated, which closes it.
                cache.unfinished[group] = recovery.journal
            if recovery.action is not RecoveryAction.WAIT:
                self._add_recovery(plan, group, recovery)
        return plan, finished

    def _attempts(self, group: str) -> Attempts:
        cache = self.cache
        job = cache.state.jobs.get(group)
        assumed = {key: cache.assumed[key] for key in job.tasks if key in cache.assumed} if job is not None else {}
        return Attempts(
            self._interrupted[group], cache.carriers, group in self._finished_once, cache.unfinished.get(group),
            assumed.keys(), {key for key, one in assumed.items() if not one.node},
            {key for key, one in assumed.items() if one.check_at is None},
            cache.backoffs.kept_victims(self._ticks()),
        )  # fmt: skip

    def _add_recovery(self, plan: Plan, group: str, recovery: Recovery) -> None:
        assert recovery.journal is not None
        self._metrics.repairs.labels(recovery.action.value).inc()
        self._log(0, f"a commit was cut short: {recovery.action.value}", group=group, pods=len(recovery.tasks))
        for task in recovery.tasks:
            entry = recovery.journal.pods[task.name]
            if recovery.action is RecoveryAction.FINISH:
                self._finished_once.add(group)
                plan.binds[task.key] = entry.node
                if entry.annotations:
                    plan.effects[task.key] = [Effect("annotations", task.key, dict(entry.annotations))]
            else:
                plan.evictions.append(Eviction(task.key, task.pod.spec.node_name, "", "gang"))

    # --- the end of a cycle

    def _record_rejections(self) -> None:
        now = self._clock()
        for key in self.cache.take_rejected():
            task = self.cache.state.tasks.get(key)
            if task is not None and self.rejections.add(task.shape, task.pod, now):
                self._metrics.rejections.labels(task.pod.status.reason).inc()
                self._log(0, "a kubelet rejected a pod", pod=key, node=task.pod.spec.node_name,
                          reason=task.pod.status.reason)  # fmt: skip

    def _overdue(self) -> dict[str, str]:
        found = self.cache.overdue(self._ticks())
        self._metrics.rechecks.inc(len(found))
        return found

    def _due(self, plan: Plan) -> float | None:
        now, wall = self._ticks(), self._clock()
        ends = [self.cache.backoffs.next_expiry(now), self._unmet.due]
        again = self.rejections.next_expiry(wall)
        ends.append(None if again is None else now + again - wall)
        ends.append(now + self._period if plan.reasons else None)
        ends.append(now + self._status.next_at - wall if self._status.next_at < float("inf") else None)
        if not plan.empty:
            ends.append(now + FOLLOW_UP_DELAY_S)  # phases and conditions follow from what was just decided
        elif self.cache.open_journals() or self.cache.assumed:
            ends.append(now + self._period)
        return min((end for end in ends if end is not None), default=None)

    def _report(self, plan: Plan, took: float) -> None:
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
        bound = self.cache.take_accepted()  # of earlier cycles: the bindings of this one are not sent yet
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
