"""Bad and odd input of commands: a clear message with its place, or a right answer; never a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from builders.files import PREEMPTING, full_cluster, replica_set, text, write
from builders.manifests import Manifest, group, manifest, node, pod, queue
from muster.cli import main

SHARING = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
  - name: overcommit
  - name: predicates
  - name: {}
"""


def call(*arguments: str) -> Result:
    result = CliRunner().invoke(main, list(arguments))
    assert "Traceback" not in result.stderr
    assert "unexpected" not in result.stderr
    return result


def answer(tmp_path: Path, documents: list[Manifest], configuration: str = "", *more: str) -> Any:
    result = call("simulate", *write(tmp_path, documents, configuration), "-o", "json", *more)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(tmp_path: Path, *documents: Manifest) -> str:
    result = call("simulate", *write(tmp_path, documents), "-o", "json")
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr


# --- objects


def test_an_unknown_field_of_a_custom_resource_ends_the_run_unless_it_goes_on(tmp_path: Path) -> None:
    documents = [node("n1", cpu=4), group("g", minMember=1, minMembre=3), pod("p", group="g")]
    assert "PodGroup default/g: spec.minMembre: no such field" in refused(tmp_path, *documents)
    assert answer(tmp_path, documents, "", "--keep-going")["binds"] == {"default/p": "n1"}
    assert call("validate", *write(tmp_path, documents)).exit_code == 1


def test_an_unknown_field_of_a_core_kind_does_the_same(tmp_path: Path) -> None:
    documents = [node("n1", cpu=4), pod("p", nodeselector={"disk": "ssd"})]
    assert "spec.nodeselector: Kubernetes has no such field, it is not read (did you mean nodeSelector?)" in refused(
        tmp_path, *documents
    )
    assert answer(tmp_path, documents, "", "--keep-going")["binds"] == {"default/p": "n1"}
    assert call("validate", *write(tmp_path, documents)).exit_code == 1


@pytest.mark.parametrize("content", ["", "# nothing\n", "actions: allocate\n", text(manifest("v1", "Service", "web"))])
@pytest.mark.parametrize(
    "command",
    [("validate",), ("simulate",), ("explain", "d/p"), ("extender", "--port", "0"), ("controllers", "plan")],
    ids=lambda command: command[0],
)
def test_input_without_a_usable_object_is_bad_input(tmp_path: Path, command: tuple[str, ...], content: str) -> None:
    file = tmp_path / "nothing.yaml"
    file.write_text(content)
    cluster = write(tmp_path, [node("n1", cpu=4)])[1]
    more = ["--cluster", cluster] if command[0] == "controllers" else []
    result = call(*command, "-f", str(file), *more)
    assert result.exit_code == 2
    assert f"there is no usable object in {file}" in result.stderr


def test_a_configuration_alone_can_be_validated(tmp_path: Path) -> None:
    assert call("validate", *write(tmp_path, [], PREEMPTING)[2:]).exit_code == 0


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
def test_absurd_replicas_are_refused_at_once(tmp_path: Path, kind: str) -> None:
    workload = {**replica_set("d", 10**9, pod("x")), "kind": kind}
    message = refused(tmp_path, node("n1", cpu=4), workload)
    assert f"{kind} default/d: spec.replicas: with 1,000,000,000 pods more there are over 200,000" in message


def test_the_pods_of_all_workloads_are_counted_together(tmp_path: Path) -> None:
    many = [replica_set(name, 150_000, pod("x")) for name in "ab"]
    assert "ReplicaSet default/b: spec.replicas: with 150,000 pods more" in refused(tmp_path, *many)


def test_a_job_makes_no_more_pods_than_it_needs(tmp_path: Path) -> None:
    template = {"spec": pod("x")["spec"]}
    few = manifest("batch/v1", "Job", "few", spec={"parallelism": 10**9, "completions": 2, "template": template})
    assert len(answer(tmp_path, [node("n1", cpu=4), few])["binds"]) == 2
    many = manifest("batch/v1", "Job", "many", spec={"parallelism": 10**9, "completions": 10**9, "template": template})
    assert "Job default/many: spec.parallelism" in refused(tmp_path, many)


def test_a_request_that_no_sum_could_hold_is_refused(tmp_path: Path) -> None:
    huge = pod("p")
    huge["spec"]["containers"][0]["resources"]["requests"] = {"memory": "64Pi"}
    assert "requests more memory in all than any node could have" in refused(tmp_path, huge)


@pytest.mark.parametrize("plugin", ["proportion", "capacity", "drf"])
def test_sums_over_huge_nodes_are_exact(tmp_path: Path, plugin: str) -> None:
    nodes = [node(f"n{i:02}", cpu=4, memory="1Ei") for i in range(40)]
    pods = [pod(f"p{i:02}") for i in range(40)]
    for one in pods:
        one["spec"]["containers"][0]["resources"]["requests"] = {"memory": "32Pi"}
    assert len(answer(tmp_path, [*nodes, *pods], SHARING.format(plugin))["binds"]) == 40


@pytest.mark.parametrize("number", ["--5", "²", "9" * 5000, "1e3", ""])
def test_numbers_in_annotations_that_are_none_are_passed_over(tmp_path: Path, number: str) -> None:
    keys = ("volcano.sh/task-priority", "scheduling.volcano.sh/group-min-member")
    odd = pod(f"a-b-{number or 1}", annotations=dict.fromkeys(keys, number))
    host = node("n1", cpu=4)
    host["metadata"]["annotations"] = {"volcano.sh/oversubscription-cpu": number}
    assert list(answer(tmp_path, [host, odd])["binds"].values()) == ["n1"]


