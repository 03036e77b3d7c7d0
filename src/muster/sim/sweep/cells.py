"""The cells of a grid and their replays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.sim.inputs import load_config
from muster.sim.replay.metrics import metrics
from muster.sim.replay.run import ReplayOptions, replay
from muster.sim.sweep.cell import Cell
from muster.sim.sweep.code_version import code_version
from muster.sim.sweep.grid import Grid
from muster.sim.sweep.inputs import ClusterInput, ConfigurationInput, Inputs, TraceInput, digest

__all__ = ["cells_of", "run_cell", "run_cell_with"]

LAYOUT = 1  # of a result; another layout is another key


def cells_of(grid: Grid, inputs: Inputs) -> Iterator[Cell]:
    """Yields the cells in the order of the grid: traces, clusters, configurations, seeds."""
    for source in grid.traces:
        trace = inputs.traces[source.name]
        for place in grid.clusters:
            cluster = inputs.clusters[place.name]
            for one in grid.configurations:
                configuration = inputs.configurations[one.name]
                for seed in grid.seeds if source.seeded else (None,):
                    key = digest(
                        LAYOUT, code_version(), trace.digest, cluster.digest, configuration.digest,
                        inputs.options_digest, seed,
                    )[:32]  # fmt: skip
                    yield Cell(source.name, place.name, one.name, seed, key)


def run_cell(inputs: Inputs, cell: Cell) -> dict[str, Any]:
    """Runs one cell of these inputs."""
    return run_cell_with(
        cell, inputs.configurations[cell.configuration], inputs.traces[cell.trace], inputs.clusters[cell.cluster],
        dict(inputs.options),
    )  # fmt: skip


def run_cell_with(
    cell: Cell, configuration: ConfigurationInput, trace: TraceInput, cluster: ClusterInput, options: dict[str, Any]
) -> dict[str, Any]:
    """Runs one cell and returns its result in plain values, the same for the same key."""
    loaded = load_config(configuration.text)
    given = ReplayOptions(**options, node_events=cluster.node_events, now=cluster.now, seed=cell.seed)
    done = replay(trace.with_seed(cell.seed), cluster.objects, loaded, given)
    return {"metrics": metrics(done)}
