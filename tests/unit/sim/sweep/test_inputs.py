"""The inputs of a sweep, and the keys of its cells."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from muster.model.finding import InputError
from muster.sim.sweep.cells import cells_of, run_cell
from muster.sim.sweep.grid import read_grid
from muster.sim.sweep.inputs import Inputs, read_inputs

GRID = """\
configurations: [fifo.yaml, {name: default}]
traces:
- {name: part, file: jobs.csv, sample: 0.5}
- {name: mixed, file: jobs.csv, shuffle: arrivals}
- {name: whole, file: jobs.csv}
- {name: made, make: {jobs: 6, hours: 1, pods: {1: 1, 2: 1}}}
seeds: [1, 2]
clusters:
- nodes.yaml
- {name: small, template: {allocatable: {cpu: 16, memory: 128Gi, nvidia.com/gpu: 4}, labels: {a: b}}, counts: [1, 3]}
manifests: [queues.yaml]
options: {until: 2h}
"""
CONFIGURATION = "actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n"
QUEUE = "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}, spec: {weight: 3}}"
NODE = (
    "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 8, memory: 64Gi, pods: 10, "
    "nvidia.com/gpu: 8}}}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "fifo.yaml").write_text(CONFIGURATION)
    (tmp_path / "queues.yaml").write_text(QUEUE)
    (tmp_path / "nodes.yaml").write_text(NODE)
    rows = "".join(f"j{i},{10 * i},60,1,1000,1,q\n" for i in range(10))
    (tmp_path / "jobs.csv").write_text(f"name,submit,duration,pods,cpu_milli,gpus,queue\n{rows}")
    return tmp_path


def read(folder: Path) -> Inputs:
    return read_inputs(read_grid(str(folder / "grid.yaml")))


def keys(folder: Path) -> dict[str, str]:
    grid = read_grid(str(folder / "grid.yaml"))
    return {str(cell): cell.key for cell in cells_of(grid, read_inputs(grid))}


def test_a_seed_chooses_jobs_or_exchanges_their_arrivals(folder: Path) -> None:
    traces = read(folder).traces
    part, again, other = (traces["part"].with_seed(seed) for seed in (1, 1, 2))
    assert len(part) == len(other) == 5 and list(part.names) == list(again.names) != list(other.names)
    assert np.all(np.diff(part.submit) > 0)
    mixed = traces["mixed"].with_seed(1)
    assert mixed.submit.tolist() == [10.0 * i for i in range(10)]
    assert sorted(mixed.names) == sorted(traces["whole"].with_seed(None).names) != list(mixed.names)
    assert traces["made"].with_seed(1).submit.tolist() != traces["made"].with_seed(2).submit.tolist()


def test_a_template_is_copied_and_manifests_are_in_every_cluster(folder: Path) -> None:
    clusters = read(folder).clusters
    assert list(clusters) == ["nodes", "small × 1", "small × 3"]
    nodes = clusters["small × 3"].objects["Node"]
    assert list(nodes) == ["node-00001", "node-00002", "node-00003"]
    assert nodes["node-00002"].metadata.labels == {"a": "b", "kubernetes.io/hostname": "node-00002"}
    assert all("default" in cluster.objects["Queue"] for cluster in clusters.values())
    assert list(clusters["nodes"].objects["Node"]) == ["n1"]


def test_bad_rows_are_left_out_and_reported_unless_the_trace_is_strict(folder: Path) -> None:
    text = (folder / "jobs.csv").read_text()
    (folder / "jobs.csv").write_text(text.replace("j3,30,60", "j3,30,long"))
    found = read(folder)
    assert len(found.traces["whole"].with_seed(None)) == 9
    lines = [str(finding).removeprefix(f"{folder}/") for finding in found.findings]
    assert any(line.startswith("jobs.csv:5: warning: ") for line in lines)
    assert "grid.yaml:5: warning: trace whole: 1 bad rows are left out; 9 jobs are read" in lines
    (folder / "grid.yaml").write_text(GRID.replace("name: whole,", "name: whole, strict: true,"))
    with pytest.raises(InputError, match=r"jobs.csv:5: error"):
        read(folder)


def test_nodes_join_and_leave_by_a_file_of_the_cluster(folder: Path) -> None:
    text = GRID.replace("- nodes.yaml", "- {nodes: nodes.yaml, nodeEvents: events.yaml}")
    (folder / "grid.yaml").write_text(text)
    (folder / "events.yaml").write_text("- {at: 5m, leave: n1}\n")
    before = keys(folder)
    [event] = read(folder).clusters["nodes"].node_events
    assert (event.at, event.node, event.joins) == (300.0, "n1", False)
    (folder / "events.yaml").write_text("- {at: 6m, leave: n1}\n")
    assert {name for name, key in keys(folder).items() if before[name] != key} == {n for n in before if ", nodes" in n}
    (folder / "events.yaml").write_text("- {at: 6m, leave: n2}\n")
    with pytest.raises(InputError, match="there is no node n2"):
        read(folder)


def test_a_trace_starts_at_the_time_of_a_snapshot_with_pods(folder: Path) -> None:
    pod = (
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: x, creationTimestamp: 2026-01-31T08:00:00Z}, "
        "spec: {nodeName: n1, containers: [{name: c}]}, status: {phase: Running}}"
    )
    assert read(folder).clusters["nodes"].now is None
    (folder / "queues.yaml").write_text(f"{QUEUE}\n---\n{pod}\n---\n{NODE}\n")
    assert read(folder).clusters["nodes"].now == 1769846400.0


def test_seeds_without_effect_give_one_cell(folder: Path) -> None:
    found = keys(folder)
    assert len(found) == 2 * 3 * (2 + 2 + 1 + 2)
    assert "fifo, whole, nodes" in found and "fifo, part, nodes, seed 2" in found
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("fifo.yaml", "gang", "gang}, {name: drf", "fifo,"),
        ("jobs.csv", "j3,30", "j3,31", ", part, mixed, whole,"),
        ("nodes.yaml", "cpu: 8", "cpu: 9", ", nodes"),
        ("queues.yaml", "weight: 3", "weight: 4", ""),
        ("grid.yaml", "until: 2h", "until: 3h", ""),
        ("grid.yaml", "jobs: 6", "jobs: 7", "made"),
        ("grid.yaml", "sample: 0.5", "sample: 0.6", "part"),
        ("grid.yaml", "a: b", "a: c", "small"),
    ],
)
def test_a_changed_input_changes_the_keys_of_its_cells_only(
    folder: Path, file: str, old: str, new: str, changed: str
) -> None:
    before = keys(folder)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new))
    after = keys(folder)
    words = [word.strip() for word in changed.split(",") if word.strip()] or [""]
    differ = {name for name in before if before[name] != after[name]}
    assert differ == {name for name in before if any(word in name for word in words)}


def test_manifests_may_be_a_folder(folder: Path) -> None:
    (folder / "more" / "below").mkdir(parents=True)
    (folder / "more" / "below" / "queue.yaml").write_text(QUEUE)
    (folder / "grid.yaml").write_text(GRID.replace("[queues.yaml]", "more"))
    before = keys(folder)
    assert "default" in read(folder).clusters["nodes"].objects["Queue"]
    (folder / "more" / "below" / "queue.yaml").write_text(QUEUE.replace("3", "4"))
    assert not set(before.values()) & set(keys(folder).values())


def test_names_and_other_spellings_change_no_key(folder: Path) -> None:
    before = keys(folder)
    text = GRID.replace("- {name: made, make: {jobs: 6, hours: 1,", "- {name: other, make: {hours: 1.0, jobs: 6,")
    (folder / "grid.yaml").write_text(text.replace("until: 2h", "until: 120m"))
    assert list(keys(folder).values()) == list(before.values())


def test_a_cell_has_the_same_result_whatever_ran_before_it(folder: Path) -> None:
    grid = read_grid(str(folder / "grid.yaml"))
    inputs = read_inputs(grid)
    chosen = [cell for cell in cells_of(grid, inputs) if cell.cluster == "small × 3" and cell.trace != "whole"][:3]
    first = [json.dumps(run_cell(inputs, cell)) for cell in chosen]
    again = [json.dumps(run_cell(inputs, cell)) for cell in reversed(chosen)]
    assert first == again[::-1] and len(set(first)) > 1


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("fifo.yaml", CONFIGURATION.replace("gang", "gong"), r"fifo.yaml:3: error: .*did you mean gang"),
        ("fifo.yaml", None, "grid.yaml:1: error: configuration fifo: .*fifo.yaml cannot be read: No such file"),
        ("jobs.csv", None, "grid.yaml:5: error: trace whole: .*jobs.csv cannot be read: No such file"),
        ("jobs.csv", "name,submit\n", "error"),
        ("nodes.yaml", QUEUE, "error: cluster nodes: .*no node"),
        ("queues.yaml", "kind: Queue\n", "queues.yaml:1: error"),
        ("grid.yaml", GRID.replace("hours: 1", "load: -1"), "grid.yaml:6: error: trace made: load must be"),
        ("grid.yaml", GRID.replace("cpu: 16", "cpu: many"), "grid.yaml:10: error: cluster small × 1: .*many"),
    ],
)
def test_an_input_that_cannot_be_used_is_a_finding(folder: Path, file: str, text: str | None, message: str) -> None:
    if text is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(text)
    with pytest.raises(InputError, match=message):
        read(folder)
