"""Turns the columns of a file into the columns of a trace, and leaves out rows that are no jobs.

The column map says which column has which value of a job, and in which unit. A key is the name of a value, then its
unit unless it is the first one, then `_per_pod` if the column has the amount of one pod instead of the whole job:
`submit`, `duration_hours`, `cpu_milli`, `memory_gib_per_pod`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from muster.config.names import suggest
from muster.model.finding import InputError
from muster.sim.traces.chunks import BadRows, Chunk, Column
from muster.sim.traces.names import label_value
from muster.sim.traces.table import BoolArray, FloatArray

__all__ = ["KEYS", "TEXTS", "ColumnMap", "Key", "parse_columns", "resolve", "PRIORITIES", "read_jobs"]


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


PRIORITIES = {"HP": 100, "SPOT": 0, "LS": 100, "GUARANTEED": 100, "BURSTABLE": 50, "BE": 0}
"""The priorities of the classes that published traces have instead of numbers."""

UNKNOWN = frozenset(("", "nan", "none", "null", "na", "n/a"))
LARGEST: dict[str, float] = {
    "submit": 1e11, "duration": 1e10, "estimate": 1e10, "pods": 1e5, "minimum": 1e5, "cpu": 1e10, "memory": 2.0**53,
    "gpus": 1e6, "gpu_milli": 1000, "usage": 1.0,
}  # fmt: skip
"""What is more than this is taken for a mistake."""
LARGEST_PRIORITY = 1_000_000_000  # Kubernetes: the largest value of a PriorityClass of a user
INTEGERS = ("pods", "minimum", "gpu_milli", "priority")


@dataclass(slots=True)
class _Rows:
    """The values of a chunk; `ok` are the rows that are jobs as far as they were looked at."""

    chunk: Chunk
    columns: ColumnMap
    bad: BadRows
    ok: BoolArray

    def refuse(self, wrong: BoolArray, value: str, why: str | Callable[[int], str], fix: str = "") -> None:
        """Leaves out rows. `value` names what is wrong with them."""
        for i in np.flatnonzero(wrong & self.ok).tolist():
            column = "+".join(self.columns[value][1]) if value in self.columns else value
            self.bad.add(int(self.chunk.lines[i]), f"{column} {why if isinstance(why, str) else why(i)}", fix)
        self.ok &= ~wrong

    def texts(self, value: str) -> list[str]:
        if value not in self.columns:
            return [""] * len(self.ok)
        parts = [as_texts(self.chunk.columns[column]) for column in self.columns[value][1]]
        if len(parts) == 1:
            return [text.strip() for text in parts[0]]
        return ["-".join(texts) for texts in zip(*parts, strict=True)]

    def numbers(self, value: str) -> FloatArray:
        """Returns the numbers in the unit of the trace; nan where the file has none."""
        if value not in self.columns:
            return np.full(len(self.ok), np.nan)
        key, (column,) = self.columns[value]
        cells = self.chunk.columns[column]
        is_time = value in ("submit", "start", "end")
        parse = _moment if is_time else _class if value == "priority" else _number
        numbers, unreadable = _numbers(cells, parse, key.factor)
        what = "a time" if is_time else "a number"
        self.refuse(unreadable, value, lambda i: f"is not {what}: {_shown(cells[i])}")
        least = -LARGEST_PRIORITY if value == "priority" else 0
        self.refuse(numbers < least, value, lambda i: f"is negative: {_shown(cells[i])}")
        most = LARGEST.get(value, LARGEST_PRIORITY if value == "priority" else np.inf)
        endless = np.isposinf(numbers) if value == "duration" else np.zeros(len(numbers), dtype=np.bool_)
        self.refuse((numbers > most) & ~endless, value, lambda i: f"is too large to be true: {_shown(cells[i])}")
        if value in INTEGERS:
            numbers = np.round(numbers, 6)
            fraction = np.isfinite(numbers) & (numbers != np.floor(numbers))
            self.refuse(fraction, value, lambda i: f"is not a whole number: {_shown(cells[i])}")
        return numbers


@np.errstate(over="ignore", invalid="ignore")  # of numbers that are then refused
def read_jobs(chunk: Chunk, columns: ColumnMap, pods_of_a_job: int, bad: BadRows) -> dict[str, Column]:
    """Returns the columns of a trace for the rows that are jobs; texts are not made unique names yet."""
    rows = _Rows(chunk, columns, bad, np.ones(len(chunk.lines), dtype=np.bool_))
    submit = rows.numbers("submit") if "submit" in columns else np.zeros(len(rows.ok))
    rows.refuse(np.isnan(submit), "submit", "is missing")
    pods = np.nan_to_num(rows.numbers("pods"), nan=pods_of_a_job)
    minimum = np.nan_to_num(rows.numbers("minimum"))
    too_many = (minimum > pods) & (pods > 0)
    rows.refuse(too_many, "minimum", lambda i: f"is {minimum[i]:g}, but the job has {pods[i]:g} pods")
    gpus, gpu_milli, pods = _gpus(rows, pods)
    found: dict[str, Column] = {
        "submit": submit, "duration": _durations(rows, submit), "estimate": rows.numbers("estimate"),
        "pods": pods, "minimum": minimum, "cpu": _amount(rows, "cpu", pods), "memory": _amount(rows, "memory", pods),
        "gpus": gpus, "gpu_milli": gpu_milli, "priority": np.nan_to_num(rows.numbers("priority")),
        "usage": np.nan_to_num(rows.numbers("usage"), nan=1.0),
        "name": rows.texts("name"), "queue": rows.texts("queue"), "user": rows.texts("user"),
        "model": _models(rows.texts("model")),
    }  # fmt: skip
    return found if rows.ok.all() else Chunk(found, chunk.lines).rows(rows.ok).columns


def _durations(rows: _Rows, submit: FloatArray) -> FloatArray:
    """The duration, or else the time from the start (or the submission) to the end."""
    if "duration" not in rows.columns and "end" not in rows.columns:
        return np.full(len(rows.ok), np.inf)
    start, end = rows.numbers("start"), rows.numbers("end")
    between = end - np.where(np.isnan(start), submit, start)
    given = rows.numbers("duration")
    duration = np.where(np.isnan(given), between, given)
    what = "duration" if "duration" in rows.columns else "end"
    rows.refuse(np.isnan(duration), what, "is missing")
    rows.refuse(duration < 0, what, lambda i: f"is {-duration[i]:g} s before the start")
    return duration


def _amount(rows: _Rows, value: str, pods: FloatArray) -> FloatArray:
    """An amount of the whole job."""
    amount = np.nan_to_num(rows.numbers(value), posinf=0)
    if value in rows.columns and rows.columns[value][0].per_pod:
        amount = amount * np.maximum(pods, 1)
    rows.refuse(amount > LARGEST[value], value, "of all pods is too large to be true")
    return np.round(amount)


def _gpus(rows: _Rows, pods: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """GPUs of the whole job and thousandths of each; a job with a part of a GPU has one GPU per pod."""
    given = np.nan_to_num(rows.numbers("gpus"), posinf=0)
    per_pod = "gpus" in rows.columns and rows.columns["gpus"][0].per_pod
    each = np.round(given, 6)
    shared = (each > 0) & (each < 1)
    mixed = (each > 1) & (each != np.floor(each))
    rows.refuse(mixed, "gpus", lambda i: f"is {each[i]:g}: a part of a GPU is possible only below 1")
    if not per_pod:
        rows.refuse(shared & (pods > 1), "gpus", lambda i: f"is {each[i]:g} for {pods[i]:g} pods", "use gpus_per_pod")
    milli = np.where(shared, np.maximum(np.round(each * 1000), 1), 1000)
    count = np.ceil(each) * (np.maximum(pods, 1) if per_pod else 1)
    rows.refuse(count > LARGEST["gpus"], "gpus", "of all pods is too large to be true")
    column = rows.numbers("gpu_milli")
    milli = np.where(np.isnan(column) | (count == 0), milli, column)
    rows.refuse((milli == 0) & (count > 0), "gpu_milli", "is 0 for a job with GPUs")
    several = (milli < 1000) & (count != np.maximum(pods, 1))
    rows.refuse(several, "gpu_milli", "is below 1000, which is possible only with one GPU per pod")
    return count, milli, np.where((milli < 1000) & (pods == 0), 1, pods)


def as_texts(column: Column) -> list[str]:
    """Returns numbers as texts, whole ones without a point."""
    if isinstance(column, list):
        return column
    return ["" if x != x else str(int(x)) if abs(x) < 2**53 and x.is_integer() else repr(x) for x in column.tolist()]


def _numbers(cells: Column, parse: Callable[[str, float], float], factor: float) -> tuple[FloatArray, BoolArray]:
    if not isinstance(cells, list):
        return cells * factor, np.zeros(len(cells), dtype=np.bool_)
    unreadable = np.zeros(len(cells), dtype=np.bool_)
    with suppress(ValueError, OverflowError):  # then one by one
        return np.array([cell or "nan" for cell in cells], dtype=np.object_).astype(np.float64) * factor, unreadable
    numbers = np.empty(len(cells))
    for i, cell in enumerate(cells):
        try:
            numbers[i] = np.nan if cell.strip().lower() in UNKNOWN else parse(cell, factor)
        except (ValueError, OverflowError):
            numbers[i], unreadable[i] = np.nan, True
    return numbers, unreadable


def _number(cell: str, factor: float) -> float:
    return float(cell) * factor


def _moment(cell: str, factor: float) -> float:
    """Seconds: a number, or a date and time (UTC unless it names its zone) since 1970, whatever the unit of numbers."""
    text = cell.strip()
    if text[4:5] == "-":
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return float(text) * factor


def _class(cell: str, factor: float) -> float:
    known = PRIORITIES.get(cell.strip().upper())
    return float(cell) * factor if known is None else known


def _models(texts: list[str]) -> list[str]:
    """The models as label values.

    openb names some models twice (V100M16|V100M32|V100M32). They stay: the study counts them as another kind of pod.
    """
    valid = {text: "|".join(filter(None, map(label_value, text.split("|")))) for text in set(texts)}
    return [valid[text] for text in texts]


def _shown(cell: object) -> str:
    text = repr(cell) if isinstance(cell, str) else f"{cell:g}"
    return text if len(text) <= 40 else f"{text[:37]}…"
