"""The column map: which column of a file has which value of a job, and in which unit.

A key is the name of a value, then its unit unless it is the first one, then `_per_pod` if the column has the amount of
one pod instead of the whole job: `submit`, `duration_hours`, `cpu_milli`, `memory_gib_per_pod`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from muster.config.names import suggest
from muster.model.finding import InputError

__all__ = ["KEYS", "TEXTS", "ColumnMap", "Key", "parse_columns", "resolve"]


@dataclass(frozen=True, slots=True)
class Key:
    """What a column has: a value of the job, times `factor`."""

    value: str
    factor: float = 1.0
    per_pod: bool = False


ColumnMap = Mapping[str, tuple[Key, tuple[str, ...]]]
"""Value of a job → its key, and the columns that it is read from."""

_SECONDS = {"": 1.0, "_ms": 0.001, "_minutes": 60.0, "_hours": 3600.0}
_UNITS: dict[str, dict[str, float]] = {
    "submit": _SECONDS, "start": _SECONDS, "end": _SECONDS, "duration": _SECONDS, "estimate": _SECONDS,
    "pods": {"": 1.0}, "minimum": {"": 1.0}, "priority": {"": 1.0}, "gpu_milli": {"": 1.0},
    "cpu": {"": 1000.0, "_milli": 1.0, "_percent": 10.0},
    "memory": {"": 1.0, "_kib": 2.0**10, "_mib": 2.0**20, "_gib": 2.0**30},
    "gpus": {"": 1.0, "_percent": 0.01},
    "usage": {"": 1.0, "_percent": 0.01},
}  # fmt: skip
_AMOUNTS = ("cpu", "memory", "gpus")
TEXTS = ("name", "queue", "model", "user")

KEYS: dict[str, Key] = {name: Key(name) for name in TEXTS}
for _value, _units in _UNITS.items():
    for _unit, _factor in _units.items():
        KEYS[_value + _unit] = Key(_value, _factor)
        if _value in _AMOUNTS:
            KEYS[f"{_value}{_unit}_per_pod"] = Key(_value, _factor, per_pod=True)


def parse_columns(text: str) -> dict[str, str]:
    """Reads `--columns submit=timestamp,gpus=num_gpus`. Raises InputError."""
    found: dict[str, str] = {}
    for part in text.split(","):
        key, equals, column = (word.strip() for word in part.partition("="))
        if not (key and equals and column):
            raise InputError(f"columns: {part!r} is not KEY=COLUMN (write it like submit=timestamp,gpus=num_gpus)")
        if key in found:
            raise InputError(f"columns: {key} is given twice")
        found[key] = column
    return found


def resolve(
    columns: Mapping[str, str], header: Sequence[str], *, required: Collection[str], file: str
) -> ColumnMap:
    """Returns for each value its key and the columns that it is read from.

    `name=job+task` joins the texts of two columns. A column that the header does not have is an error if its key is
    required, else nothing is read from it. Raises InputError.
    """
    found: dict[str, tuple[Key, tuple[str, ...]]] = {}
    for key, column in columns.items():
        if key not in KEYS:
            raise InputError(f"columns: there is no key {key}: {suggest(key, KEYS)}")
        parts = (column,) if column in header else tuple(column.split("+"))
        missing = [part for part in parts if part not in header]
        if missing and key in required:
            raise InputError(f"{file} has no column {missing[0]!r}: {suggest(missing[0], header)}")
        if missing:
            continue
        if len(parts) > 1 and KEYS[key].value not in TEXTS:
            raise InputError(f"columns: {key} is a number and has one column, not {column}")
        value = KEYS[key].value
        if value in found:
            raise InputError(f"columns: {value} is given twice, once as {key}")
        found[value] = (KEYS[key], parts)
    return found
