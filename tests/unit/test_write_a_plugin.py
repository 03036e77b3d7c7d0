"""docs/tasks/write-a-plugin.md: its package is built, installed, tested and used, as the page says."""

from __future__ import annotations

import json

import pytest

from builders.plugin_package import BLOCKS, PAGE, PluginPackage


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> PluginPackage:
    made = PluginPackage(tmp_path_factory.mktemp("plugin"))
    made.install()
    return made


def test_the_commands_are_those_that_are_tried_here() -> None:
    assert BLOCKS["commands"].splitlines() == [
        "pip install ./muster-maintenance",
        "pytest -q muster-maintenance/tests",
        "muster plugins",
        "muster simulate -c scheduler.yaml -f cluster.yaml -o json",
    ]


def test_the_packages_test_passes(package: PluginPackage) -> None:
    done = package.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "muster-maintenance/tests")
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_its_signature_the_packages_test_fails(package: PluginPackage) -> None:
    module = package.installed / "muster_maintenance" / "__init__.py"
    text = module.read_text("utf-8")
    forgetful = text.replace("return _tolerates(task)\n\n    def filter", "return None\n\n    def filter")
    module.write_text(forgetful, "utf-8")
    try:
        done = package.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "muster-maintenance/tests")
    finally:
        module.write_text(text, "utf-8")
    assert done.returncode == 1
    assert "CheckFailed: signature: the pods" in done.stdout
    assert "filter of plugin maintenance answers" in done.stdout


def test_the_plugin_is_listed_with_its_package(package: PluginPackage) -> None:
    done = package.muster("plugins", "-o", "json")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)["plugins"]}
    assert rows["maintenance"]["package"] == "muster-maintenance 1.0.0"
    assert rows["maintenance"]["hooks"] == ["NodeFilter", "NodeScorer"]
    assert rows["gang"]["package"] == "muster"


def test_the_simulator_obeys_the_plugin(package: PluginPackage) -> None:
    done = package.muster("simulate", "-c", "scheduler.yaml", "-f", "cluster.yaml", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert "skipped" not in done.stderr
    answer = json.loads(done.stdout)
    assert answer["binds"] == {"default/cache": "n2", "default/drain": "n1"}
    assert answer["pending"] == json.loads(BLOCKS["pending"])


def test_an_error_of_the_plugin_names_it_and_its_package(package: PluginPackage) -> None:
    module = package.installed / "muster_maintenance" / "__init__.py"
    text = module.read_text("utf-8")
    module.write_text(text.replace("        refused = self.closed", "        {}['n3']\n        refused = self.closed"))
    try:
        done = package.muster("simulate", "-c", "scheduler.yaml", "-f", "cluster.yaml")
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
