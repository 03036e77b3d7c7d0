"""A configuration that was found is checked first; the last good one stays in use."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from builders.live_objects import EVICTS
from muster.process.logs import Log
from muster.scheduler.metrics import Metrics
from muster.scheduler.reload import Found, Loaded, Reloader, Unusable, Verdict, checked, find, read

GOOD = Found("scheduler.yaml", EVICTS.encode())


class Followed:
    """A reloader that began with a good configuration, and what came of those found since."""

    def __init__(self) -> None:
        self.used: list[Loaded] = []
        self.told: list[Verdict] = []
        self.metrics = Metrics()
        self.version = GOOD.version
        self._reloader = Reloader(checked(GOOD), self.used.append, self.told.append, self.metrics, Log(-1))

    def take(self, *found: Found) -> Followed:
        for one in found:
            asyncio.run(self._reloader.take(one))
        return self

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


def test_a_good_change_is_used_and_told() -> None:
    other = Found("scheduler.yaml", EVICTS.replace("preempt, ", "").encode())
    followed = Followed().take(GOOD, other, other)
    assert [loaded.scheduler.config.actions for loaded in followed.used] == [("enqueue", "allocate", "backfill")]
    assert followed.value("muster_configuration_reloads_total", result="used") == 1
    assert followed.told == [Verdict(other.version)]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"actions: [", "scheduler.yaml:2"),
        (b"actions: alocate\n", "alocate"),
        (b"tiers: 3\n", "tiers"),
        (b'actions: allocate\ntiers: [{plugins: [{name: "gnag"}]}]\n', "gnag"),
        (b"\xff", "UTF-8"),
        (b"", "empty"),
    ],
)
def test_a_bad_change_is_refused_and_the_last_good_one_stays(bad: bytes, says: str) -> None:
    found = Found("scheduler.yaml", bad)
    followed = Followed().take(found, found)
    assert followed.used == [] and followed.value("muster_configuration_valid") == 0
    assert followed.value("muster_configuration_reloads_total", result="refused") == 1
    (verdict,) = followed.told
    assert verdict.used == followed.version and says in verdict.refused


def test_one_that_is_put_back_is_good_again() -> None:
    followed = Followed().take(Found("scheduler.yaml", b"tiers: 3\n"), GOOD)
    assert followed.used == [] and followed.value("muster_configuration_valid") == 1
    assert followed.told[-1] == Verdict(followed.version)


def test_a_file_that_goes_away_is_a_bad_change(tmp_path: Path) -> None:
    missing = find(str(tmp_path / "none.yaml"))
    followed = Followed().take(missing, missing)
    assert followed.used == [] and "cannot be read: No such file" in followed.told[0].refused
    assert len(followed.told) == 1


def test_one_that_is_bad_from_the_start_says_where(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("actions: alocate\n", encoding="utf-8")
    with pytest.raises(Unusable, match=r"scheduler\.yaml:1"):
        read(str(file))
    with pytest.raises(Unusable, match="cannot be read"):
        read(str(tmp_path / "none.yaml"))
