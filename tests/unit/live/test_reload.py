"""The configuration file, followed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from live_objects import EVICTS
from muster.live.logs import Log
from muster.live.metrics import Metrics
from muster.live.reload import Loaded, Reloader, Unusable, read


def followed(path: Path) -> tuple[Reloader, list[Loaded], Metrics]:
    used: list[Loaded] = []
    metrics = Metrics()
    return Reloader(str(path), read(str(path)), used.append, metrics, Log(-1)), used, metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_a_good_change_is_used(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(EVICTS, encoding="utf-8")
    reloader, used, metrics = followed(file)
    asyncio.run(reloader.look())
    assert used == []
    file.write_text(EVICTS.replace("preempt, ", ""), encoding="utf-8")
    asyncio.run(reloader.look())
    assert [loaded.scheduler.config.actions for loaded in used] == [("enqueue", "allocate", "backfill")]
    assert value(metrics, "muster_configuration_reloads_total", result="used") == 1


@pytest.mark.parametrize("bad", ["actions: [", "actions: alocate\n", "tiers: 3\n", "\xff"])
def test_a_bad_change_is_not_and_the_last_good_one_stays(bad: str, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(EVICTS, encoding="utf-8")
    reloader, used, metrics = followed(file)
    file.write_bytes(bad.encode("latin-1"))
    asyncio.run(reloader.look())
    asyncio.run(reloader.look())
    assert used == [] and value(metrics, "muster_configuration_valid") == 0
    assert value(metrics, "muster_configuration_reloads_total", result="refused") == 1
    file.write_text(EVICTS, encoding="utf-8")
    asyncio.run(reloader.look())
    assert value(metrics, "muster_configuration_valid") == 1


def test_a_file_that_goes_away_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(EVICTS, encoding="utf-8")
    reloader, used, _ = followed(file)
    file.unlink()
    asyncio.run(reloader.look())
    assert used == []


def test_one_that_is_bad_from_the_start_says_where(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("actions: alocate\n", encoding="utf-8")
    with pytest.raises(Unusable, match=r"scheduler\.yaml:1"):
        read(str(file))
    with pytest.raises(Unusable, match="cannot be read"):
        read(str(tmp_path / "none.yaml"))
