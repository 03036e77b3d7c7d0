"""Grids of sweeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.model.finding import InputError
from muster.sim.sweep.grid import Grid, read_grid

GOOD = """\
configurations:
- drf.yaml
- {name: fair, file: sub/proportion.yaml}
- name: default
traces:
- jobs.csv
- {file: [a.csv.gz, b.csv.gz], format: helios, sample: 0.8, shuffle: arrivals}
- name: busy
  make: {jobs: 50, load: 0.9, clusterGpus: 16, meanDuration: 30m, pods: {1: 3, 4: 1}}
seeds: [1, 2]
clusters:
- nodes.csv
- template: {allocatable: {cpu: 64, nvidia.com/gpu: 8}}
  counts: [1, 32]
- {name: big, template: node.yaml, counts: [64]}
manifests: [queues.yaml]
options: {cycle: 1s, checkpoint: 1h, gpuResource: amd.com/gpu}
"""


def grid(tmp_path: Path, text: str) -> Grid:
    file = tmp_path / "grid.yaml"
    file.write_text(text)
    return read_grid(str(file))


def faults(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        grid(tmp_path, text)
    return [str(finding).removeprefix(f"{tmp_path}/") for finding in caught.value.findings]


def test_a_grid_is_read_with_paths_relative_to_its_file(tmp_path: Path) -> None:
    found = grid(tmp_path, GOOD)
    assert [(one.name, one.path) for one in found.configurations] == [
        ("drf", f"{tmp_path}/drf.yaml"), ("fair", f"{tmp_path}/sub/proportion.yaml"), ("default", ""),
    ]  # fmt: skip
    assert [(one.name, one.seeded) for one in found.traces] == [("jobs", False), ("a", True), ("busy", True)]
    assert found.traces[2].make is not None
    assert found.traces[2].make.mean_duration == 1800 and found.traces[2].make.pods == {1: 3.0, 4: 1.0}
    assert [one.name for one in found.clusters] == ["nodes", "1 node", "32 nodes", "big × 64"]
    assert found.seeds == (1, 2) and found.manifests == (f"{tmp_path}/queues.yaml",)
    assert found.options == {"cycle": 1.0, "checkpoint": 3600.0, "gpu_resource": "amd.com/gpu"}


def test_seeds_without_effect_are_reported(tmp_path: Path) -> None:
    [finding] = grid(tmp_path, GOOD).findings
    assert finding.severity == "warning" and finding.line == 6
    assert finding.message == "the seeds have no effect on the trace jobs: it is run once"


def test_every_mistake_is_reported_with_its_line(tmp_path: Path) -> None:
    found = faults(tmp_path, """\
configuration: [x.yaml]
traces:
- {fil: jobs.csv}
- {make: {jobs: 50, meanDurations: 3, load: many}}
- {file: j.csv, sample: 2, shuffle: jobs}
- {make: {jobs: 1, hours: 1, meanDuration: long, seed: 4}}
seeds: [1, 1, -1, x]
clusters:
- {template: {cpu: 3}, counts: [4]}
- {nodes: n.csv, counts: [4]}
- {template: {allocatable: {cpu: 4}}}
- {nodes: "-"}
options: {cycles: 1s, until: soon, cycle: 0s}
""")  # fmt: skip
    assert found == [
        "grid.yaml:1: error: there are no configurations (write a list under `configurations`)",
        "grid.yaml:1: error: unknown key 'configuration' in a grid (did you mean configurations?)",
        "grid.yaml:3: error: a trace has either `file` or `make` (write one of them)",
        "grid.yaml:3: error: unknown key 'fil' in traces (did you mean file?)",
        "grid.yaml:4: error: load is 'many': Expected `float | null`, got `str` (see `muster trace make --help`)",
        "grid.yaml:4: error: unknown parameter 'meanDurations' of a generated trace (did you mean meanDuration?)",
        "grid.yaml:5: error: sample is 2 (write a part such as 0.8)",
        "grid.yaml:5: error: shuffle is 'jobs' (write `shuffle: arrivals`)",
        "grid.yaml:6: error: meanDuration: 'long' is no duration (write it as 30s, 1h30m or 7d)",
        "grid.yaml:6: error: the seeds of a generated trace are those of the grid (write them under `seeds`)",
        "grid.yaml:7: error: 'x' in seeds is no whole number from 0 to 4294967295",
        "grid.yaml:7: error: -1 in seeds is no whole number from 0 to 4294967295",
        "grid.yaml:7: warning: 1 is twice in seeds: it is run once (remove one)",
        "grid.yaml:9: error: the template has no allocatable resources (write for example `allocatable: {cpu: 64, "
        "memory: 512Gi}`)",
        "grid.yaml:9: error: unknown key 'cpu' in a template (known: allocatable, labels, taints)",
        "grid.yaml:10: error: counts belongs to a template (remove it, or write a template)",
        "grid.yaml:11: error: the template has no counts (write for example `counts: [32, 64]`)",
        "grid.yaml:12: error: '-' in nodes is no path of a file (write the path as text)",
        "grid.yaml:12: error: a cluster has either `nodes` and `manifests` or a `template` (write one of them)",
        "grid.yaml:13: error: cycle must be above 0 (leave it out for the default)",
        "grid.yaml:13: error: unknown option 'cycles' (did you mean cycle?)",
        "grid.yaml:13: error: until: 'soon' is no duration (write it as 30s, 1h30m or 7d)",
    ]


def test_two_inputs_of_one_name_are_refused(tmp_path: Path) -> None:
    text = GOOD.replace("- name: default", "- other/drf.yaml")
    assert faults(tmp_path, text)[0] == (
        "grid.yaml:4: error: two configurations are called 'drf' (the other in line 2) (give one another `name`)"
    )


@pytest.mark.parametrize("text", ["", "- a", "a: [", "a: 1\n---\nb: 1\n", "\x00", "seeds: 3"])
def test_what_is_no_grid_is_reported(tmp_path: Path, text: str) -> None:
    assert all(": error: " in line for line in faults(tmp_path, text))


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_grid(str(tmp_path / "none.yaml"))
