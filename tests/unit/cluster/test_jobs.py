"""Jobs: pods until enough have succeeded."""

from __future__ import annotations

from builders.embedded import bind_all, cluster, owned_by, pods_of, template
from builders.manifests import node, pod
from muster.cluster.embedded import EmbeddedCluster
from muster.model.batch import CronJob, CronJobSpec, Job, JobSpec
from muster.model.meta import ObjectMeta
from muster.model.pod_states import is_active


def job(parallelism: int | None, completions: int | None, mode: str = "NonIndexed", seconds: str = "") -> Job:
    notes = {"muster.io/run-seconds": seconds} if seconds else {}
    spec = JobSpec(parallelism=parallelism, completions=completions, completion_mode=mode)
    spec.template = template(annotations=notes)
    return Job(metadata=ObjectMeta(name="train", namespace="default"), spec=spec)


def at_work(c: EmbeddedCluster) -> int:
    return sum(1 for p in pods_of(c).values() if is_active(p))


def test_without_numbers_there_is_one_pod_and_it_never_ends_by_itself() -> None:
    c = cluster(node("n"), job(None, None))
    bind_all(c, "n")
    assert at_work(c) == 1
    assert c.next_time() is None


def test_as_many_work_at_once_as_may_until_enough_are_done() -> None:
    c = cluster(node("n"), job(2, 3, seconds="10"))
    assert at_work(c) == 2
    bind_all(c, "n")
    c.advance(1010.0)
    assert at_work(c) == 1
    bind_all(c, "n")
    c.advance(1020.0)
    status = c.store.get(Job, "default/train").status
    assert (at_work(c), status.succeeded, [x.type for x in status.conditions]) == (0, 3, ["Complete"])


def test_an_indexed_job_has_each_index_once() -> None:
    c = cluster(node("n"), job(3, 3, "Indexed"))
    names = sorted(pods_of(c))
    assert [name.rsplit("-", 1)[0] for name in names] == ["train-0", "train-1", "train-2"]
    bind_all(c, "n")
    c.store.evict(f"default/{names[1]}", by="default/x", rule="preempt")
    c.advance(1030.0)
    index = "batch.kubernetes.io/job-completion-index"
    assert sorted(p.metadata.annotations[index] for p in pods_of(c).values()) == ["0", "1", "2"]


def test_of_a_work_queue_no_new_pods_come_once_one_is_done() -> None:
    c = cluster(node("n"), job(2, None, seconds="10"))
    bind_all(c, "n")
    c.advance(1010.0)
    assert at_work(c) == 0
    assert [x.type for x in c.store.get(Job, "default/train").status.conditions] == ["Complete"]


def test_a_suspended_job_has_no_pods() -> None:
    made = job(2, 2)
    made.spec.suspend = True
    c = cluster(made)
    assert pods_of(c) == {}
    c.store.patch(Job, "default/train", {"spec": {"suspend": False}})
    c.step()
    assert at_work(c) == 2


def test_too_many_failures_end_the_job() -> None:
    made = job(1, 1)
    made.spec.backoff_limit = 0
    c = cluster(made, pod("train-x", on="n", phase="Failed", meta=owned_by("Job/train")))
    assert at_work(c) == 0
    assert [x.type for x in c.store.get(Job, "default/train").status.conditions] == ["Failed"]


def test_a_cron_job_stands_as_it_is() -> None:
    cron = CronJob(metadata=ObjectMeta(name="nightly", namespace="default"), spec=CronJobSpec(schedule="0 0 * * *"))
    c = cluster(cron)
    c.step()
    assert pods_of(c) == {}
