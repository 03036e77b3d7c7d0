"""`muster.ask`: whether a job runs now, and the smallest changes that let it run."""

from __future__ import annotations

from typing import Any

import pytest
from yaml import safe_load as load

from builders.files import PREEMPTING, manifests, replica_set
from builders.manifests import Manifest, group, manifest, node, pod, priority_class, queue
from muster import Answer, InputError, ask
from muster.model.kinds import plain

CAPACITY = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: capacity}, {name: nodeorder}]
"""


def gang(size: int, queue: str = "", *, minimum: int | None = None, cpu: object = 1, **spec: Any) -> list[Manifest]:
    members = [pod(f"g-{i}", "g", cpu=cpu, **spec) for i in range(size)]
    return [group("g", queue, minMember=size if minimum is None else minimum), *members]


def asked(job: list[Manifest], *cluster: Manifest, config: str = "", when: bool = False) -> Answer:
    given = load(config) if config else None
    return ask(manifests(*job), manifests(*cluster), config=given, when=when)


def proposed(answer: Answer) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for proposal in answer.proposals:
        assert proposal.verified and proposal.text
        found.setdefault(proposal.code, []).append(dict(proposal.change))
    return found


def test_a_job_that_fits_runs_now_and_has_no_proposals() -> None:
    answer = asked(gang(2), node())
    assert (answer.first.code, answer.runs_now, answer.proposals) == ("runs-now", True, [])
    assert answer.first.binds == {"default/g-0": "n1", "default/g-1": "n1"}


def test_pods_that_wait_already_come_first() -> None:
    assert asked([pod("new", cpu=3)], node(cpu=4), pod("waits", cpu=2)).first.code != "runs-now"


def test_of_a_strict_gang_the_largest_smaller_gang_is_proposed() -> None:
    answer = asked(gang(8), node(cpu=5))
    (change,) = proposed(answer)["fewer-pods"]
    assert (change["from"], change["to"], change["without"]) == (8, 5, ["default/g-5", "default/g-6", "default/g-7"])
    assert "minMember: 5" in answer.proposals[0].yaml


def test_an_elastic_gang_runs_in_part_and_keeps_its_minimum() -> None:
    answer = asked(gang(8, minimum=4), node(cpu=5))
    assert answer.first.code == "runs-partly" and len(answer.first.binds) == 5
    assert proposed(answer)["fewer-pods"][0]["to"] == 5
    assert "fewer-pods" not in proposed(asked(gang(8, minimum=6), node(cpu=5)))


def test_the_replicas_of_workloads_and_the_tasks_of_volcano_jobs_are_reduced() -> None:
    web = replica_set("web", 6, pod("web"))
    assert proposed(asked([web], node(cpu=4)))["fewer-pods"][0] == {
        "kind": "ReplicaSet", "name": "default/web", "field": "spec.replicas", "from": 6, "to": 4,
    }  # fmt: skip
    template = {"spec": pod("x")["spec"]}
    tasks = [
        {"name": "ps", "replicas": 1, "template": template},
        {"name": "worker", "replicas": 7, "template": template},
    ]
    job = manifest("batch.volcano.sh/v1alpha1", "Job", "train", spec={"minAvailable": 8, "tasks": tasks})
    answer = asked([job], node(cpu=4))
    assert proposed(answer)["fewer-pods"][0] | {"kind": ""} == {
        "kind": "", "name": "default/train", "field": "spec.tasks[worker].replicas", "from": 7, "to": 3,
    }  # fmt: skip
    assert load(answer.proposals[0].yaml)["spec"] == {"minAvailable": 4, "tasks": [{"name": "worker", "replicas": 3}]}


def test_the_replicas_of_a_described_kind_are_reduced() -> None:
    def role(count: int) -> Manifest:
        return {"replicas": count, "template": {"spec": pod("x")["spec"]}}

    spec = {"pytorchReplicaSpecs": {"Master": role(1), "Worker": role(5)}}
    (change,) = proposed(asked([manifest("kubeflow.org/v1", "PyTorchJob", "pt", spec=spec)], node(cpu=4)))["fewer-pods"]
    assert (change["field"], change["to"]) == ("spec.pytorchReplicaSpecs.Worker.replicas", 3)


def test_gated_pods_beside_others_are_not_counted() -> None:
    gated = pod("gated", schedulingGates=[{"name": "a/b"}])
    answer = asked([pod("free"), gated], node())
    assert answer.first.code == "runs-now" and "scheduling gates" in answer.notes[0]
    assert asked([gated], node()).first.code == "never"


def test_every_open_queue_that_takes_it_is_proposed() -> None:
    cluster = [node(), queue("small", capability={"cpu": "1"}), queue("large"), queue("shut", state="Closed")]
    found = proposed(asked(gang(2, "small"), *cluster))
    assert [change["to"] for change in found["other-queue"]] == ["large"]


def test_a_queue_whose_affinity_excludes_the_nodes_is_not_proposed() -> None:
    far = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["far"]}}
    labelled = node(labels={"volcano.sh/nodegroup-name": "near"})
    cluster = [labelled, queue("small", capability={"cpu": "1"}), queue("far", affinity=far), queue("large")]
    assert [change["to"] for change in proposed(asked(gang(2, "small"), *cluster))["other-queue"]] == ["large"]


@pytest.mark.parametrize("config", ["", CAPACITY])
def test_the_smallest_capability_is_found_in_the_field_that_the_user_wrote(config: str) -> None:
    runs = [group("old", "q", phase="Running"), pod("old-0", "old", on="n1", cpu="1500m")]
    answer = asked(gang(3, "q", cpu=2), node(cpu=16), queue("q", capability={"cpu": "4"}), *runs, config=config)
    (change,) = proposed(answer)["more-quota"]
    assert change == {"quota": [{
        "queue": "q", "field": "spec.capability", "resource": "cpu", "from": "4", "to": "7500m", "add": "3500m",
    }]}  # fmt: skip


def test_the_capability_of_a_parent_is_raised_with_that_of_its_child() -> None:
    queues = [queue("root"), queue("dept", parent="root", capability={"cpu": "4"}),
              queue("team", parent="dept", capability={"cpu": "2"})]  # fmt: skip
    config = CAPACITY.replace("{name: capacity}", "{name: capacity, enableHierarchy: true}")
    answer = asked(gang(3, "team", cpu=2), node(cpu=16), *queues, config=config)
    (change,) = proposed(answer)["more-quota"]
    assert [(part["queue"], part["from"], part["to"]) for part in change["quota"]] == [
        ("team", "2", "6"), ("dept", "4", "6"),
    ]  # fmt: skip


def test_a_deserved_share_that_lets_the_queue_reclaim_is_proposed_with_the_victims() -> None:
    config = CAPACITY.replace("allocate,", "allocate, reclaim,").replace(
        "{name: gang}", "{name: gang}, {name: conformance}"
    )
    queues = [queue("mine", deserved={"cpu": "1"}), queue("theirs", deserved={"cpu": "2"})]
    running = [pod(f"w-{i}", on="n1", annotations={"scheduling.volcano.sh/queue-name": "theirs"}) for i in range(8)]
    answer = asked(gang(3, "mine"), node(cpu=8), *queues, *running, config=config)
    (proposal,) = (one for one in answer.proposals if one.code == "more-quota")
    (part,) = proposal.change["quota"]
    assert (part["field"], part["resource"], part["to"]) == ("spec.deserved", "cpu", "3")
    assert len(proposal.evictions) == 3 and "would be evicted" in proposal.text


def test_the_weight_is_raised_where_shares_are_by_weight() -> None:
    rival = [group("r", "b", minMember=1), pod("r-0", "r", cpu=12, nodeSelector={"no": "where"})]
    answer = asked(gang(3, "a", cpu=4), node(cpu=16), queue("a"), queue("b"), *rival)
    (change,) = proposed(answer)["more-quota"]
    (part,) = change["quota"]
    assert (part["field"], part["from"], part["to"]) == ("spec.weight", "1", "3")


def full() -> list[Manifest]:
    classes = [priority_class("high", 1000), priority_class("low", 1)]
    running = [pod(f"low-{i}", on="n1", priorityClassName="low") for i in (1, 2)]
    return [node("n1", cpu=2), *classes, *running]


def test_evictions_of_the_configuration_are_the_answer_with_their_victims() -> None:
    answer = asked(gang(1, priorityClassName="high"), *full(), config=PREEMPTING)
    assert answer.first.code == "runs-after-evictions" and answer.proposals == []
    assert [(e.pod, e.by, e.rule) for e in answer.first.evictions] == [("default/low-2", "default/g-0", "preempt")]


def test_without_the_action_it_is_proposed_with_the_victims() -> None:
    config = PREEMPTING.replace(", preempt", "")
    answer = asked(gang(1, priorityClassName="high"), *full(), config=config)
    assert answer.first.code == "waits"
    (change,) = proposed(answer)["evictions"]
    assert change["actions"] == ["enqueue", "allocate", "preempt", "backfill"]
    (proposal,) = (one for one in answer.proposals if one.code == "evictions")
    assert len(proposal.evictions) == 1 and "default/low-" in proposal.text


def test_capacity_of_terminating_pods_is_waited_for() -> None:
    gone = pod("gone", on="n1", cpu=8, meta={"deletionTimestamp": "2026-01-01T00:00:30Z"})
    assert asked(gang(1), node(), gone).first.code == "runs-after-releases"


def test_the_smallest_number_of_nodes_of_the_cheapest_kind_is_proposed() -> None:
    devices = node("big", cpu=16, resources={"nvidia.com/gpu": 8})
    answer = asked(gang(6, cpu=2), node("small", cpu=4), devices, pod("fills", on="big", cpu=16))
    assert [(c["like"], c["nodes"]) for c in proposed(answer)["more-nodes"]] == [("small", 2), ("big", 1)]


def test_new_nodes_are_like_one_that_the_pods_select() -> None:
    nodes = [node("a", cpu=1), node("b", cpu=2, labels={"disk": "ssd"})]
    answer = asked(gang(3, cpu=2, nodeSelector={"disk": "ssd"}), *nodes)
    assert [(c["like"], c["nodes"]) for c in proposed(answer)["more-nodes"]] == [("b", 2)]


def test_quota_and_nodes_are_proposed_together_where_one_is_not_enough() -> None:
    answer = asked(gang(4, "q", cpu=4, nodeSelector={"a": "b"}), node(cpu=4, labels={"a": "b"}),
                   queue("q", capability={"cpu": "2"}))  # fmt: skip
    found = proposed(answer)
    (change,) = found["more-quota-and-nodes"]
    assert change["nodes"] == 3 and change["quota"][0]["to"] == "16"


def test_what_no_change_lets_run_is_said_to_run_never() -> None:
    answer = asked(gang(1, nodeSelector={"no": "where"}), node())
    assert (answer.first.code, answer.proposals) == ("never", [])
    assert "No change" in answer.first.text


def test_a_known_duration_gives_the_expected_start() -> None:
    started = "2026-01-01T00:00:00Z"

    def running(name: str, cpu: int, notes: dict[str, str] | None = None, **spec: Any) -> Manifest:
        made = pod(name, on="n1", cpu=cpu, annotations=notes, meta={"creationTimestamp": started}, **spec)
        return {**made, "status": {"phase": "Running", "startTime": started}}

    known = running("known", 4, {"muster.io/run-seconds": "600"})
    bounded = running("bounded", 4, activeDeadlineSeconds=900)
    start = asked([pod("p", cpu=4)], node(cpu=8), known, bounded, when=True).start
    assert start is not None and start.after == 599 and start.unknown == 0
    late = asked([pod("p", cpu=8)], node(cpu=8), known, bounded, when=True).start
    assert late is not None and late.after == 899 and "at the latest" in late.text
    endless = asked([pod("p", cpu=8)], node(cpu=8), known, running("endless", 4), when=True).start
    assert endless is not None and endless.at is None and endless.unknown == 1


def test_the_input_is_not_changed() -> None:
    job, cluster = manifests(*gang(3, "q")), manifests(node(cpu=2), queue("q", capability={"cpu": "1"}), queue("r"))
    before = [plain(one) for one in (*job, *cluster)]
    assert ask(job, cluster).proposals
    assert [plain(one) for one in (*job, *cluster)] == before


def test_a_job_without_pods_is_bad_input() -> None:
    with pytest.raises(InputError, match="no pods"):
        asked([group("g")], node())
    with pytest.raises(InputError, match="schedulerName"):
        asked([pod("p", schedulerName="other")], node())


def test_the_json_has_stable_keys() -> None:
    answer = asked(gang(3), node(cpu=2), when=True).to_dict()
    assert list(answer) == ["answer", "proposals", "notes", "warnings", "start", "configuration"]
    proposals = answer["proposals"]
    assert isinstance(proposals, list)
    assert list(proposals[0]) == ["code", "text", "change", "yaml", "evictions", "verified"]


def test_the_minimum_in_an_annotation_follows_the_number_of_pods_of_a_strict_gang() -> None:
    web = replica_set("web", 6, pod("web"))
    web["metadata"]["annotations"] = {"scheduling.volcano.sh/group-min-member": "6"}
    answer = asked([web], node(cpu=4))
    assert proposed(answer)["fewer-pods"][0]["to"] == 4
    assert 'group-min-member: "4"' in answer.proposals[0].yaml
    web["metadata"]["annotations"] = {"scheduling.volcano.sh/group-min-member": "5"}
    assert "fewer-pods" not in proposed(asked([web], node(cpu=4)))
