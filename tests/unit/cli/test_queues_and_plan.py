"""`muster queues` and `muster plan` as they are called."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from builders.files import text
from builders.manifests import Manifest, group, node, pod, queue
from muster.cli import main


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def file(folder: Path, name: str, *documents: Manifest) -> str:
    path = folder / name
    path.write_text(text(*documents))
    return str(path)


def cluster(folder: Path) -> str:
    waiting = pod("web", namespace="team", labels={"app": "web"}, nodeSelector={"zone": "x"})
    return file(folder, "cluster.yaml", node(cpu=8), queue("a", capability={"cpu": "2"}), waiting,
                group("g", "a"), pod("g-0", "g", cpu=3))  # fmt: skip


def test_queues_prints_a_row_for_each_job_and_the_shares(tmp_path: Path) -> None:
    lines = call("queues", "-f", cluster(tmp_path)).stdout.splitlines()
    assert lines[-1] == "2 jobs with 2 pods waiting"
    assert any(line.split()[:2] == ["1", "a"] and "default/g" in line for line in lines)


def test_queues_selects_by_namespace_label_and_queue(tmp_path: Path) -> None:
    path = cluster(tmp_path)

    def groups(*options: str) -> list[str]:
        return [job["group"] for job in json.loads(call("queues", "-f", path, "-o", "json", *options).stdout)["jobs"]]

    assert groups() == groups("-n", "team", "-A") == ["default/g", "team/web"]
    assert groups("-n", "team") == groups("-l", "app=web") == groups("--queue", "default") == ["team/web"]
    assert groups("-l", "app!=web") == groups("-l", "!app") == ["default/g"]


def test_a_queue_or_selector_that_cannot_be_used_ends_with_one_line(tmp_path: Path) -> None:
    path = cluster(tmp_path)
    unknown, wrong = call("queues", "-f", path, "--queue", "defalt"), call("queues", "-f", path, "-l", "(")
    assert (unknown.exit_code, wrong.exit_code) == (2, 2)
    assert "did you mean" in unknown.stderr and "no label selector" in wrong.stderr


def test_plan_lists_objects_and_decisions(tmp_path: Path) -> None:
    new = file(tmp_path, "job.yaml", queue("a", capability={"cpu": "4"}), pod("late", cpu=1))
    answer = json.loads(call("plan", "-f", new, "--cluster", cluster(tmp_path), "-o", "json").stdout)
    assert [(o["change"], o["kind"], o["name"]) for o in answer["objects"]] == [
        ("created", "Pod", "default/late"), ("changed", "Queue", "a"),
    ]  # fmt: skip
    assert answer["objects"][1]["fields"] == {"spec": {"capability": {"cpu": "4"}}}
    assert {g["group"]: g["bound"] for g in answer["groups"]} == {
        "default/g": {"default/g-0": "n1"}, "default/late": {"default/late": "n1"},
    }  # fmt: skip
    shown = call("plan", "-f", new, "--cluster", cluster(tmp_path)).stdout
    assert "spec.capability.cpu=4" in shown and shown.endswith("2 pods bound\n")


def test_plan_without_a_difference_says_so(tmp_path: Path) -> None:
    path = cluster(tmp_path)
    assert call("plan", "-f", path, "--cluster", path).stdout.endswith("No pod is affected; 5 objects unchanged\n")
