"""What could never schedule, and why."""

from __future__ import annotations

from typing import Any

import pytest

from builders.files import manifests, replica_set, scheduler
from builders.manifests import group, node, pod, priority_class, queue
from muster.config import DEFAULT
from muster.model.finding import Finding
from muster.sim.validate import validate_cluster

Documents = list[dict[str, Any]]


def findings(*documents: dict[str, Any], configuration: str = DEFAULT) -> list[Finding]:
    return validate_cluster(scheduler(configuration), manifests(*documents), ("muster", "volcano"))


def only(*documents: dict[str, Any]) -> Finding:
    found = findings(*documents)
    assert len(found) == 1, [str(finding) for finding in found]
    return found[0]


def test_a_sound_cluster_has_no_findings() -> None:
    gang = group("g", minMember=2, queue="q")
    pods = [pod(f"p{i}", group="g") for i in range(2)]
    assert findings(node("n1", cpu=4), queue("q"), queue("default"), gang, *pods, pod("single")) == []


def test_a_pod_on_a_node_that_is_not_there_is_reported() -> None:
    finding = only(node("n1", cpu=4), pod("p", on="n2"))
    assert (finding.severity, finding.code) == ("warning", "no-node")


def test_a_pod_that_runs_does_not_wait_for_its_queue() -> None:
    assert findings(node("n1", cpu=4), queue("q"), pod("p", on="n1")) == []


def test_of_many_names_only_some_are_listed() -> None:
    gang = group("g", minMember=1, queue="none")
    fix = only(node("n1", cpu=4), *(queue(f"x{i:03}") for i in range(100)), gang, pod("p", group="g")).fix
    assert fix.endswith("x038 and 61 more")


@pytest.mark.parametrize(
    ("documents", "code", "message"),
    [
        ([pod("p", cpu="5")], "too-large", "requests 5 of cpu, but no node has more than 4"),
        ([pod("p", nodeSelector={"disk": "ssd"})], "node-affinity", "no node could ever take it"),
        ([pod("p", group="g")], "no-group", "pod group default/g does not exist"),
        ([pod("p", annotations={"scheduling.volcano.sh/queue-name": "x"})], "no-queue", "queue x does not exist"),
        ([group("g", minMember=1, queue="x"), pod("p", group="g")], "no-queue", "queue x does not exist"),
        (
            [queue("default", capability={"cpu": "1"}), group("g", minMember=1, minResources={"cpu": "2"}),
             pod("p", group="g")],
            "over-capability", "more than the capability 1 of queue default",
        ),
        (
            [group("g", minMember=2), *(pod(f"p{i}", group="g", cpu="3") for i in range(2))],
            "over-cluster", "request 6 of cpu in all, more than all nodes have together (4)",
        ),
        ([queue("default"), queue("a", parent="b")], "queue-parent", "there is no such queue"),
        ([queue("default"), queue("a", parent="a")], "queue-cycle", "a → a"),
    ],
)  # fmt: skip
def test_what_could_never_be_is_an_error(documents: Documents, code: str, message: str) -> None:
    finding = only(node("n1", cpu=4), *documents)
    assert (finding.severity, finding.code) == ("error", code)
    assert message in finding.message
    assert finding.file == "cluster.yaml" and finding.line


@pytest.mark.parametrize(
    ("documents", "code", "message"),
    [
        ([group("g", minMember=3), pod("p", group="g")], "too-few-pods", "minMember is 3, but it has 1 pods"),
        (
            [group("g", minMember=1, minTaskMember={"worker": 1}), pod("p", group="g")],
            "too-few-pods", "minTaskMember of worker is 1, but 0",
        ),
        ([queue("default", state="Closed"), group("g", minMember=1), pod("p", group="g")],
         "queue-closed", "is Closed, not Open"),
        ([queue("default", capability={"cpu": "1"}, deserved={"cpu": "2"})], "queue-deserved", "more than its capab"),
        ([queue("default", guarantee={"resource": {"cpu": "9"}})], "queue-guarantees", "guaranteed 9 cpu in all"),
        ([priority_class("high", 1), pod("p", priorityClassName="hihg")], "priority-class", "no such PriorityClass"),
        ([group("g", minMember=1, priorityClassName="x"), pod("p", group="g")], "priority-class", "is x"),
        ([pod("p", on="n1", group="gone")], "no-group", "does not exist"),
    ],
)  # fmt: skip
def test_what_may_yet_be_is_a_warning(documents: Documents, code: str, message: str) -> None:
    finding = only(node("n1", cpu=4), *documents)
    assert (finding.severity, finding.code) == ("warning", code)
    assert message in finding.message


def test_a_cycle_is_reported_for_each_of_its_queues_and_not_below() -> None:
    tree = [queue("a", parent="b"), queue("b", parent="a"), queue("leaf", parent="a"), queue("default")]
    found = findings(node("n1", cpu=4), *tree)
    assert [(f.object, f.code) for f in found] == [("Queue a", "queue-cycle"), ("Queue b", "queue-cycle")]


def test_nearest_names_are_offered() -> None:
    missing = only(node("n1", cpu=4), group("workers", minMember=0), pod("p", group="worker"))
    assert missing.fix == "did you mean workers?"
    gpu = only(node("n1", cpu=4, resources={"nvidia.com/gpu": "8"}), {**pod("p"), "spec": gpus("nvidia.com/gpus")})
    assert (gpu.code, gpu.fix) == ("too-large", "did you mean nvidia.com/gpu?")
    label = only(node("n1", cpu=4, labels={"disk": "ssd"}), pod("p", nodeSelector={"disk": "sdd"}))
    assert label.fix == "no node has disk=sdd: did you mean ssd?"


def gpus(name: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "resources": {"requests": {name: "1"}}}]}


def test_pods_of_one_template_are_reported_once_at_the_line_of_their_workload() -> None:
    finding = only(node("n1", cpu=4), replica_set("web", 3, pod("x", cpu="9")))
    assert "and 2 more like it" in finding.message
    assert (finding.file, finding.line) == ("cluster.yaml", 4)


def test_pods_of_other_schedulers_are_noticed_once() -> None:
    others = [pod(f"p{i}", schedulerName="other") for i in range(3)]
    finding = only(node("n1", cpu=4), *others)
    assert (finding.severity, finding.code) == ("notice", "other-scheduler")


def test_without_nodes_that_is_all_there_is_to_say() -> None:
    assert only(pod("p", cpu="100")).code == "no-nodes"


def test_findings_of_plugins_name_the_line_of_the_object() -> None:
    text = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: predicates\n  - name: nodegroup\n'
    affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["gone"]}}
    found = findings(node("n1", cpu=4), queue("q", affinity=affinity), configuration=text)
    assert {f.code for f in found} >= {"nodegroup-unknown", "nodegroup-no-node"}
    assert {(f.file, f.line) for f in found} == {("cluster.yaml", 4)}
