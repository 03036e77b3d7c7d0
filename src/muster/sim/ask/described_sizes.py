"""The numbers of pods in a workload of a described kind: `replicas` or `instances` beside a template.

A description says how to read a workload, not how to write it. So the numbers are found by the names that operators
use; a simulation shows whether a smaller number lets the job run.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from muster.model.custom import ConfiguredApplication

__all__ = ["numbers_in", "with_number"]

_NUMBERS = ("replicas", "instances")
_MINIMUMS = ("minReplicas", "minAvailable")
Path = tuple[str | int, ...]


def numbers_in(workload: ConfiguredApplication) -> Iterator[tuple[Path, int]]:
    """Yields the path of each number of pods in the spec, and the number."""
    yield from _numbers(workload.spec, ())


def _numbers(value: Any, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _numbers(item, (*path, i))
    elif isinstance(value, dict):
        for name in _NUMBERS:
            number = value.get(name)
            templated = name == "instances" or any("template" in key.lower() for key in value)
            if isinstance(number, int) and not isinstance(number, bool) and templated:
                yield (*path, name), number
        for name, inner in value.items():
            if "template" not in name.lower():  # what is in a pod template has no replicas
                yield from _numbers(inner, (*path, name))


def with_number(workload: ConfiguredApplication, path: Path, number: int) -> dict[str, Any]:
    """Returns a copy of the spec with another number there; minimums beside it follow, if they were larger."""
    spec = deepcopy(workload.spec)
    at: Any = spec
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = number
    for name in _MINIMUMS:
        if isinstance(at.get(name), int):
            at[name] = min(at[name], number)
    return spec
