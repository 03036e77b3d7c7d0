"""A plugin of another package: found by its entry point, named in the configuration, and obeyed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.manifests import queue, state_of
from builders.racks import gang, gpu_node, members
from muster.cycle import registry
from muster.cycle.configure import configure
from muster.cycle.registry import plugin_class
from muster.cycle.scheduler import Scheduler

SOURCE = '''
"""halves: a gang lies in the first or the second half of the nodes, the second first."""

from muster.engine.core.hooks import NodeSet, NodeSets, Plugin


class Halves(Plugin, NodeSets):
    name = "halves"
    arguments = {"first": "which half is tried first: low or high (high)"}

    def __init__(self, arguments, option):
        super().__init__(arguments, option)
        self.low = arguments.text("first", "high") == "low"

    def node_sets(self, job, tasks, nodes):
        middle = len(nodes.index) // 2
        sets = [NodeSet(nodes.index[middle:], "high"), NodeSet(nodes.index[:middle], "low")]
        return True, sets[::-1] if self.low else sets
'''
CONFIG = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: halves
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with one plugin, as pip would leave it."""
    (tmp_path / "halves_of_nodes.py").write_text(SOURCE)
    about = tmp_path / "halves_of_nodes-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: halves-of-nodes\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[muster.plugins]\nhalves = halves_of_nodes:Halves\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._registered.cache_clear()
    yield
    sys.modules.pop("halves_of_nodes", None)
    registry._registered.cache_clear()


def placed(config: str, count: int) -> dict[str, str]:
    loaded, findings = configure(config, "scheduler.yaml")
    assert not findings
    nodes = [gpu_node(f"n{i}", gpus=2) for i in range(4)]
    state = state_of(queue(), *nodes, gang("job", count), *members("job", count))
    return Scheduler(loaded).cycle(state, 0.0).binds


@pytest.mark.usefixtures("installed")
def test_it_is_registered_and_configured_like_any_plugin() -> None:
    assert plugin_class("halves").name == "halves"
    assert set(placed(CONFIG, 2).values()) <= {"n2", "n3"}
    assert set(placed(CONFIG + "    arguments:\n      first: low\n", 2).values()) <= {"n0", "n1"}


@pytest.mark.usefixtures("installed")
def test_a_gang_that_neither_half_holds_waits() -> None:
    assert len(placed(CONFIG, 4)) == 4
    assert placed(CONFIG, 5) == {}


def test_without_the_package_its_name_is_unknown() -> None:
    _, findings = configure(CONFIG, "scheduler.yaml")
    assert [finding.code for finding in findings] == ["unknown-plugin"]
