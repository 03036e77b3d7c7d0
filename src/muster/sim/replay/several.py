"""Replays a trace with several configurations, each in its own process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

from muster.engine.core.state import Objects
from muster.model.finding import InputError
from muster.sim.inputs import ConfigText, LoadedConfig, load_config
from muster.sim.replay.records import Replay
from muster.sim.replay.run import Progress, ReplayOptions, replay
from muster.sim.sweep.processes import Failure, run_in_processes
from muster.sim.traces.table import Trace

_Shared = tuple[Trace, Objects, ReplayOptions]
_Task = tuple[str, ConfigText]


def replay_each(
    trace: Trace,
    objects: Objects,
    configs: Sequence[LoadedConfig],
    options: ReplayOptions,
    processes: int = 1,
    progress: Progress | None = None,
) -> list[Replay]:
    """Returns the replay of each configuration, in their order. Raises InputError if one of them failed.

    `progress` is called with the number of jobs, in several processes with the number of configurations.
    """
    names = list(_names(configs))
    if len(configs) == 1 or processes == 1:
        return [
            replay(trace, objects, config, options, name=name, progress=_part(progress, i, len(configs)))
            for i, (name, config) in enumerate(zip(names, configs, strict=True))
        ]
    tasks = [(name, config.text) for name, config in zip(names, configs, strict=True)]
    found: dict[str, Replay] = {}
    for outcome in run_in_processes(tasks, (trace, dict(objects), options), _replay, processes):
        if isinstance(outcome.result, Failure):
            raise InputError(f"the replay with {outcome.task[0]} failed: {outcome.result.message}")
        found[outcome.task[0]] = outcome.result["replay"]
        if progress is not None:
            progress(len(found), len(tasks))
    return [found[name] for name in names]


def _part(progress: Progress | None, before: int, parts: int) -> Progress | None:
    """Returns the progress of one of several replays of the same trace, as a part of all."""
    return None if progress is None else lambda done, total: progress(before * total + done, parts * total)


def _replay(shared: _Shared, task: _Task) -> dict[str, Any]:
    (trace, objects, options), (name, text) = shared, task
    return {"replay": replay(trace, objects, load_config(text), options, name=name)}


def _names(configs: Sequence[LoadedConfig]) -> Iterator[str]:
    """Yields a unique name for each configuration: its file name, its path if another file has that name, too."""
    sources = ["default" if one.text.is_default else one.text.source for one in configs]
    counts = Counter(PurePath(source).name for source in sources)
    for source in sources:
        name = PurePath(source).name
        yield name if counts[name] == 1 else source
