"""`muster ask` as it is called."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result
from yaml import safe_load_all

from builders.files import text
from builders.manifests import Manifest, node, pod, queue
from muster import simulate
from muster.cli import main

SHORT = [node(cpu=4), queue("small", capability={"cpu": "1"}), queue("large")]


def job(count: int) -> Manifest:
    template = {"spec": pod("x")["spec"]}
    tasks = [{"name": "worker", "replicas": count, "template": template}]
    spec = {"queue": "small", "minAvailable": count, "tasks": tasks}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}


def call(folder: Path, new: Manifest, *options: str) -> Result:
    (folder / "job.yaml").write_text(text(new))
    (folder / "cluster.yaml").write_text(text(*SHORT))
    arguments = ["ask", "-f", str(folder / "job.yaml"), "--cluster", str(folder / "cluster.yaml"), *options]
    return CliRunner().invoke(main, arguments)


def test_the_answer_and_the_changes_are_printed_as_sentences_and_yaml(tmp_path: Path) -> None:
    lines = call(tmp_path, job(2)).stdout.splitlines()
    assert lines[1].startswith("No, it waits. default/train-worker-0: ")
    assert "2. Use queue large instead of small." in lines and "       queue: large" in lines
    assert call(tmp_path, job(1)).stdout.splitlines()[1:] == ["Yes, 1 pod can run now.", "Nodes: n1."]


def test_first_searches_for_no_changes(tmp_path: Path) -> None:
    answer = json.loads(call(tmp_path, job(2), "--first", "-o", "json").stdout)
    assert (answer["answer"]["code"], answer["proposals"]) == ("waits", [])


def test_a_simulation_with_each_proposed_document_binds_the_job(tmp_path: Path) -> None:
    answer = json.loads(call(tmp_path, job(2), "-o", "json").stdout)
    assert {one["code"] for one in answer["proposals"]} == {"fewer-pods", "other-queue", "more-quota"}
    for proposal in answer["proposals"]:
        objects = {(one["kind"], one["metadata"]["name"]): one for one in [*SHORT, job(2)]}
        for patch in safe_load_all(proposal["yaml"]):
            changed = objects[patch["kind"], patch["metadata"]["name"]]
            spec = {**changed["spec"], **patch["spec"]}
            if "tasks" in patch["spec"]:
                spec["tasks"] = [{**changed["spec"]["tasks"][0], **patch["spec"]["tasks"][0]}]
            objects[patch["kind"], patch["metadata"]["name"]] = {**changed, "spec": spec}
        result = simulate(list(objects.values()))
        assert result.binds and not result.pending, proposal


def test_a_file_without_pods_is_bad_input(tmp_path: Path) -> None:
    result = call(tmp_path, queue("other"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the job has no pods" in result.stderr
