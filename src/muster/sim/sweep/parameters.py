"""Reads the parameters of generated traces and the options of replays from a grid.

The keys are the names of the fields of `Recipe` and `ReplayOptions`, written as Kubernetes writes names (meanDuration).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, get_type_hints

import msgspec

from muster.config.names import suggest
from muster.sim.durations import seconds_of
from muster.sim.traces.make import Recipe

__all__ = ["OPTIONS", "Report", "read_options", "read_recipe"]

Report = Callable[[str, str, str], None]
"""Reports a key, what is wrong with it and how to correct it."""

OPTIONS = {"cycle": "cycle", "checkpoint": "checkpoint", "sample": "sample", "until": "until"}
"""Options of a replay that are durations."""
DURATIONS = ("mean_duration", "median_duration")


def read_recipe(given: Mapping[str, Any], report: Report) -> Recipe | None:
    """Returns the recipe of a generated trace; None if something was reported."""
    names = {_camel(one.name): one.name for one in fields(Recipe)}
    hints = get_type_hints(Recipe)
    found: dict[str, Any] = {}
    wrong = False
    for key, value in given.items():
        name = names.get(key)
        if key == "seed":
            report(key, "the seeds of a generated trace are those of the grid", "write them under `seeds`")
        elif name is None:
            report(key, f"unknown parameter {key!r} of a generated trace", suggest(key, names))
        else:
            try:
                plain = seconds_of(value) if name in DURATIONS else value
                found[name] = msgspec.convert(plain, hints[name], str_keys=True)
                continue
            except msgspec.ValidationError as error:
                report(key, f"{key} is {value!r}: {error}", "see `muster trace make --help`")
            except ValueError as error:
                report(key, f"{key}: {error}", "")
        wrong = True
    return None if wrong else Recipe(**found)


def read_options(given: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Returns the options of the replays, as far as they are valid."""
    known = (*OPTIONS, "gpuResource")
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key == "gpuResource" and isinstance(value, str) and value:
            found["gpu_resource"] = value
        elif key in OPTIONS:
            try:
                found[OPTIONS[key]] = seconds_of(value)
            except ValueError as error:
                report(key, f"{key}: {error}", "")
                continue
            if not found[OPTIONS[key]]:
                report(key, f"{key} must be above 0", "leave it out for the default")
        elif key in known:
            report(key, f"{key} is {value!r}", "write the name of a resource")
        else:
            report(key, f"unknown option {key!r}", suggest(key, known))
    return found


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
