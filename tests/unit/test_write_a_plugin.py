"""docs/write-a-plugin.md: its package is built, installed, tested and used, as the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import muster

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "write-a-plugin.md"
BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
BLOCKS = dict(BLOCK.findall(PAGE.read_text("utf-8")))
SOURCE = Path(muster.__file__).parents[1]


class Reader:
    """Somebody who does what the page says, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.installed = folder / "site-packages"
        for name, text in BLOCKS.items():
            if "." in name:
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join([str(self.installed), str(SOURCE)])
        env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
        return subprocess.run(
            [sys.executable, *command], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )

    def muster(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("-c", "from muster.cli import main; main()", *arguments)

    def install(self) -> None:
        """`pip install ./muster-maintenance`, into a folder of its own and without the network."""
        flags = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
        done = self.run("-m", "pip", "install", *flags, "--target", str(self.installed), "./muster-maintenance")
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    made = Reader(tmp_path_factory.mktemp("plugin"))
    made.install()
    return made


def test_the_commands_are_those_that_are_tried_here() -> None:
    assert BLOCKS["commands"].splitlines() == [
        "pip install ./muster-maintenance",
        "pytest -q muster-maintenance/tests",
        "muster plugins",
        "muster simulate -c scheduler.yaml -f cluster.yaml -o json",
    ]


def test_the_packages_test_passes(reader: Reader) -> None:
    done = reader.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "muster-maintenance/tests")
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_its_signature_the_packages_test_fails(reader: Reader) -> None:
    module = reader.installed / "muster_maintenance" / "__init__.py"
    text = module.read_text("utf-8")
    forgetful = text.replace("return _tolerates(task)\n\n    def filter", "return None\n\n    def filter")
    module.write_text(forgetful, "utf-8")
    try:
        done = reader.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "muster-maintenance/tests")
    finally:
        module.write_text(text, "utf-8")
    assert done.returncode == 1
    assert "CheckFailed: signature: the pods" in done.stdout
    assert "filter of plugin maintenance answers" in done.stdout


def test_the_plugin_is_listed_with_its_package(reader: Reader) -> None:
    done = reader.muster("plugins", "-o", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["plugins"]}
    assert rows["maintenance"]["package"] == "muster-maintenance 1.0.0"
    assert rows["maintenance"]["hooks"] == ["NodeFilter", "NodeScorer"]
    assert rows["gang"]["package"] == "muster"


def test_the_simulator_obeys_the_plugin(reader: Reader) -> None:
    done = reader.muster("simulate", "-c", "scheduler.yaml", "-f", "cluster.yaml", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert "skipped" not in done.stderr
    answer = json.loads(done.stdout)
    assert answer["binds"] == {"default/cache": "n2", "default/drain": "n1"}
    assert answer["pending"] == json.loads(BLOCKS["pending"])


def test_an_error_of_the_plugin_names_it_and_its_package(reader: Reader) -> None:
    module = reader.installed / "muster_maintenance" / "__init__.py"
    text = module.read_text("utf-8")
    module.write_text(text.replace("        refused = self.closed", "        {}['n3']\n        refused = self.closed"))
    try:
        done = reader.muster("simulate", "-c", "scheduler.yaml", "-f", "cluster.yaml")
    finally:
        module.write_text(text, "utf-8")
    assert done.returncode == 2
    error = "plugin maintenance of package muster-maintenance 1.0.0 fails: filter raises KeyError: 'n3'"
    assert error in done.stderr
    assert error in PAGE.read_text("utf-8")


def test_the_attributes_that_the_page_lists_are_there() -> None:
    from muster.engine.core.jobs import Job, Queue, Task
    from muster.engine.core.nodes import NodeView

    for cls, names in (
        (Task, ("labels", "annotations", "pod", "role")),
        (Job, ("group", "queue", "min_available", "allocated")),
        (Queue, ("object", "weight", "deserved")),
        (NodeView, ("index", "idle", "future_idle", "used", "alloc")),
    ):
        assert all(hasattr(cls, name) for name in names), cls
