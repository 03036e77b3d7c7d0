"""One pod's chances on every node."""

from __future__ import annotations

import pytest

from builders.files import PREEMPTING, full_cluster, manifests, scheduler
from builders.manifests import group, node, pod, queue
from muster.model.finding import InputError
from muster.sim.explain import Explanation, explain

ONE_GROUP = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: nodegroup
"""


def about(
    name: str, *documents: dict[str, object], configuration: str = PREEMPTING, sets: bool = False,
    cycle: int | None = None, before: bool = False, namespace: str | None = None,
) -> Explanation:  # fmt: skip
    found = manifests(*documents)
    return explain(
        scheduler(configuration), found.objects, found.latest, ("muster",), name,
        sets=sets, cycle=cycle, before=before, namespace=namespace,
    )  # fmt: skip


def test_every_node_has_a_reason_or_a_score() -> None:
    answer = about("default/p", node("n1", cpu=1), node("n2", cpu=4), pod("p", cpu="2", nodeSelector={"disk": "ssd"}))
    assert answer.nodes.keys() == {"n1", "n2"}
    plugins = [plugin for plugin, _, _ in answer.nodes["n1"].reasons]
    assert plugins == ["predicates", "resources"]
    assert "needs 2, 1 free of 1" in answer.nodes["n1"].reasons[1][2]


def test_infeasible_nodes_are_scored_and_every_scorer_has_its_key() -> None:
    answer = about("p", node("n1", cpu=1), node("n2", cpu=4), pod("p", cpu="2"))
    reported = answer.to_dict()["nodes"]
    assert isinstance(reported, dict)
    assert reported["n1"]["feasible"] is False
    assert reported["n1"]["scores"].keys() == {"nodeorder"}
    assert reported["n2"]["total"] == pytest.approx(sum(reported["n2"]["terms"]["nodeorder"].values()))


def test_the_decision_of_the_next_cycle_is_reported() -> None:
    assert about("p", node("n1", cpu=4), pod("p")).decision.node == "n1"
    waiting = about("boss", *full_cluster(), before=True).decision
    assert (waiting.node, waiting.pipelined) == (None, "n1")
    assert waiting.reason


def test_asking_changes_nothing() -> None:
    documents = [node("n1", cpu=4), node("n2", cpu=4), pod("p")]
    assert about("p", *documents).to_dict() == about("p", *documents).to_dict()


def test_node_sets_are_tried_one_by_one() -> None:
    label = "volcano.sh/nodegroup-name"
    sizes = {"large": 4, "small": 1}
    nodes = [node(f"{gang}{i}", cpu=cpu, labels={label: gang}) for gang, cpu in sizes.items() for i in (1, 2)]
    gang = group("g", minMember=2, queue="q")
    gang["metadata"]["annotations"] = {"muster.io/one-node-group": "true"}
    pods = [pod(f"p{i}", group="g", cpu="2") for i in (1, 2)]
    answer = about("p1", *nodes, queue("q"), gang, *pods, configuration=ONE_GROUP, sets=True)
    assert answer.sets is not None
    by_label = {tried.label: tried for tried in answer.sets}
    assert by_label["node group large"].holds
    assert (by_label["node group small"].placed, by_label["node group small"].holds) == (0, False)
    assert "0/2 nodes are available: 2 Insufficient cpu" in by_label["node group small"].reason
    assert "sets" in answer.to_dict()


def test_without_a_plugin_that_divides_there_are_no_sets() -> None:
    assert about("p", node("n1", cpu=4), pod("p"), sets=True).sets is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("default/bos", "did you mean default/boss"),
        ("default/low-1", "has its node already: n1"),
        ("elsewhere/zzz", "there is no pod elsewhere/zzz"),
        ("theirs", "--scheduler-name theirs"),
        ("done", "succeeded"),
    ],
)
def test_a_pod_without_a_next_cycle_is_refused(name: str, why: str) -> None:
    done = {**pod("done"), "status": {"phase": "Succeeded"}}
    with pytest.raises(InputError, match=why):
        about(name, *full_cluster(), pod("theirs", schedulerName="theirs"), done)


def test_the_warnings_of_the_cycle_are_part_of_the_answer() -> None:
    rack = {"kai.scheduler/topology-required-placement": "rack"}
    gang = group("g", minMember=1, queue="default")
    gang["metadata"]["annotations"] = rack  # type: ignore[index]
    reported = about(
        "p", node("n1", cpu=4), queue("default"), gang, pod("p", group="g"),
        configuration=ONE_GROUP.replace("nodegroup", "topology"),
    ).to_dict()["warnings"]  # fmt: skip
    assert isinstance(reported, list)
    assert len(reported) == 1 and "the annotation kai.scheduler/topology is missing" in reported[0]
