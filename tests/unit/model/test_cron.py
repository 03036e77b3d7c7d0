"""When a cron schedule is next due."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from muster.model.cron import check_time_zone, next_time

START = datetime(2026, 1, 31, 12, 0, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "zone", "expected"),
    [
        ("*/5 * * * *", None, datetime(2026, 1, 31, 12, 5, tzinfo=UTC)),
        ("0 3 * * ?", None, datetime(2026, 2, 1, 3, tzinfo=UTC)),
        ("0 3 * * *", "Europe/Berlin", datetime(2026, 2, 1, 2, tzinfo=UTC)),
        ("0 0 * * MON", None, datetime(2026, 2, 2, tzinfo=UTC)),
        ("@monthly", None, datetime(2026, 2, 1, tzinfo=UTC)),
        ("@every 1h30m", None, datetime(2026, 1, 31, 13, 30, 30, tzinfo=UTC)),
    ],
)
def test_the_next_time_is_found(schedule: str, zone: str | None, expected: datetime) -> None:
    assert next_time(schedule, zone, START) == expected.timestamp()


@pytest.mark.parametrize("schedule", ["", "* * * *", "61 * * * *", "0 0 31 2 *", "@every ", "@now", "* * * * * *"])
def test_what_is_no_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError):
        next_time(schedule, None, START)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "/etc/passwd", "../UTC"])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="there is no time zone"):
        check_time_zone(zone)
