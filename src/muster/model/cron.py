"""When a cron schedule is next due, as the controllers of Kubernetes and Volcano read it.

Five fields, or a name: @hourly, @daily, @weekly, @monthly, @yearly, or `@every` with a duration.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo

__all__ = ["check_schedule", "check_time_zone", "next_time"]

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = re.compile(r"@every ((?:\d+h)?(?:\d+m)?(?:\d+s)?)", re.ASCII)
_DURATION = re.compile(r"(\d+)([hms])", re.ASCII)
_UNITS = {"h": 3600, "m": 60, "s": 1}
_FIELDS = 5


def check_schedule(schedule: str) -> None:
    """Raises ValueError if it is not a cron schedule."""
    next_time(schedule, None, 0.0)


def check_time_zone(name: str) -> None:
    """Raises ValueError if there is no such time zone."""
    _zone(name)


def next_time(schedule: str, time_zone: str | None, after: float) -> float | None:
    """The first time of the schedule after the given one, in seconds since the epoch; None: it is never due.

    Raises ValueError if the schedule or the time zone is invalid. Without a time zone the schedule is in UTC.
    """
    every = _EVERY.fullmatch(schedule)
    if every is not None:
        period = sum(int(number) * _UNITS[unit] for number, unit in _DURATION.findall(every[1]))
        if not period:
            raise ValueError(f"{schedule!r} has no duration")
        return after + period
    from cronsim import CronSim, CronSimError  # most clusters have no schedule: not part of the start of a command

    fields = _NAMED.get(schedule, schedule).split()
    if len(fields) != _FIELDS:
        raise ValueError(f"{schedule!r} has {len(fields)} fields, not {_FIELDS}")
    # A question mark stands for * in the fields of days.
    fields[2:] = ["*" if field == "?" else field for field in fields[2:]]
    try:
        found = next(CronSim(" ".join(fields), datetime.fromtimestamp(after, _zone(time_zone))))
    except CronSimError as error:
        raise ValueError(f"{schedule!r}: {str(error).lower()}") from None
    except StopIteration:
        return None
    return found.timestamp()


def _zone(name: str | None) -> tzinfo:
    if name is None:
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as error:
        raise ValueError(f"there is no time zone {name!r}") from error
    except KeyError:  # ZoneInfoNotFoundError
        raise ValueError(f"there is no time zone {name!r}") from None