def test_a_queue_tree_may_be_as_deep_as_it_likes(tmp_path: Path) -> None:
    queues = [queue(f"q{i}", parent=f"q{i - 1}" if i else "root") for i in range(1200)]
    gang = group("g", minMember=1, queue="q1199")
    capacity = SHARING.format("capacity\n    enableHierarchy: true")
    assert answer(tmp_path, [node("n1", cpu=4), *queues, gang, pod("p", group="g")], capacity)["binds"]


def test_a_path_of_shares_may_be_as_deep_as_it_likes(tmp_path: Path) -> None:
    deep = queue("q")
    deep["metadata"]["annotations"] = {"volcano.sh/hierarchy": "root" + "/a" * 3000}
    gang = group("g", minMember=1, queue="q")
    drf = SHARING.format("drf\n    enableHierarchy: true")
    assert answer(tmp_path, [node("n1", cpu=4), deep, gang, pod("p", group="g")], drf)["binds"]


def test_deeply_nested_json_in_an_annotation_is_only_malformed(tmp_path: Path) -> None:
    odd = queue("q")
    odd["metadata"]["annotations"] = {"volcano.sh/nodegroup-resource-limits": "[" * 100_000}
    gang = group("g", minMember=1, queue="q")
    got = answer(tmp_path, [node("n1", cpu=4), odd, gang, pod("p", group="g")], SHARING.format("nodegroup"))
    assert "which is not a JSON object" in got["pending"]["default/p"]
    assert len(got["pending"]["default/p"]) < 500


# --- files


def test_a_tab_is_reported_as_a_tab(tmp_path: Path) -> None:
    (tmp_path / "tab.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata:\n\tname: n1\n")
    result = call("simulate", "-f", str(tmp_path / "tab.yaml"))
    assert result.exit_code == 2
    assert "tab.yaml:4: error:" in result.stderr and "indented with a tab, use spaces" in result.stderr


# --- the gang's line


def test_no_more_pods_are_short_than_there_are(tmp_path: Path) -> None:
    message = answer(tmp_path, [node("n1", cpu=4), group("g", minMember=3), pod("p", group="g")])["pending"][
        "default/p"
    ]
    assert "valid: 1, min: 3. 1/1 tasks in gang unschedulable" in message


def test_a_pod_that_was_promised_capacity_is_not_called_unschedulable(tmp_path: Path) -> None:
    got = answer(tmp_path, full_cluster(), PREEMPTING, "--cycles", "1")
    assert got["pipelined"] == {"default/boss": "n1"}
    assert got["pending"]["default/boss"] == "waits for capacity that is being released on node n1."


def test_a_group_in_memory_has_a_name_without_a_slash(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=1), replica_set("web", 1, pod("x", cpu="2"))])
    name = next(iter(json.loads(call("simulate", *options, "-o", "json").stdout)["pending"]))
    assert json.loads(call("explain", name, *options, "-o", "json").stdout)["group"] == "default/podgroup-default-web"


# --- the command line


@pytest.mark.parametrize("moment", ["inf", "nan", "1e300", "-1e300", "soon", "2026-13-01"])
def test_a_time_that_is_none_is_refused(tmp_path: Path, moment: str) -> None:
    result = call("simulate", *write(tmp_path, [node("n1", cpu=4)]), "--now", moment)
    assert result.exit_code == 2
    assert "is not a time" in result.stderr


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:50Z", "0001-01-01T00:00:00+14:00"])
def test_the_ends_of_time_are_times(tmp_path: Path, moment: str) -> None:
    assert answer(tmp_path, full_cluster(), PREEMPTING, "--now", moment)["binds"] == {"default/boss": "n1"}


def test_more_cycles_than_anybody_waits_for_end_as_if_none_were_given(tmp_path: Path) -> None:
    again = replica_set("again", 1, pod("x", annotations={"muster.io/run-seconds": "5"}))
    options = write(tmp_path, [node("n1", cpu=4), again])
    endless = call("simulate", *options, "--cycles", "1000000000000", "-o", "json")
    assert "never settles" in endless.stderr
    assert json.loads(call("simulate", *options, "--cycles", "40", "-o", "json").stdout)["cycles"] == 40


def test_a_stdout_without_unicode_still_gets_its_answer(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4), pod("p\N{SNOWMAN}")])
    plain = CliRunner(charset="ascii")
    table = plain.invoke(main, ["simulate", *options])
    assert table.exit_code == 0
    assert "default/p?" in table.stdout
    assert json.loads(plain.invoke(main, ["simulate", *options, "-o", "json"]).stdout)["binds"] == {
        "default/p\N{SNOWMAN}": "n1"
    }
    page = plain.invoke(main, ["simulate", *options, "-o", "html"])
    assert "default/p\N{SNOWMAN}".encode() in page.stdout_bytes


def test_documents_in_one_stream_come_from_stdin() -> None:
    result = CliRunner().invoke(main, ["simulate", "-f", "-", "-o", "json"], input=text(node("n1", cpu=4), pod("p")))
    assert json.loads(result.stdout)["binds"] == {"default/p": "n1"}


@pytest.mark.parametrize("command", ["simulate", "validate", "queues", "explain"])
def test_control_characters_of_the_input_do_not_reach_the_terminal(tmp_path: Path, command: str) -> None:
    hostile = "x\x1b[31m\x9b2J\u202e"
    noted = pod("p", annotations={"scheduling.k8s.io/group-name": hostile})
    options = write(tmp_path, [node("n1", cpu=4), noted, {"apiVersion": "v1", "kind": f"Q{hostile}"}])
    done = call(command, *["default/p"] * (command == "explain"), *options)
    shown = done.stdout + done.stderr
    assert "[U+001B][31m[U+009B]2J[U+202E]" in shown
    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)
