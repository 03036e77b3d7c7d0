"""What Volcano makes of a Job: defaults, PodGroup, pods, claims."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.cluster import volcano_objects
from muster.model import volcano_job
from muster.model.core import PriorityClass
from muster.model.kinds import decode_as, plain
from muster.model.meta import ObjectMeta
from strategies.profiles import examples


def task(name: str, replicas: int, cpu: int = 1, **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}], **more.pop("pod", {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def made(*tasks: dict[str, Any], meta: dict[str, Any] | None = None, **spec: Any) -> volcano_job.Job:
    given_meta = {"name": "train", "namespace": "d", "uid": "d/train", **(meta or {})}
    return decode_as(volcano_job.Job, {"metadata": given_meta, "spec": {"tasks": list(tasks), **spec}})


def group_of(job: volcano_job.Job, **classes: int) -> dict[str, Any]:
    known = {name: PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in classes.items()}
    return plain(volcano_objects.pod_group(job, volcano_objects.with_defaults(job.spec), known))


def pods_of(job: volcano_job.Job) -> list[dict[str, Any]]:
    spec = volcano_objects.with_defaults(job.spec)
    return [
        plain(volcano_objects.pod(job, spec, one, i, volcano_objects.group_name(job)))
        for one in spec.tasks
        for i in range(one.replicas)
    ]


def test_the_defaults_of_the_webhook_are_filled_in() -> None:
    parts = {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}
    spec = volcano_objects.with_defaults(made(task("", 2), task("b", 6, partitionPolicy=parts)).spec)
    assert (spec.queue, spec.scheduler_name, spec.max_retry, spec.min_available) == ("default", "volcano", 3, 6)
    assert [(one.name, one.min_available) for one in spec.tasks] == [("default0", 2), ("b", 4)]
    assert volcano_objects.with_defaults(spec) == spec


def test_the_group_has_the_fields_of_the_job() -> None:
    parts = {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1, "networkTopology": {"highestTierAllowed": 1}}
    meta = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    job = made(
        task("ps", 1), task("worker", 4, 2, partitionPolicy=parts), meta=meta, queue="q", priorityClassName="high",
        networkTopology={"mode": "soft", "highestTierName": "rack"},
    )  # fmt: skip
    group = group_of(job)
    (owner,) = group["metadata"].pop("ownerReferences")
    assert (owner["apiVersion"], owner["kind"], owner["name"]) == ("batch.volcano.sh/v1alpha1", "Job", "train")
    assert group["metadata"] == {"name": "train", "namespace": "d", **meta}
    assert group["spec"] == {
        "minMember": 3,
        "minTaskMember": {"ps": 1, "worker": 2},
        "queue": "q",
        "priorityClassName": "high",
        "minResources": {"cpu": "5"},
        "networkTopology": {"mode": "soft", "highestTierName": "rack"},
        "subGroupPolicy": [
            {
                "name": "worker",
                "networkTopology": {"highestTierAllowed": 1},
                "subGroupSize": 2,
                "minSubGroups": 1,
                "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
                "matchLabelKeys": ["volcano.sh/partition-id"],
            }
        ],
    }


def test_a_group_is_named_after_the_uid_if_there_is_one() -> None:
    assert volcano_objects.group_name(made(task("a", 1))) == "train"
    assert volcano_objects.group_name(made(task("a", 1), meta={"uid": "6f-1"})) == "train-6f-1"


def test_pods_have_the_names_labels_and_annotations_of_volcano() -> None:
    parts = {"totalPartitions": 2, "partitionSize": 2}
    notes = {
        "volcano.sh/preemptable": "true",
        "volcano.sh/jdb-min-available": "2",
        "volcano.sh/jdb-max-unavailable": "1",
        "own": "x",
    }
    job = made(task("worker", 4, partitionPolicy=parts), meta={"uid": "u", "annotations": notes}, queue="q")
    last = pods_of(job)[-1]["metadata"]
    assert last["name"] == "train-worker-3"
    assert last["labels"] == {
        "volcano.sh/task-index": "3",
        "volcano.sh/job-name": "train",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/job-namespace": "d",
        "volcano.sh/queue-name": "q",
        "volcano.sh/partition-id": "1",
    }
    assert last["annotations"] == {
        "volcano.sh/task-index": "3",
        "volcano.sh/task-spec": "worker",
        "scheduling.k8s.io/group-name": "train-u",
        "volcano.sh/job-name": "train",
        "volcano.sh/queue-name": "q",
        "volcano.sh/job-version": "0",
        "volcano.sh/template-uid": "train-worker",
        "volcano.sh/preemptable": "true",
        "volcano.sh/jdb-min-available": "2",
    }


def test_a_template_keeps_its_own_scheduler_and_priority_class() -> None:
    own = {"schedulerName": "other", "priorityClassName": "low"}
    first, second = pods_of(made(task("a", 1, pod=own), task("b", 1), priorityClassName="high"))
    assert (first["spec"]["schedulerName"], first["spec"]["priorityClassName"]) == ("other", "low")
    assert (second["spec"]["schedulerName"], second["spec"]["priorityClassName"]) == ("volcano", "high")


def test_every_pod_mounts_the_claims_of_the_job() -> None:
    volumes = [{"mountPath": "/a", "volumeClaimName": "data"}, {"mountPath": "/b", "volumeClaim": {}}]
    job = made(task("a", 1), task("b", 1), volumes=volumes)
    (_, none), (name, spec) = volcano_objects.claims(job)
    assert none is None and spec is not None and name.startswith("train-pvc-")
    for pod in pods_of(job):
        mounted = [volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"]["volumes"]]
        assert mounted == ["data", name]
    claim = plain(volcano_objects.claim(job, name, spec))
    assert claim["metadata"]["ownerReferences"][0]["name"] == "train"


TASKS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 3), st.sampled_from(["", "low", "high", "unknown"])),
    min_size=1,
    max_size=4,
)


@examples(200)
@given(TASKS, st.integers(0, 12))
def test_min_resources_are_those_of_the_pods_that_volcano_counts(
    tasks: list[tuple[int, int, int, str]], least: int
) -> None:
    job = made(
        *(
            task(f"t{i}", replicas, 2**i, minAvailable=min(minimum, replicas), pod={"priorityClassName": name})
            for i, (replicas, minimum, _, name) in enumerate(tasks)
        ),
        minAvailable=min(least, sum(replicas for replicas, _, _, _ in tasks)),
    )
    spec = volcano_objects.with_defaults(job.spec)
    values = {"low": -5, "high": 9}
    order = sorted(enumerate(spec.tasks), key=lambda one: -values.get(one[1].template.spec.priority_class_name, 0))
    needed = [i for i, one in order for _ in range(one.min_available or 0)]
    more = [i for i, one in order for _ in range(one.replicas - (one.min_available or 0))]
    every = [i for i, one in order for _ in range(one.replicas)]
    counted = Counter((every if spec.min_available < len(needed) else needed + more)[: spec.min_available])
    expected = sum(count * 2**i for i, count in counted.items())
    got = group_of(job, **values)["spec"].get("minResources", {})
    assert got == ({"cpu": str(expected)} if counted else {})
