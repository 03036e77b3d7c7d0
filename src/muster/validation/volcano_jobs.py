"""Finds Jobs of Volcano that Volcano would refuse or that cannot start in this cluster: the queue is closed, a claim
does not exist, or the gang needs pods that are created only after it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from muster.config.names import suggest
from muster.engine.core.session import Session
from muster.model import volcano_job
from muster.model.finding import Finding
from muster.model.volcano_job import JobSpec, task_name
from muster.validation.locator import Locator

_KIND = volcano_job.Job.__name__
_MAX_NAMED = 5
# The events that occur in a simulation; the simulated controller takes no action on them.
_EVENTS = ("*", "PodEvicted", "PodFailed", "TaskCompleted", "TaskFailed")


def volcano_job_findings(session: Session, locator: Locator) -> Iterator[Finding]:
    """Checks every Job of Volcano, also those of CronJobs."""
    jobs = cast("dict[str, volcano_job.Job]", session.state.objects[_KIND])
    for key, job in sorted(jobs.items()):
        yield from _queue(session, key, job.spec, locator)
        yield from _claims(session, key, job, locator)
        yield from _tasks(key, job.spec, locator)
        yield from _policies(key, job.spec, locator)


def _queue(session: Session, key: str, spec: JobSpec, locator: Locator) -> Iterator[Finding]:
    queue = session.queues.get(spec.queue or "default")
    if queue is not None and not queue.open:  # a queue that does not exist is reported for the PodGroup
        message = f"queue {queue.name} is {queue.object.status.state}, not Open: Volcano refuses the Job"
        yield locator.finding("error", _KIND, key, "queue-closed", message, "open it, or name another", "spec.queue")
    children = sorted(other.name for other in session.queues.values() if other.parent == (spec.queue or "default"))
    if children:
        message = f"queue {spec.queue} has queues below it: Volcano accepts Jobs only in queues without any"
        fix = f"name one of {', '.join(children[:_MAX_NAMED])}"
        yield locator.finding("error", _KIND, key, "queue-not-leaf", message, fix, "spec.queue")


def _claims(session: Session, key: str, job: volcano_job.Job, locator: Locator) -> Iterator[Finding]:
    namespace = job.metadata.namespace
    claims = session.state.objects["PersistentVolumeClaim"]
    for i, volume in enumerate(job.spec.volumes):
        name = volume.volume_claim_name
        if name and f"{namespace}/{name}" not in claims:
            message = f"spec.volumes[{i}]: claim {name} does not exist: the Job has no pods until it does"
            there = [claim.partition("/")[2] for claim in claims if claim.startswith(f"{namespace}/")]
            fix = f"create the claim, or name another; {suggest(name, there)}"
            yield locator.finding("error", _KIND, key, "no-claim", message, fix, f"spec.volumes[{i}]")


def _tasks(key: str, spec: JobSpec, locator: Locator) -> Iterator[Finding]:
    for i, task in enumerate(spec.tasks):
        if not task.replicas:
            message = f"task {task_name(task, i)} has no pods: replicas is 0 or missing"
            yield locator.finding("warning", _KIND, key, "no-pods", message, "write replicas", f"spec.tasks[{i}]")
        depends = task.depends_on
        if depends is not None and depends.iteration not in ("", "any", "all"):
            message = f"iteration {depends.iteration!r} of dependsOn is neither any nor all: Volcano takes it for all"
            path = f"spec.tasks[{i}].dependsOn.iteration"
            yield locator.finding("warning", _KIND, key, "depends-on", message, "write any or all", path)
    first = sum(task.replicas for task in spec.tasks if task.depends_on is None or not task.depends_on.name)
    least = spec.min_available or sum(
        task.replicas if task.min_available is None else task.min_available for task in spec.tasks
    )
    if first < least:
        message = f"the gang needs {least} pods, but only {first} exist before the tasks with dependsOn start: "
        message += "none of its pods is ever bound"
        fix = f"write minAvailable: {first} or less"
        yield locator.finding("warning", _KIND, key, "depends-on", message, fix, "spec.minAvailable")


def _policies(key: str, spec: JobSpec, locator: Locator) -> Iterator[Finding]:
    """Reports policies that `muster simulate` ignores."""
    places = [("spec.policies", spec.policies)]
    places += [(f"spec.tasks[{i}].policies", task.policies) for i, task in enumerate(spec.tasks)]
    for path, policies in places:
        for i, policy in enumerate(policies):
            done = "TaskCompleted" if policy.action == "CompleteJob" else ""
            events = [event for event in (*policy.events, policy.event) if event in _EVENTS and event != done]
            if events or policy.exit_code is not None:
                what = ", ".join(events) if events else f"exit code {policy.exit_code}"
                message = f"{path}[{i}]: muster simulate ignores {policy.action} on {what}: "
                message += "it only creates evicted pods again"
                yield locator.finding("notice", _KIND, key, "not-simulated", message, "", f"{path}[{i}]")
