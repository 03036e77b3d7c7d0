"""The controllers of Volcano's Jobs and CronJobs in the embedded cluster."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from builders.manifests import tables
from muster.cluster.embedded import EmbeddedCluster
from muster.model import volcano_job
from muster.model.core import Pod
from muster.model.pod import PodStatus
from muster.model.scheduling import PodGroup

START = 1_000_000.0


def task(name: str, replicas: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": {"spec": {"containers": [{"name": "c"}]}}, **more}


def job(*tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    status = spec.pop("status", {})
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train", "namespace": "d"},
        "spec": {"tasks": list(tasks), **spec}, "status": status,
    }  # fmt: skip


def cluster_of(*objects: Any, all_pods: bool = False) -> EmbeddedCluster:
    return EmbeddedCluster(tables(objects), START, all_pods=all_pods)


def names(cluster: EmbeddedCluster) -> list[str]:
    return sorted(pod.metadata.name for pod in cluster.store.of(Pod).values())


def admit(cluster: EmbeddedCluster) -> None:
    group = cluster.store.get(PodGroup, "d/train")
    cluster.store.write(replace(group, status=replace(group.status, phase="Inqueue")))
    cluster.step()


def run_pod(cluster: EmbeddedCluster, name: str, phase: str = "Running") -> None:
    cluster.store.write(replace(cluster.store.get(Pod, f"d/{name}"), status=PodStatus(phase=phase)))
    cluster.step()


def test_the_pods_are_created_when_the_group_is_admitted() -> None:
    cluster = cluster_of(job(task("a", 2)))
    assert names(cluster) == [] and "d/train" in cluster.store.of(PodGroup)
    admit(cluster)
    assert names(cluster) == ["train-a-0", "train-a-1"]
    assert cluster.store.get(volcano_job.Job, "d/train").status.pending == 2


def test_all_pods_are_there_at_once_where_they_are_asked_for() -> None:
    cluster = cluster_of(job(task("a", 1), task("b", 1, dependsOn={"name": ["a"]})), all_pods=True)
    assert names(cluster) == ["train-a-0", "train-b-0"]


def test_a_task_waits_for_the_minimum_of_the_task_that_it_depends_on() -> None:
    cluster = cluster_of(job(task("a", 3, minAvailable=2), task("b", 1, dependsOn={"name": ["a"]}), minAvailable=1))
    admit(cluster)
    run_pod(cluster, "train-a-0")
    assert "train-b-0" not in names(cluster)
    run_pod(cluster, "train-a-1", "Succeeded")
    assert "train-b-0" in names(cluster)


def test_a_pod_that_is_gone_is_created_again_and_one_that_failed_is_not() -> None:
    cluster = cluster_of(job(task("a", 2), minAvailable=1))
    admit(cluster)
    uid = cluster.store.get(Pod, "d/train-a-1").metadata.uid
    cluster.store.remove(Pod, "d/train-a-1")
    run_pod(cluster, "train-a-0", "Failed")
    assert names(cluster) == ["train-a-0", "train-a-1"]
    assert cluster.store.get(Pod, "d/train-a-1").metadata.uid != uid
    assert cluster.store.get(Pod, "d/train-a-0").status.phase == "Failed"


def test_a_smaller_job_loses_its_last_pods_and_its_group_follows() -> None:
    cluster = cluster_of(job(task("a", 3)))
    admit(cluster)
    found = cluster.store.get(volcano_job.Job, "d/train")
    smaller = replace(found.spec, tasks=[replace(found.spec.tasks[0], replicas=1)])
    cluster.store.write(replace(found, spec=smaller))
    cluster.step()
    assert names(cluster) == ["train-a-0"]
    assert cluster.store.get(PodGroup, "d/train").spec.min_member == 1


def test_a_job_that_has_ended_gets_no_pods() -> None:
    cluster = cluster_of(job(task("a", 1), status={"state": {"phase": "Completed"}}))
    assert not cluster.store.of(PodGroup) and names(cluster) == []
    running = cluster_of(job(task("a", 1)))
    admit(running)
    run_pod(running, "train-a-0", "Succeeded")
    assert running.store.get(volcano_job.Job, "d/train").status.state.phase == "Completed"


def test_a_completed_task_ends_the_job_if_its_policy_says_so() -> None:
    policy = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    cluster = cluster_of(job(task("master", 1, policies=policy), task("worker", 2), minAvailable=1))
    admit(cluster)
    run_pod(cluster, "train-worker-0", "Succeeded")
    assert len(names(cluster)) == 3
    run_pod(cluster, "train-master-0", "Succeeded")
    assert names(cluster) == ["train-master-0", "train-worker-0"]
    assert cluster.store.get(volcano_job.Job, "d/train").status.state.phase == "Completed"
    assert not list(cluster.ignored_policies(()))


def test_enough_successes_end_the_job() -> None:
    cluster = cluster_of(job(task("a", 3), minAvailable=1, minSuccess=2))
    admit(cluster)
    run_pod(cluster, "train-a-0", "Succeeded")
    run_pod(cluster, "train-a-2", "Succeeded")
    assert names(cluster) == ["train-a-0", "train-a-2"]


def test_a_policy_whose_event_happened_and_that_is_not_simulated_is_reported() -> None:
    cluster = cluster_of(job(task("a", 1), policies=[{"event": "*", "action": "RestartJob"}]))
    admit(cluster)
    assert not list(cluster.ignored_policies(()))
    (warning,) = cluster.ignored_policies({"d/train-a-0"})
    assert warning.startswith("Volcano Job d/train: RestartJob on PodEvicted of task a is not simulated")


def test_a_job_that_is_deleted_takes_its_pods_and_its_group_along() -> None:
    batch = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": "d"}, "spec": {}}
    cluster = cluster_of(job(task("a", 1)), batch)
    admit(cluster)
    assert len(names(cluster)) == 2
    cluster.store.delete(volcano_job.Job, "d/train")
    cluster.step()
    (left,) = names(cluster)
    assert left != "train-a-0" and not cluster.store.of(PodGroup)


def test_a_group_of_an_earlier_release_is_kept() -> None:
    meta = {"name": "train", "namespace": "d", "uid": "u1"}
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u1", "controller": True}
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "d", "ownerReferences": [owner]}, "status": {"phase": "Inqueue"},
    }  # fmt: skip
    cluster = cluster_of({**job(task("a", 1)), "metadata": meta}, group)
    assert list(cluster.store.of(PodGroup)) == ["d/train"]
    (pod,) = cluster.store.of(Pod).values()
    assert pod.metadata.annotations["scheduling.k8s.io/group-name"] == "train"


def test_a_cron_job_creates_one_job() -> None:
    cron = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": "n", "namespace": "d"},
        "spec": {"schedule": "@hourly", "jobTemplate": {"metadata": {"labels": {"a": "b"}},
                                                        "spec": {"tasks": [task("t", 1)]}}},
    }  # fmt: skip
    cluster = cluster_of(cron)
    due = cluster.next_time()
    assert due == 1_000_800.0 and not cluster.store.of(volcano_job.Job)
    cluster.advance(due)
    (made,) = cluster.store.of(volcano_job.Job).values()
    assert made.metadata.name == f"n-{1_000_800 // 60}" and made.metadata.labels == {"a": "b"}
    assert made.metadata.owner_references[0].kind == "CronJob" and cluster.next_time() is None
