"""The controllers of Volcano's Jobs and CronJobs.

A Job has one PodGroup, and its pods once the scheduler has admitted the group. A CronJob creates one Job, at the first
scheduled time after the start of the simulation; later runs are not simulated: they would follow each other for ever.

Volcano creates the pods of a task with `dependsOn` when enough pods of the tasks that it names run. A pod that was
evicted is created again under its name; a pod that failed stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from muster.cluster import volcano_objects
from muster.cluster.memory import MemoryStore
from muster.cluster.owners import Owners, reference
from muster.cluster.volume_controller import make_claim
from muster.model import volcano_job
from muster.model.core import Pod, PriorityClass
from muster.model.cron import next_time
from muster.model.meta import ObjectMeta, controller, timestamp
from muster.model.meta import key as key_of
from muster.model.pod_states import is_active, is_ready, is_terminating
from muster.model.scheduling import PodGroup
from muster.model.storage import PersistentVolumeClaim
from muster.model.volcano_job import JobSpec, JobState, TaskSpec
from muster.store import Clock

# Phases of a Job for which the controller creates no pods any more.
ENDED = ("Aborting", "Aborted", "Completing", "Completed", "Terminating", "Terminated", "Failed")
_PENDING = ("", "Pending")
# Volcano: the PodGroup follows these when the Job changes.
_FOLLOWED = ("min_member", "min_task_member", "priority_class_name", "sub_group_policy")

Members = dict[str, Pod]  # by name


def reconcile(owners: Owners, job: volcano_job.Job, *, all_pods: bool = False) -> None:
    """Creates the Job's claims, its PodGroup and its pods; with `all_pods` it waits neither for the admission of the
    group nor for the tasks that others depend on."""
    if job.status.state.phase in ENDED:
        return
    spec = volcano_objects.with_defaults(job.spec)
    _make_claims(owners, job)
    group = _make_group(owners, job, spec)
    members = {pod.metadata.name: pod for pod in owners.pods.of(job)}
    complete = _is_complete(job, spec, members)
    if complete:
        for pod in members.values():
            if is_active(pod):
                owners.delete_pod(pod)
    elif all_pods or group.status.phase not in _PENDING:
        _make_pods(owners, job, spec, group, members, all_pods)
    _report(owners, job, spec, list(members.values()), complete)


def _make_claims(owners: Owners, job: volcano_job.Job) -> None:
    for name, spec in volcano_objects.claims(job):
        if spec is not None:
            make_claim(owners.store, volcano_objects.claim(job, name, spec))
        elif not _claim_exists(owners.store, job, name):
            raise ValueError(f"claim {name} does not exist: the Job has no pods until it does")


def _claim_exists(store: MemoryStore, job: volcano_job.Job, name: str) -> bool:
    return f"{job.metadata.namespace}/{name}" in store.of(PersistentVolumeClaim)


def _make_group(owners: Owners, job: volcano_job.Job, spec: JobSpec) -> PodGroup:
    classes = {name: c for name, c in owners.store.of(PriorityClass).items() if isinstance(c, PriorityClass)}
    wanted = volcano_objects.pod_group(job, spec, classes)
    there = owners.store.of(PodGroup)
    found = there.get(key_of(wanted))
    if found is None:
        # Volcano: Jobs of earlier releases have a PodGroup of their own name.
        named = there.get(key_of(job))
        owner = controller(named.metadata) if named is not None else None
        if named is None or owner is None or owner.uid != job.metadata.uid:
            return owners.store.create(wanted)
        found = named
    # Those of the input may have minResources in other words.
    if any(getattr(found.spec, name) != getattr(wanted.spec, name) for name in _FOLLOWED):
        return owners.store.write(replace(found, spec=wanted.spec))
    return found


def _make_pods(
    owners: Owners, job: volcano_job.Job, spec: JobSpec, group: PodGroup, members: Members, all_pods: bool
) -> None:
    wanted: set[str] = set()
    for task in spec.tasks:
        names = [f"{job.metadata.name}-{task.name}-{index}" for index in range(task.replicas)]
        wanted.update(names)
        if not all_pods and not _may_start(job, spec, task, members):
            continue
        for index, name in enumerate(names):
            if name not in members and f"{job.metadata.namespace}/{name}" not in owners.store.of(Pod):
                owners.store.create(volcano_objects.pod(job, spec, task, index, group.metadata.name))
    for name, pod in members.items():
        if name not in wanted:
            owners.delete_pod(pod)


def _may_start(job: volcano_job.Job, spec: JobSpec, task: TaskSpec, members: Members) -> bool:
    """Returns whether the tasks that a task depends on have started."""
    depends = task.depends_on
    if depends is None or not depends.name:
        return True
    tasks = {other.name: other for other in spec.tasks}
    started = [_has_started(job, tasks[name], members) for name in depends.name]
    # Volcano: everything but `any` means all.
    return any(started) if depends.iteration == "any" else all(started)


def _has_started(job: volcano_job.Job, task: TaskSpec, members: Members) -> bool:
    names = (f"{job.metadata.name}-{task.name}-{index}" for index in range(task.replicas))
    pods = [members[name] for name in names if name in members]
    return sum(1 for pod in pods if is_ready(pod) or pod.status.phase == "Succeeded") >= (task.min_available or 0)


def _is_complete(job: volcano_job.Job, spec: JobSpec, members: Members) -> bool:
    """Returns whether enough pods have succeeded (minSuccess), or all pods of a task whose policy then ends the Job."""
    done = {name for name, pod in members.items() if pod.status.phase == "Succeeded"}
    if spec.min_success is not None and len(done) >= spec.min_success:
        return True
    for task in spec.tasks if done else ():
        names = {f"{job.metadata.name}-{task.name}-{index}" for index in range(task.replicas)}
        if names and names <= done and _completes_job(spec, task):
            return True
    return False


def _completes_job(spec: JobSpec, task: TaskSpec) -> bool:
    """Returns whether the Job is complete when all pods of the task have succeeded."""
    # Volcano: the policies of the task come first.
    for policy in (*task.policies, *spec.policies):
        if {"TaskCompleted", "*"} & {policy.event, *policy.events}:
            return policy.action == "CompleteJob"
    return False


def missing_pods(
    store: MemoryStore, job: volcano_job.Job, ours: Collection[str]
) -> Iterator[tuple[str, str, str]]:
    """Yields each pod of the Job for the schedulers of those names that does not exist yet: its key, the key of its
    PodGroup, and what it waits for; that is empty if the PodGroup is not admitted."""
    if job.status.state.phase in ENDED:
        return
    spec = volcano_objects.with_defaults(job.spec)
    namespace, pods, groups = job.metadata.namespace, store.of(Pod), store.of(PodGroup)
    group = groups.get(f"{namespace}/{volcano_objects.group_name(job)}")
    absent = [n for n, made in volcano_objects.claims(job) if made is None and not _claim_exists(store, job, n)]
    for task in spec.tasks:
        if (task.template.spec.scheduler_name or spec.scheduler_name) not in ours:
            continue
        depends = task.depends_on
        waits = "the Job's controller"
        if absent:
            waits = f"claim {absent[0]}, which does not exist"
        elif group is None or group.status.phase in _PENDING:
            waits = ""
        elif depends is not None and depends.name:
            which = "one of the tasks" if depends.iteration == "any" and len(depends.name) > 1 else "task"
            waits = f"{which} {', '.join(depends.name)} to run"
        for index in range(task.replicas):
            key = f"{namespace}/{job.metadata.name}-{task.name}-{index}"
            if key not in pods:
                yield key, f"{namespace}/{volcano_objects.group_name(job)}", waits


def ignored_policies(store: MemoryStore, evicted: Collection[str]) -> Iterator[str]:
    """Yields the lifecycle policies whose event happened to pods of their Job, but which the simulated controller
    ignores; `evicted` are the keys of the evicted pods."""
    for key, job in sorted(store.of(volcano_job.Job).items()):
        for i, task in enumerate(job.spec.tasks):
            policies = [*task.policies, *job.spec.policies]
            if not policies:
                continue
            keys = [f"{key}-{volcano_job.task_name(task, i)}-{index}" for index in range(task.replicas)]
            phases = [found.status.phase for one in keys if (found := store.of(Pod).get(one)) is not None]
            happened = {
                "PodEvicted": any(one in evicted for one in keys),
                "PodFailed": "Failed" in phases,
                "TaskCompleted": bool(keys) and phases.count("Succeeded") == len(keys),
            }
            for policy in policies:
                for event in happened:
                    if event == "TaskCompleted" and policy.action == "CompleteJob":
                        continue
                    if happened[event] and {event, "*"} & {policy.event, *policy.events}:
                        action = f"{policy.action} on {event} of task {volcano_job.task_name(task, i)}"
                        yield f"Volcano Job {key}: {action} is not simulated: only evicted pods are created again"


def _report(owners: Owners, job: volcano_job.Job, spec: JobSpec, members: list[Pod], complete: bool) -> None:
    staying = [pod for pod in members if not is_terminating(pod)]
    by_phase = {phase: sum(1 for p in staying if (p.status.phase or "Pending") == phase) for phase in _PHASES}
    running, succeeded, failed = by_phase["Running"], by_phase["Succeeded"], by_phase["Failed"]
    phase = job.status.state.phase or "Pending"
    if complete:
        phase = "Completed"
    elif members and succeeded + failed == sum(task.replicas for task in spec.tasks):
        phase = "Completed" if succeeded >= spec.min_available else "Failed"
    elif running + succeeded + failed >= spec.min_available:
        phase = "Running" if running else phase
    state = job.status.state
    if state.phase != phase:
        state = JobState(phase=phase, last_transition_time=timestamp(owners.store.clock.now()))
    owners.report(
        job,
        replace(
            job.status,
            state=state,
            min_available=spec.min_available,
            pending=by_phase["Pending"],
            running=running,
            succeeded=succeeded,
            failed=failed,
            terminating=len(members) - len(staying),
        ),
    )


_PHASES = ("Pending", "Running", "Succeeded", "Failed")


class VolcanoCronJobs:
    """Follows no changes: CronJobs come with the input. With `at_once` their Jobs exist from the start."""

    def __init__(self, store: MemoryStore, clock: Clock, *, at_once: bool = False) -> None:
        self._store = store
        self._clock = clock
        self._at_once = at_once
        self._due: dict[str, float] = {}
        for key, cron in sorted(store.of(volcano_job.CronJob).items()):
            due = None if cron.spec.suspend else next_time(cron.spec.schedule, cron.spec.time_zone, clock.now())
            if due is not None:
                self._due[key] = due

    def run(self) -> bool:
        """Creates the Jobs that are due; returns whether there were any."""
        now = self._clock.now()
        ready = [key for key, due in self._due.items() if due <= now or self._at_once]
        for key in ready:
            due, cron = self._due.pop(key), self._store.of(volcano_job.CronJob).get(key)
            if cron is not None:
                job = job_of(cron, due)
                if not self._store.known(volcano_job.Job, f"{job.metadata.namespace}/{job.metadata.name}"):
                    self._store.create(job)
        return bool(ready)

    def next_time(self) -> float | None:
        """Returns when the next Job is due; None if none is."""
        return min(self._due.values(), default=None)


def job_of(cron: volcano_job.CronJob, due: float) -> volcano_job.Job:
    """The Job that the CronJob creates for a scheduled time; its name ends with the minutes since the epoch."""
    template = cron.spec.job_template
    meta = ObjectMeta(
        name=f"{cron.metadata.name}-{int(due) // 60}",
        namespace=cron.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        owner_references=[reference(cron)],
    )
    return volcano_job.Job(metadata=meta, spec=template.spec)
