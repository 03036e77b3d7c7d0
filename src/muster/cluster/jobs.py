"""The Job controller: creates pods until enough have succeeded."""

from __future__ import annotations

from msgspec.structs import replace

from muster.cluster.owners import Owners, surplus
from muster.model.batch import Job
from muster.model.core import Pod
from muster.model.meta import Condition, timestamp
from muster.model.pod_states import is_active, is_healthy

INDEX = "batch.kubernetes.io/job-completion-index"
JOB_NAME = ("batch.kubernetes.io/job-name", "job-name")
# Kubernetes: the default of backoffLimit.
_BACKOFF_LIMIT = 6


def reconcile(owners: Owners, job: Job) -> None:
    if owners.adopt(job, job.spec.selector, owners.pods):
        return
    members = owners.pods.of(job)
    alive = [pod for pod in members if is_active(pod)]
    done = [pod for pod in members if pod.status.phase == "Succeeded"]
    failed = [pod for pod in members if pod.status.phase == "Failed"]
    ended = _ended(job, alive, done, failed)
    wanted = 0 if ended or job.spec.suspend else _wanted(job, len(alive), len(done))
    if job.spec.completion_mode == "Indexed":
        _indexed(owners, job, alive, done, wanted)
    else:
        for _ in range(wanted - len(alive)):
            owners.make(job, job.spec.template, labels=dict.fromkeys(JOB_NAME, job.metadata.name))
    for pod in surplus(alive, len(alive) - wanted):
        owners.delete_pod(pod)
    _report(owners, job, alive, len(done), len(failed), ended)


def _wanted(job: Job, alive: int, done: int) -> int:
    """Returns how many pods should be active now."""
    parallel = max(1 if job.spec.parallelism is None else job.spec.parallelism, 0)
    completions = job.spec.completions
    if completions is None:
        if job.spec.parallelism is not None:
            # A work queue: once one has succeeded the others end by themselves and no new ones start.
            return min(alive, parallel) if done else parallel
        completions = 1
    return min(parallel, max(completions - done, 0))


def _indexed(owners: Owners, job: Job, alive: list[Pod], done: list[Pod], wanted: int) -> None:
    taken = {pod.metadata.annotations.get(INDEX) for pod in (*alive, *done)}
    completions = 1 if job.spec.completions is None else job.spec.completions
    free = (str(i) for i in range(completions) if str(i) not in taken)
    for _, index in zip(range(wanted - len(alive)), free, strict=False):
        labels = {**dict.fromkeys(JOB_NAME, job.metadata.name), INDEX: index}
        prefix = f"{job.metadata.name}-{index}"
        owners.make(job, job.spec.template, prefix=prefix, labels=labels, annotations={INDEX: index})


def _ended(job: Job, alive: list[Pod], done: list[Pod], failed: list[Pod]) -> str:
    """Returns the condition with which a Job has ended or ends now; empty while it runs."""
    for condition in job.status.conditions:
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            return condition.type
    limit = _BACKOFF_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit
    if len(failed) > limit:
        return "Failed"
    completions = job.spec.completions
    if completions is None and job.spec.parallelism is not None:
        return "Complete" if done and not alive else ""
    return "Complete" if len(done) >= (1 if completions is None else completions) else ""


def _report(owners: Owners, job: Job, alive: list[Pod], done: int, failed: int, ended: str) -> None:
    now = timestamp(owners.store.clock.now())
    status = replace(
        job.status,
        active=len(alive),
        succeeded=done,
        failed=failed,
        ready=sum(1 for pod in alive if is_healthy(pod)),
        start_time=job.status.start_time or (None if job.spec.suspend else now),
    )
    if ended and not any(c.type == ended for c in status.conditions):
        condition = Condition(type=ended, status="True", last_transition_time=now)
        completed = now if ended == "Complete" else None
        status = replace(status, conditions=[*status.conditions, condition], completion_time=completed)
    owners.report(job, status)
