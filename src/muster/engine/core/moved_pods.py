"""A pod of which only the node and the status changed keeps its task and its job: most changes of a pod are such."""

from __future__ import annotations

from collections.abc import Container, Iterable

from msgspec.structs import replace

from muster.engine.core.jobs import ALLOCATED_LIKE, ON_NODE, Status, Task
from muster.engine.core.nodes import Nodes
from muster.engine.core.reading import is_gated, is_preemptable, status_of
from muster.model.core import Pod
from muster.model.pod_states import is_terminating

_IN_TOTAL = [status in (*ALLOCATED_LIKE, Status.PENDING) for status in Status]  # by status: what `Job.total` sums


def only_moved(before: Pod, after: Pod) -> bool:
    """Returns whether a pod changed in nothing that decides about its group, its shape and its priority."""
    a, b = before.metadata, after.metadata
    spec, new = before.spec, after.spec
    return (
        a.uid == b.uid
        and a.labels == b.labels
        and a.annotations == b.annotations
        and a.owner_references == b.owner_references
        and a.creation_timestamp == b.creation_timestamp
        and (spec == new if spec.node_name == new.node_name else spec == replace(new, node_name=spec.node_name))
    )


def keeps_job(task: Task, pod: Pod, groups: Container[str]) -> bool:
    """Returns whether the pod only moved, and is in the job of a plain pod or of one of the PodGroups."""
    job = task.job
    return job is not None and (job.plain_class is not None or job.key in groups) and only_moved(task.pod, pod)


def reads_equal(one: Pod, other: Pod) -> bool:
    """Returns whether two states of a pod give the same task, in the same job."""
    return (
        one.spec.node_name == other.spec.node_name
        and (status_of(one), is_terminating(one)) == (status_of(other), is_terminating(other))
        and one.status.nominated_node_name == other.status.nominated_node_name
        # Among equal victims the one that started last is evicted.
        and one.status.start_time == other.status.start_time
        and only_moved(one, other)
    )


def move_task(task: Task, pod: Pod, nodes: Nodes, changed_pods: Iterable[dict[str, None]]) -> None:
    """Gives a task of a job the new state of its pod; the accounts of the job and of the nodes follow."""
    for changed in changed_pods:
        changed[task.key] = None
    status = status_of(pod)
    node = nodes.rank.get(pod.spec.node_name, -1) if pod.spec.node_name else -1
    was_there = task.node >= 0 and task.key in nodes.on[task.node]
    is_there = node >= 0 and status in ON_NODE
    releasing = Status.RELEASING in (status, task.status) and status != task.status
    stays = was_there and is_there and node == task.node and not releasing
    if was_there and not stays:
        nodes.observe((task,), -1)
    job = task.job
    assert job is not None
    if _IN_TOTAL[task.status] and _IN_TOTAL[status]:
        job.shift([task], status)
    else:
        job.tally(task.shape, task.status, -1)
        job.tally(task.shape, status, 1)
        task.status = status
    task.pod, task.node, task.nominated = pod, node, pod.status.nominated_node_name
    # The scheduler's back-offs and budgets mark a task in these; they end with every reading.
    task.preemptable, task.gated = is_preemptable(pod), is_gated(pod)
    if stays:
        nodes.touch(node)
    elif is_there:
        nodes.observe((task,), 1)
    if job.plain_class is not None:
        job.group.status.phase = "Pending" if status in (Status.PENDING, Status.RELEASING) else "Running"
        if job.phase != "Inqueue" or job.group.status.phase != "Pending":  # its admission stays
            job.phase = job.group.status.phase
