"""`muster snapshot` and `--live`: the kinds that installed plugins read are part of the cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fakes.faulty_api import FaultyApi, listed, reply, run, stored_pod
from muster.cli import main
from muster.cli.live import read_cluster
from muster.cluster.manifests import Manifests, read
from muster.cycle import registry
from muster.plugin import CustomResource, Plugin

WINDOWS = "/apis/example.com/v1/windows"


class Window(CustomResource, kw_only=True):
    group, version, plural, namespaced = "example.com", "v1", "windows", False

    nodes: list[str] = []


class Maintenance(Plugin):
    name = "maintenance"
    reads = (Window,)


@pytest.mark.parametrize("way", ["snapshot", "live"])
def test_the_kinds_that_installed_plugins_read_are_read(
    way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(registry, "third_party", lambda: {"maintenance": Maintenance})
    file = tmp_path / "cluster.ndjson.gz"

    def taken() -> Manifests:
        if way == "live":
            with click.Context(main):
                return read_cluster(None, None)
        result = CliRunner().invoke(main, ["snapshot", str(file)])
        assert result.exit_code == 0, result.output
        return read([(file.name, file.read_bytes())])

    async def story(api: FaultyApi) -> Manifests:
        monkeypatch.setattr("muster.kube.load", lambda *_: api.access())
        api.plan("GET", "/api/v1/pods", reply(listed([stored_pod("a", 1)], 5)))
        api.plan("GET", WINDOWS, reply(listed([{"metadata": {"name": "tonight"}, "nodes": ["n1"]}], 5)))
        return await asyncio.to_thread(taken)

    manifests = run(story)
    assert manifests.findings == [] and not manifests.skipped
    (window,) = manifests.of(Window).values()
    assert (window.metadata.name, window.nodes) == ("tonight", ["n1"])
