"""The simulator is the scheduler's own code: on a snapshot of the cluster it decides what the scheduler decides."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from builders.manifests import group, queue
from live.api import Api, place, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, create_all, muster_pod, placed
from muster.cli import main

pytestmark = pytest.mark.usefixtures("crds", "namespaces_deleted")

CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""


def asked(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(main, [*arguments, "-o", "json"])
    assert result.exit_code == 0, result.output
    answer: dict[str, object] = json.loads(result.stdout)
    return answer


@pytest.fixture
def crowd(api: Api, namespace: str, make_nodes: MakeNodes) -> Iterator[list[str]]:
    """Five queues, gangs of all sizes and pods of their own: more than the nodes can take. The pods' names."""
    dice = random.Random(4)
    for _ in range(12):
        make_nodes(1, resources={"cpu": str(dice.choice((4, 8, 16))), "memory": "64Gi"})
    queues = [api.create(queue(f"{namespace}-q{i}", weight=i + 1)) for i in range(5)]
    objects, names = [], []
    for i in range(40):
        size = dice.choice((1, 2, 3, 5, 8, 12))
        minimum, queue_name = dice.randint(1, size), f"{namespace}-q{dice.randrange(5)}"
        objects.append(group(f"g{i}", queue_name, namespace=namespace, minMember=minimum))
        cpu = dice.choice(("250m", "500m", "1", "2"))
        names += [f"g{i}-{j}" for j in range(size)]
        objects += [muster_pod(namespace, f"g{i}-{j}", f"g{i}", cpu) for j in range(size)]
    for i in range(40):
        names.append(f"alone-{i}")
        objects.append(muster_pod(namespace, f"alone-{i}", cpu=dice.choice(("100m", "1"))))
    create_all(api, objects)
    yield names
    for one in queues:
        api.delete(place(one))


def test_live_and_simulated_decisions_are_the_same(
    crowd: list[str], api: Api, namespace: str, control_plane: ControlPlane, scheduler_kubeconfig: Path, tmp_path: Path
) -> None:
    assert len(crowd) >= 200
    config, file = tmp_path / "scheduler.yaml", tmp_path / "snapshot.ndjson.gz"
    config.write_text(CONFIG, encoding="utf-8")
    asked("snapshot", str(file), "--kubeconfig", str(control_plane.kubeconfig))
    reported = asked("simulate", "-c", str(config), "-f", str(file), "--cycles", "1", "--scheduler-name", "muster")
    simulated = reported["binds"]
    assert isinstance(simulated, dict) and 50 < len(simulated) < len(crowd)
    with Scheduler(scheduler_kubeconfig, config=CONFIG) as muster:
        until("its first cycles", lambda: sum(e["msg"] == "cycle" for e in muster.log()) >= 2)
        decided: dict[str, str] = {}
        for entry in muster.log():
            if entry["msg"] == "cycle" and entry["number"] == 2:
                break
            if entry["msg"] == "bind":
                decided[entry["pod"]] = entry["node"]
        assert decided == simulated
        until("all that was decided", lambda: len(placed(api, namespace)) >= len(decided))
        there = placed(api, namespace)
        assert all(there[key.partition("/")[2]] == node for key, node in decided.items())
    waiting = sorted(set(crowd) - placed(api, namespace).keys())
    explained = asked(
        "explain", f"{namespace}/{waiting[0]}", "--live", "--kubeconfig", str(control_plane.kubeconfig),
        "-c", str(config), "--scheduler-name", "muster",
    )  # fmt: skip
    assert isinstance(explained["decision"], dict) and explained["decision"]["reason"]
    assert isinstance(explained["nodes"], dict) and len(explained["nodes"]) == 12
