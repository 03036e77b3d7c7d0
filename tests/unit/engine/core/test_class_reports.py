"""The reasons of a class of waiting jobs are made again only where the class or the cause changed."""

from __future__ import annotations

from builders.manifests import pod, state_of
from muster.engine.core.backlog import Backlog, JobClass, Rank
from muster.engine.core.class_reports import Cause, ClassReport
from muster.engine.core.jobs import Job
from muster.engine.core.plan import PodReason
from muster.engine.core.state import State

FULL = Cause(PodReason("unschedulable", "full."), "1/1 tasks.", "full.")
TAINTED = Cause(PodReason("unschedulable", "tainted."), "1/1 tasks.", "tainted.")


def job_of(state: State, pod: str) -> Job:
    job = state.tasks[f"default/{pod}"].job
    assert job is not None
    return job


def rank(job: Job) -> Rank:
    return job.created, job.key


def one_class(*names: str) -> tuple[Backlog, JobClass, State]:
    state = state_of(*(pod(name) for name in names))
    backlog = Backlog(("Pending",), plain=True)
    assert all(backlog.place(job, {}) for job in state.jobs.values())
    (cls,) = backlog.classes.values()
    return backlog, cls, state


def test_what_is_known_stays_and_jobs_come_and_go() -> None:
    backlog, cls, state = one_class("p-1", "p-2", "p-3")
    report = ClassReport()
    first = job_of(state, "p-1")
    report.update(cls, [(rank(first), FULL)])
    before = dict(report.conditions)
    assert report.reasons == dict.fromkeys(state.tasks, FULL.reason)
    assert before[first.key].message == "1/1 tasks. Origin reason is default/p-1: full."
    backlog.discard(job_of(state, "p-2").key)
    report.update(cls, [(rank(first), FULL)])
    assert sorted(report.reasons) == ["default/p-1", "default/p-3"]
    assert report.conditions[first.key] is before[first.key]
    backlog.place(job_of(state, "p-2"), {})
    report.update(cls, [(rank(first), FULL)])
    assert (report.reasons, report.conditions) == (dict.fromkeys(state.tasks, FULL.reason), before)
    report.update(cls, [(rank(first), TAINTED)])
    assert report.reasons == dict.fromkeys(state.tasks, TAINTED.reason)


def test_younger_jobs_may_have_another_cause() -> None:
    _, cls, state = one_class("p-1", "p-2", "p-3")
    causes = [(rank(job_of(state, f"p-{i}")), cause) for i, cause in ((1, FULL), (2, TAINTED))]
    report = ClassReport()
    report.update(cls, causes)
    assert [report.reasons[f"default/p-{i}"].text for i in (1, 2, 3)] == ["full.", "tainted.", "tainted."]
    report.update(cls, causes[:1])
    assert set(report.reasons.values()) == {FULL.reason}
