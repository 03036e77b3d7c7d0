"""What the webhook refuses, what it warns of, and what the API server gets in response."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from builders.manifests import queue
from muster.cycle.configure import default_configuration
from muster.cycle.scheduler import Scheduler
from muster.groupctl.webhook.review import (
    AdmissionRequest,
    AdmissionResponse,
    BadReview,
    GroupVersionKind,
    read_review,
    write_review,
)
from muster.groupctl.webhook.validator import Validator
from muster.model import kinds
from muster.model.meta import Object, key

DOMAIN = "groupmanagement.kubeedge.io"
VOLCANO = "scheduling.volcano.sh"
CHIPS = "huawei.com/Ascend910"


def judged(value: dict[str, Any], *there: dict[str, Any], operation: str = "CREATE") -> AdmissionResponse:
    tables: dict[str, dict[str, Object]] = {}
    for one in there:
        obj = kinds.decode(one)
        tables.setdefault(type(obj).__name__, {})[key(obj)] = obj
    group, _, version = value["apiVersion"].rpartition("/")
    request = AdmissionRequest(
        uid="u", kind=GroupVersionKind(group=group, version=version, kind=value["kind"]), namespace="default",
        operation=operation, object=value,
    )  # fmt: skip
    return Validator(tables, Scheduler(default_configuration())).review(request)


def policy(kind: str, name: str = "p", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{DOMAIN}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def job(chips: object, parallelism: int = 1, scheduler: str = "muster") -> dict[str, Any]:
    container = {"name": "m", "image": "m", "resources": {"limits": {CHIPS: chips}}}
    template = {"spec": {"schedulerName": scheduler, "containers": [container]}}
    spec = {"parallelism": parallelism, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}


BOARD = {
    "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "8", "pods": "110", CHIPS: "8"}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (policy("PropagationPolicy", staticWeightList=[{"nodeGroupNames": ["a"], "weight": 0}]), "all weights are 0"),
        (policy("PropagationPolicy", staticWeightList=[{"nodeGroupNames": ["a"], "weight": -1}]), "-1 is negative"),
        (policy("PropagationPolicy", numRange=[{"nodeGroupNames": ["a"], "min": 3, "max": 1}]), "min 3 is more than"),
        (policy("PropagationPolicy", propagationStrategy="Even"), "'Even' is no strategy"),
        (policy("PropagationPolicy", staticWeightList="many"), "spec.staticWeightList"),
        (
            policy("OverridePolicy", overrideRules=[{"imageOverrider": [{"component": "Tag", "operator": "add"}]}]),
            "imageOverrider[0].value: must not be empty",
        ),
        (
            policy("OverridePolicy", overrideRules=[{"plaintext": [{"path": "/spec/replicas", "operator": "remove"}]}]),
            "is not part of the pod",
        ),
        (queue("q", capability={"cpu": "lots"}), "spec.capability[cpu]"),
        (queue("q", weight=-1), "-1 is negative"),
        (
            {**queue("g", minMember=-1), "kind": "PodGroup"},
            "spec.minMember: -1 is negative",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_field(value: dict[str, Any], message: str) -> None:
    assert message in judged(value).refusal


def test_a_queue_that_closes_a_cycle_is_refused() -> None:
    response = judged(queue("a", parent="b"), queue("b", parent="a"), queue("a"), operation="UPDATE")
    assert "form a cycle" in response.refusal


def test_what_may_still_become_right_is_only_warned_of() -> None:
    response = judged(policy("PropagationPolicy", staticWeightList=[{"nodeGroupNames": ["Beijing"], "weight": 1}]))
    assert response.refusal == ""
    assert any("using 'beijing'" in text for text in response.warnings)
    group = {"apiVersion": f"{VOLCANO}/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    response = judged({**group, "spec": {"minMember": 2, "queue": "later"}}, queue("default"))
    assert response.refusal == ""
    assert any("queue later does not exist" in text for text in response.warnings)


def test_a_group_that_asks_for_more_than_its_queue_may_have_is_warned_of() -> None:
    group = {
        "apiVersion": f"{VOLCANO}/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {"minMember": 1, "queue": "q", "minResources": {"cpu": "5"}},
    }  # fmt: skip
    response = judged(group, queue("q", capability={"cpu": "4"}), BOARD)
    assert not response.refusal
    assert "more than the capability 4 of queue q" in response.warnings[0]
    assert judged(group, queue("q", capability={"cpu": "6"}), BOARD).warnings == []


def test_a_policy_that_no_label_could_name_is_warned_of() -> None:
    response = judged(policy("OverridePolicy", "x" * 64))
    assert "no label value" in response.warnings[0]


@pytest.mark.parametrize(("chips", "pods"), [("3", 1), ("3", 2), ("12", 1)])
def test_chips_that_no_board_serves_are_refused(chips: str, pods: int) -> None:
    assert "chips" in judged(job(chips, pods), BOARD).refusal


@pytest.mark.parametrize(("chips", "pods"), [("1", 1), ("4", 1), ("4", 2), ("8", 1), ("8", 3)])
def test_chips_that_a_board_serves_pass(chips: str, pods: int) -> None:
    assert judged(job(chips, pods), BOARD).refusal == ""


def test_pods_that_must_run_together_are_judged_together() -> None:
    gang = job("4", 2)
    gang["metadata"]["annotations"] = {"scheduling.volcano.sh/group-min-member": "2"}
    assert "topology910.eachPod" in judged(gang, BOARD).refusal


def test_other_schedulers_jobs_are_none_of_our_business() -> None:
    assert judged(job("3", scheduler="default-scheduler"), BOARD).refusal == ""


def test_an_object_that_is_going_is_never_refused() -> None:
    value = policy("PropagationPolicy", propagationStrategy="Even")
    value["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert judged(value, operation="UPDATE").refusal == ""


def test_the_answer_is_a_review_of_the_same_request() -> None:
    patch = [{"op": "add", "path": "/a", "value": 1}]
    response = AdmissionResponse(patch=patch, warnings=["long " * 100, "twice", "twice"])
    answer = json.loads(write_review("u1", response))["response"]
    assert (answer["uid"], answer["allowed"], answer["patchType"]) == ("u1", True, "JSONPatch")
    assert json.loads(base64.b64decode(answer["patch"])) == [{"op": "add", "path": "/a", "value": 1}]
    assert [len(text) <= 256 for text in answer["warnings"]] == [True, True]
    refused = json.loads(write_review("u1", AdmissionResponse(refusal="no")))["response"]
    assert refused["allowed"] is False and refused["status"]["message"] == "no"


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[1]", b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}', b"[" * 100_000]
)
def test_what_is_no_review_is_an_error_of_the_asker(body: bytes) -> None:
    with pytest.raises(BadReview):
        read_review(body)
