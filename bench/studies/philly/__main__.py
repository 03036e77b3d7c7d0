"""`python bench/studies/philly --data DIR`: replays the Philly trace with drf, proportion and capacity.

Microsoft's trace has 82,247 jobs of 15 virtual clusters in 109 days. A virtual cluster is a queue whose weight (for
capacity: whose deserved share) is its part of the GPU-hours. The cluster has nodes with eight GPUs; its size is stated
in the record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from replays import GPUS_OF_A_NODE, cluster, run

from muster.sim.bench.record import commit_name, machine_name
from muster.sim.replay.metrics import metrics
from muster.sim.replay.page import page
from muster.sim.sweep.processes import Failure, run_in_processes
from muster.sim.traces import read_trace

POLICIES = ("drf", "proportion", "capacity")
LIMIT_S = 300.0  # CPU seconds of one replay


@click.command()
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path), required=True,
              help="The folder with philly.csv.")  # fmt: skip
@click.option("--nodes", type=click.IntRange(min=1), default=96, show_default=True, help="Nodes with eight GPUs.")
@click.option("--jobs", type=click.IntRange(min=1), help="Only the first jobs of the trace.")
@click.option("--policies", default=",".join(POLICIES), show_default=True, help="Names with commas.")
@click.option("--processes", type=click.IntRange(min=1), default=os.cpu_count() or 1, show_default=True)
@click.option("--save", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Write philly.json and philly.html there.")  # fmt: skip
def main(data: Path, nodes: int, jobs: int | None, policies: str, processes: int, save: Path | None) -> None:
    """Replays the Philly trace and compares three policies."""
    trace = replace(read_trace([str(data / "philly.csv")]), source="philly.csv")  # the record names no folder
    if jobs is not None:
        trace = trace.select(np.arange(min(jobs, len(trace))))
    shared = trace, cluster(trace, nodes)
    found: dict[str, dict[str, Any]] = {}
    names = policies.split(",")
    for outcome in run_in_processes(names, shared, run, processes):
        if isinstance(outcome.result, Failure):
            raise click.ClickException(f"{outcome.task}: {outcome.result.message}\n{outcome.result.trace}")
        found[outcome.task] = outcome.result
        click.echo(line(outcome.task, outcome.result))
    results = [found[name] for name in names]
    record = {
        "machine": machine_name(),
        "commit": commit_name(),
        "jobs": len(trace),
        "gpu_hours": round(float((trace.gpus * trace.duration).sum()) / 3600, 1),
        "nodes": nodes,
        "gpus": nodes * GPUS_OF_A_NODE,
        "replays": {
            name: {
                "cpu_seconds": round(one["cpu_seconds"], 3),
                "rss_mib_at_each_tenth": one["rss_mib"],
                **metrics(one["replay"]),
            }
            for name, one in zip(names, results, strict=True)
        },
    }
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        (save / "philly.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        title = f"Philly: {len(trace):,} jobs on {nodes} nodes with {GPUS_OF_A_NODE} GPUs"
        made = page([one["replay"] for one in results], title, [("command", "python bench/studies/philly")])
        (save / "philly.html").write_text(made, encoding="utf-8")
    if any(one["cpu_seconds"] > LIMIT_S for one in results):
        raise SystemExit(1)


def line(name: str, one: Mapping[str, Any]) -> str:
    result = one["replay"]
    done = ~np.isnan(result.end)
    wait = float(np.nanmean(result.start - result.trace.submit))
    return (
        f"{name}: {int(done.sum()):,} of {len(done):,} jobs completed, {wait / 3600:.2f} h mean waiting time, "
        f"{result.cycles:,} cycles, {one['cpu_seconds']:.1f} CPU s, {one['rss_mib'][-1:]} MiB"
    )


if __name__ == "__main__":
    main()
