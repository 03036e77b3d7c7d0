"""The arguments of one plugin or action, with their lines and typed readers.

A reader never fails. If a value cannot be used, the default is used instead, and a finding with file and line reports
it; it is recorded once, however often the value is read.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from muster.model.finding import Finding
from muster.model.yamlevents import resolve

__all__ = ["Arguments", "as_bool"]

_MAX_INTEGER = 2**63 - 1  # the largest value of a column of integers
# What Go's ParseBool accepts, and the booleans of YAML 1.1, which Volcano's reader accepts.
_TRUE = {"1", "t", "true", "y", "yes", "on"}
_FALSE = {"0", "f", "false", "n", "no", "off"}


def as_bool(value: object) -> bool | None:
    """Returns the boolean of a value or a text; None if it is not a boolean."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.strip().lower()
        return True if word in _TRUE else False if word in _FALSE else None
    return None


class Arguments(Mapping[str, Any]):
    """A read-only mapping of raw values, with typed readers."""

    def __init__(
        self,
        values: Mapping[str, Any] = MappingProxyType({}),
        *,
        owner: str = "",
        file: str = "",
        line_of: Callable[[Sequence[str]], builtins.int | None] = lambda path: None,
    ) -> None:
        self._values = dict(values)
        self.owner = owner
        self.file = file
        self._line_of = line_of
        self._path: tuple[str, ...] = ()
        self._findings: dict[tuple[str, ...], Finding] = {}

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> builtins.int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Arguments({self._values!r})"

    @property
    def findings(self) -> list[Finding]:
        """Returns the findings of the readers so far, including those of nested mappings."""
        return list(self._findings.values())

    def line_of(self, key: str) -> builtins.int | None:
        """Returns the line of a key in its file."""
        return self._line_of((*self._path, key))

    def warn(self, key: str, message: str, fix: str = "", code: str = "argument-value") -> None:
        """Records a warning about the value of a key, once."""
        path = (*self._path, key)
        text = f"{'.'.join(path)} {message}"
        finding = Finding("warning", self.file, self._line_of(path), self.owner, code, text, fix)
        self._findings.setdefault((*path, code, message), finding)

    def int(
        self, key: str, default: builtins.int, minimum: builtins.int | None = None, maximum: builtins.int | None = None
    ) -> builtins.int:
        """Reads a whole number. As in Volcano, a float is not a whole number, whatever its value."""
        if key not in self._values:
            return default
        try:
            number = self._number(key)
            if isinstance(number, float):
                raise ValueError("is not a whole number")
            _check_range(number, minimum, maximum)
            return number
        except ValueError as why:
            self._use_default(key, default, why, _expected("a whole number", minimum, maximum))
            return default

    def float(
        self,
        key: str,
        default: builtins.float,
        minimum: builtins.float | None = None,
        maximum: builtins.float | None = None,
    ) -> builtins.float:
        """Reads a number."""
        if key not in self._values:
            return default
        try:
            number = self._number(key)
            _check_range(number, minimum, maximum)
            return float(number)
        except ValueError as why:
            self._use_default(key, default, why, _expected("a number", minimum, maximum))
            return default

    def bool(self, key: str, default: builtins.bool) -> builtins.bool:
        """Reads a boolean."""
        if key not in self._values:
            return default
        value = self._values[key]
        taken = as_bool(value)
        if taken is None:
            self._use_default(key, str(default).lower(), "is neither true nor false", "true or false")
            return default
        if not isinstance(value, bool):
            word = str(taken).lower()
            self.warn(key, f"is the text {value!r}: taken as {word}", f"write {word}", "argument-text")
        return taken

    def text(self, key: str, default: str, choices: Sequence[str] = ()) -> str:
        """Reads a text; it must be one of the choices, if there are any."""
        if key not in self._values:
            return default
        value = self._values[key]
        if isinstance(value, str) and (not choices or value in choices):
            return value
        expected = "one of " + ", ".join(choices) if choices else "a text"
        self._use_default(key, repr(default), f"is not {expected}", expected)
        return default

    def mapping(self, key: str) -> Arguments:
        """Returns the nested mapping of a key; empty if there is none."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, dict):  # a key without a value is an empty mapping
            self._use_default(key, "none", "is not a mapping", "a mapping")
            value = None
        below = Arguments(value or {}, owner=self.owner, file=self.file, line_of=self._line_of)
        below._path = (*self._path, key)
        below._findings = self._findings
        return below

    def strings(self, key: str, default: Sequence[str] = ()) -> tuple[str, ...]:
        """Reads names, separated by commas or as a list."""
        value = self._values.get(key)
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, list):
            if value is not None:
                expected = "names separated by commas, or a list"
                self._use_default(key, ", ".join(default) or "none", f"is not {expected}", expected)
            return tuple(default)
        for entry in value:
            if not isinstance(entry, str):
                self.warn(key, f"holds {entry!r}, which is not a text: ignored", "give names only")
        names = (entry.strip() for entry in value if isinstance(entry, str))
        return tuple(dict.fromkeys(name for name in names if name))

    def _number(self, key: str) -> builtins.int | builtins.float:
        value = self._values[key]
        number = resolve(value.strip()) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise ValueError("is not a number")
        if abs(number) > _MAX_INTEGER:
            raise ValueError("is too large")
        if isinstance(value, str):
            self.warn(key, f"is the text {value!r}: taken as the number {number}", f"write {number}", "argument-text")
        return number

    def _use_default(self, key: str, default: object, why: object, expected: str) -> None:
        """Warns that the value cannot be used and returns the default."""
        value = self._values[key]
        if value is None:
            self.warn(key, f"has no value: using {default}", f"give {expected}, or leave the key out")
        else:
            self.warn(key, f"is {value!r}, which {why}: using {default}", f"give {expected}")


def _check_range(number: float, minimum: float | None, maximum: float | None) -> None:
    if minimum is not None and number < minimum:
        raise ValueError(f"is less than {minimum}")
    if maximum is not None and number > maximum:
        raise ValueError(f"is more than {maximum}")


def _expected(what: str, minimum: float | None, maximum: float | None) -> str:
    bounds = [f"at least {minimum}"] * (minimum is not None) + [f"at most {maximum}"] * (maximum is not None)
    return f"{what}, {' and '.join(bounds)}" if bounds else what
