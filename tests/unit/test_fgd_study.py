"""The FGD study (bench/studies/fgd) on small generated lists: arrivals, scores, figures, and the command."""

from __future__ import annotations

import csv
import importlib.util
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from builders.manifests import node, pod, state_of
from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.scheduler import Scheduler
from muster.engine.core.session import Session

FOLDER = Path(__file__).parents[2] / "bench" / "studies" / "fgd"
COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec")


@pytest.fixture(scope="module")
def study() -> Iterator[Any]:
    """Loads the study, which is not a part of the package."""
    sys.path.insert(0, str(FOLDER))
    before = set(sys.modules)
    spec = importlib.util.spec_from_file_location("fgd_study", FOLDER / "__main__.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parts: dict[str, ModuleType] = {n: sys.modules[n] for n in ("arrivals", "go_random", "openb", "policies", "runs")}
    yield type("Study", (), {"main": module.main, **parts})
    sys.path.remove(str(FOLDER))
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and FOLDER.as_posix() in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight nodes of two models, and pods that request 0.9 and 2 times their GPUs."""
    made = tmp_path_factory.mktemp("openb")
    with (made / "openb_node_list_gpu_node.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("sn", "cpu_milli", "memory_mib", "gpu", "model"))
        for i in range(8):
            rows.writerow((f"node-{i}", 32000 + 32000 * (i % 2), 262144, 2 + 2 * (i % 4), "T4" if i % 3 else "G2"))
    numbers = random.Random(1)
    kinds = [(4000, 8192, 1, 1000, ""), (6000, 8192, 1, 460, ""), (3000, 4096, 1, 250, "T4"), (8000, 9000, 2, 1000, "")]
    kinds += [(8000, 30000, 0, 0, ""), (12000, 9000, 4, 1000, "G2|T4")]
    for name, count in (("less", 20), ("more", 90)):
        with (made / f"openb_pod_list_{name}.csv").open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(COLUMNS)
            rows.writerows((f"pod-{i:04d}", *numbers.choice(kinds)) for i in range(count))
    return made


def test_random_numbers_are_those_of_go(study: Any) -> None:
    numbers = study.go_random.GoRandom(1)
    assert [numbers.below(100) for _ in range(10)] == [81, 87, 47, 59, 81, 18, 25, 40, 56, 0]  # Go without a seed
    assert sorted(numbers.permutation(50)) == list(range(50))
    items = list(range(50))
    numbers.shuffle(items)
    assert items != sorted(items) == list(range(50))


@pytest.mark.parametrize("name", ["less", "more"])
def test_the_pods_that_arrive_ask_for_thirteen_tenths_of_all_gpus(study: Any, folder: Path, name: str) -> None:
    workload = study.openb.read_workload(folder, name)
    order = study.arrivals.arrivals(workload, 42)
    demand = sum(one.demand for one in order.pods) / workload.capacity
    assert 1.15 < demand <= 1.3 + 3000 / workload.capacity
    assert order == study.arrivals.arrivals(workload, 42) != study.arrivals.arrivals(workload, 43)
    assert sorted(one.name for one in order.nodes) == [one.name for one in workload.nodes]
    if name == "less":
        assert sorted(map(repr, order.pods[:20])) == sorted(map(repr, workload.pods))


def test_typical_pods_are_the_most_frequent_until_95_percent(study: Any) -> None:
    row = study.openb.PodRow
    pods = [row(1000, 1, 1, 500, "")] * 90 + [row(2000, 9, 0, 0, "")] * 5 + [row(4000, 1, 8, 1000, "G2")] * 5
    workload = study.openb.Workload("w", (), tuple(pods))
    found = study.arrivals.typical_pods(workload)
    # Of the two kinds with five pods the larger one is first, and then 95 % are reached.
    assert [(one["cpu"], one["gpus"], one["milli"], one["models"], one["weight"]) for one in found] == [
        ("1000m", 1, 500, "", 90), ("4000m", 8, 1000, "G2", 5),
    ]  # fmt: skip


def scores(study: Any, policy: str, task: Any) -> list[float]:
    """Returns the scores of three nodes: n1 has GPUs with 500, 1000, 1000 and 1000 free, n2 is empty, n3 has a pod with
    a whole GPU."""
    gpu = {"nvidia.com/gpu": 4}
    shared = {"gpu-fraction": "0.5", "muster.io/gpu-index": "0"}
    state = state_of(
        *(node(name, cpu=64, memory="1Ti", resources=gpu) for name in ("n1", "n2", "n3")),
        pod("a", on="n1", cpu=16, annotations=shared),
        pod("b", on="n3", requests={"cpu": 8, "nvidia.com/gpu": 1}, annotations={"muster.io/gpu-index": "0"}),
        task,
    )
    options = [PluginOption("gpu-share", arguments=Arguments({"gpu-share.weight": 0})), PluginOption(policy)]
    scheduler = Scheduler(Config(("allocate",), (Tier(tuple(options)),)), classes=study.policies.CLASSES)
    found: list[float] = []

    def look(session: Session) -> None:
        plugin = session.plugins[-1]
        found.extend(plugin.raw(state.tasks["default/new"], state.nodes.everything()).tolist())  # type: ignore[attr-defined]

    session = scheduler.session(state, 0.0)
    look(session)
    session.close()
    return found


HALF = {"gpu-fraction": "0.5"}
PACKING = {"share": [95, 29, 49], "two": [48, 29, 48]}


def test_gpu_packing_prefers_gpus_in_use_then_nodes_in_use(study: Any) -> None:
    assert scores(study, "gpu-packing", pod("new", cpu=4, annotations=HALF)) == PACKING["share"]
    assert scores(study, "gpu-packing", pod("new", requests={"cpu": 4, "nvidia.com/gpu": 2})) == PACKING["two"]
    assert scores(study, "gpu-packing", pod("new", cpu=4)) == [0, 0, 0]


def test_best_fit_prefers_the_node_with_least_left(study: Any) -> None:
    # n1: 48 − 4 of 128 cores and 3.5 − 0.5 of 8 GPUs left.
    expected = [100 * (1 - 44 / 256 - 3 / 16), 100 * (1 - 60 / 256 - 3.5 / 16), 100 * (1 - 52 / 256 - 2.5 / 16)]
    assert scores(study, "best-fit", pod("new", cpu=4, annotations=HALF)) == [int(x) for x in expected]


def test_dot_prod_prefers_the_node_with_least_of_what_the_pod_asks_for(study: Any) -> None:
    free = ((48, 3.5), (64, 4.0), (56, 3.0))
    expected = [100 * (1 - (cpu / 128 * 32 / 128 + gpus / 8 * 2 / 8) / 2) for cpu, gpus in free]
    found = scores(study, "dot-prod", pod("new", requests={"cpu": 32, "nvidia.com/gpu": 2}))
    assert found == [int(x) for x in expected]


def test_gpu_clustering_prefers_nodes_with_pods_of_the_same_kind(study: Any) -> None:
    fullness = [25 * (8000 - free) // 8000 for free in (3500, 4000, 3000)]
    share = scores(study, "gpu-clustering", pod("new", cpu=4, annotations=HALF))
    assert share == [75 + fullness[0], 25 + fullness[1], fullness[2]]
    whole = scores(study, "gpu-clustering", pod("new", requests={"cpu": 4, "nvidia.com/gpu": 1}))
    assert whole == [fullness[0], 25 + fullness[1], 75 + fullness[2]]


def test_random_gives_each_pod_other_numbers(study: Any) -> None:
    task = pod("new", cpu=4)
    assert len({*scores(study, "random", task)}) == 3


def test_each_policy_places_pods_within_the_nodes(study: Any, folder: Path) -> None:
    workload = study.openb.read_workload(folder, "less")
    for policy in study.runs.POLICIES:
        done = study.runs.run(workload, policy, 42)
        alloc, frag, ratio = (done.curves[name] for name in ("alloc", "frag", "fragratio"))
        assert len(alloc) == 131 and (np.diff(alloc) >= -1e-9).all() and alloc[-1] <= 100
        assert (frag <= 100 - alloc + 1e-6).all() and (ratio <= 100 + 1e-6).all()
        again = study.runs.run(workload, policy, 42)
        assert np.array_equal(alloc, again.curves["alloc"])


def test_the_command_compares_with_the_published_figures(study: Any, folder: Path, tmp_path: Path) -> None:
    common = ["--data", str(folder), "--seeds", "1", "--policies", "FGD,BestFit", "--processes", "1"]
    files = ["--json", str(tmp_path / "record.json"), "--html", str(tmp_path / "page.html")]
    done = CliRunner().invoke(study.main, [*common, *files, "--workloads", "less"])
    assert done.exit_code == 0 and "not published" in done.output, done.output
    record = json.loads((tmp_path / "record.json").read_text())
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") >= 4 and "prefers-color-scheme" in page and "<script" not in page
    write_published(folder, record, 0.5)
    assert CliRunner().invoke(study.main, [*common, "--workloads", "less"]).exit_code == 0
    write_published(folder, record, 0.7)
    done = CliRunner().invoke(study.main, [*common, "--workloads", "less"])
    assert done.exit_code == 1 and "not within 0.6: alloc_130" in done.output
    (folder / "published.csv").unlink()
    done = CliRunner().invoke(study.main, [*common, "--workloads", "none"])
    assert done.exit_code == 1 and "there is no workload none; known are less, more" in done.output


def write_published(folder: Path, record: dict[str, Any], off: float) -> None:
    """Writes published figures whose final allocation differs from the record by `off`."""
    figures = record["cells"][0]["figures"]
    with (folder / "published.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["workload", "policy", *(f"{name}_{what}" for name in figures for what in ("mean", "sd"))])
        for number, cell in enumerate(record["cells"]):
            found = {n: f["mean"] + (off if n == "alloc_130" else 0.0) for n, f in cell["figures"].items()}
            values = [x for mean in found.values() for x in (mean, 0)]
            rows.writerow([cell["workload"], f"0{number}-" + cell["policy"], *values])
