"""Waiting jobs come in the scheduler's own order, with the shares of their queues."""

from __future__ import annotations

from builders.files import manifests, replica_set
from builders.manifests import Manifest, group, node, pod, priority_class, queue
from muster import queues
from muster.sim.waiting_jobs import WaitingJobs

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def waiting(*documents: Manifest) -> WaitingJobs:
    return queues(manifests(*documents))


def order(found: WaitingJobs) -> list[tuple[int | None, str, int | None, str]]:
    return [(job.position, job.queue, job.queue_position, job.group) for job in found.jobs]


def test_jobs_come_by_queue_then_by_priority_then_by_creation() -> None:
    found = waiting(
        node(cpu=8), priority_class("high", 10), queue("a"), queue("b"),
        group("old", "a", created=EARLY), pod("old-0", "old"), group("new", "a", created=LATE), pod("new-0", "new"),
        group("urgent", "a", created=LATE, priorityClassName="high"), pod("urgent-0", "urgent"),
        # Queue a has more than b: b is served first.
        group("other", "b", created=LATE), pod("other-0", "other"),
        group("runs", "a", created=EARLY, phase="Running"), pod("runs-0", "runs", on="n1"),
    )  # fmt: skip
    assert order(found) == [
        (1, "b", 1, "default/other"), (2, "a", 1, "default/urgent"), (3, "a", 2, "default/old"),
        (4, "a", 3, "default/new"),
    ]  # fmt: skip
    assert list(found.shares) == ["b", "a"] and found.shares["a"].allocated["cpu"] == 1000


def test_a_job_has_its_pods_its_requests_and_the_reason_of_the_next_cycle() -> None:
    gang = [group("g", minMember=2), pod("g-0", "g", cpu=3), pod("g-1", "g", cpu=3)]
    found = waiting(node(cpu=4), *gang)
    (job,) = found.to_dict()["jobs"]  # type: ignore[attr-defined, misc]
    assert job["pods"] == ["default/g-0", "default/g-1"] and job["requests"] == {"cpu": "6"}
    assert (job["size"], job["minimum"], job["binds"]) == (2, 2, 0)
    assert job["code"] and job["reason"]


def test_pods_of_a_workload_are_shown_under_its_name_and_may_be_bound_next() -> None:
    (job,) = waiting(node(), replica_set("web", 2, pod("web"))).jobs
    assert (job.group, job.binds, job.reason) == ("default/web", 2, None)


def test_a_job_of_a_queue_that_does_not_exist_has_no_position() -> None:
    (job,) = waiting(node(), group("g", "nowhere"), pod("g-0", "g")).jobs
    assert job.position is None and job.reason is not None and job.reason.code == "no-queue"
