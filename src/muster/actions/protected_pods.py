"""Who is protected from a claim, and by which rule. For explanations: a cycle asks only whether a unit may be evicted.

The answers come from the code that decides (`engine.evictions.claim`, the plugins' protections), with the accounts as
they are when it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.actions.claims import Claims
from muster.actions.evicting_placement import EvictingPlacement
from muster.engine.core.hooks import Reason
from muster.engine.core.jobs import Job, Status, Task
from muster.engine.core.reading import PREEMPTABLE
from muster.engine.core.statement import Statement
from muster.engine.evictions.claim import PLACED_STATUSES, RECLAIM, Claim, Veto, not_lower

GANG = "gang-minimum"
_UNNAMED = Reason("not-named", "no plugin of the tiers names it as a victim")
_GROWS = Reason("grows", "it gets further pods in this cycle")


class ProtectedPods:
    """The protections from one claim."""

    def __init__(self, claims: Claims, claim: Claim) -> None:
        self.claim = claim
        self.units = claims.units
        self.pool = claims.pool(claim)
        self.evicting = EvictingPlacement(claims.session, claims.units, self.pool, claim)

    def clear(self, statement: Statement, nodes: Iterable[int]) -> None:
        """Evicts whatever may be evicted on the nodes."""
        for node in nodes:
            for unit in self.evicting.units_on(node):
                if self.units.protected(self.claim, unit) is None:
                    self.evicting.evict(statement, unit, self.claim.tasks[0])

    def veto(self, task: Task) -> Veto | None:
        """Returns why the pod must not be evicted now, neither alone nor with its job; None: it may."""
        job = task.job
        if job is None or not self.pool.has(task):
            return self._never(task)
        alone = self.units.protected(self.claim, self.units.single(task))
        if alone is None or alone.reason.code != GANG:
            return alone
        whole = self.pool.whole(job)
        together = self._never_whole(job) if whole is None else self.units.protected(self.claim, whole)
        if together is None or self.units.placed_pods(job) == 1:
            return together
        pods = self.units.placed_pods(job)
        text = f"{alone.reason.message()}; all {pods} together: {together.reason.message()}"
        return Veto(together.plugin, Reason(GANG, text))

    def _never(self, task: Task) -> Veto:
        """Returns why the pod is not among the possible victims of the claim."""
        job, claim = task.job, self.claim
        if job is None:
            name = task.pod.spec.scheduler_name or "default-scheduler"
            return Veto("", Reason("other-scheduler", f"it belongs to the scheduler {name}"))
        if (reason := self.units.excluded(claim, job)) is not None:
            return Veto("", reason)
        if task in self.units.candidates(claim, job):  # then its queue gives nothing, or the tiers do not name it
            return self.units.plugin_veto(claim, [task]) or Veto("", _UNNAMED)
        if task.status not in PLACED_STATUSES:
            return Veto("", Reason("status", f"it is {task.status.name.lower()}"))
        if not task.preemptable:
            where = "annotation" if PREEMPTABLE in task.annotations else "label"
            value = task.annotations.get(PREEMPTABLE, task.labels.get(PREEMPTABLE))
            return Veto("", Reason("not-preemptable", f'{where} {PREEMPTABLE}: "{value}"'))
        if claim.rule != RECLAIM and task.priority >= claim.pod_priority:
            return Veto("", Reason("priority", not_lower(task.priority, claim.pod_priority)))
        return self.units.plugin_veto(claim, [task]) or Veto("", Reason("status", f"it is {task.status.name.lower()}"))

    def _never_whole(self, job: Job) -> Veto:
        """Returns why the job cannot be evicted as a whole: the first of its pods that must stay, by name."""
        if not (job.count[Status.ALLOCATED] or job.count[Status.PIPELINED]):
            for key, task in sorted(job.tasks.items()):
                if task.status in PLACED_STATUSES and task.node >= 0 and not self.pool.has(task):
                    plugin, reason = self._never(task)
                    return Veto(plugin, Reason(reason.code, f"{key}: {reason.message()}"))
        return Veto("", _GROWS)
