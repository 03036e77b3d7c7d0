"""Does a replay start jobs in the same order as the live scheduler did? A recorded run and its replay.

The load is about the capacity of 20 nodes with 8 GPUs each, so that jobs wait. tests/live/test_replay.py does the same
in about a minute.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import click
import numpy as np
from scene import NAMESPACE, scene

from live.muster_process import Scheduler
from live.recorded_load import CONFIG, LiveJobs, Scale, cluster, cluster_objects, create_cluster, load_trace
from live.recorded_run import Recorder
from live.start_order import CYCLE_S, TOLERANCE_S, compared, csv_of, replayed
from muster.sim.bench.record import commit_name, machine_name
from muster.sim.traces.read import read_trace


@click.command("replay")
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--nodes", default=20, show_default=True, help="Of 8 GPUs each.")
@click.option("--load", default=1.05, show_default=True, help="Relative to the GPUs of all nodes.")
@click.option("--seed", default=16, show_default=True)
@click.option("--spread", is_flag=True, help="Let the scheduler see the pods of a job come and go one by one.")
@click.option("--keep", type=click.Path(dir_okay=False, path_type=Path), help="Write the scheduler's log there.")
@click.option("--save", type=click.Path(file_okay=False, path_type=Path), help="Write the record and the trace there.")
def replay(
    minutes: float, nodes: int, load: float, seed: int, spread: bool, keep: Path | None, save: Path | None
) -> None:
    """Record a run of the live scheduler and replay it, as JSON. The exit code is 1 if the order of starts differs."""
    scale = Scale(nodes, minutes * 60, mean=150, shortest=30, longest=600, gap=1.0, load=load)
    planned = load_trace(scale, seed)
    made = cluster(scale, planned)
    jobs = LiveJobs(planned, made, NAMESPACE)
    with scene(0) as plane:
        api = plane.api
        create_cluster(api, made)
        objects = cluster_objects(api)
        with Scheduler(plane.kubeconfig, config=CONFIG) as scheduler:
            recorder = Recorder(api, scheduler, NAMESPACE, planned, jobs, scale.gap, spread=spread)
            recorded = recorder.play(scale.seconds)
            if keep is not None:
                shutil.copy(scheduler.log_file, keep)
            cpu_s, faults = scheduler.cpu_s, scheduler.metric("muster_faults_total")
    trace, live = recorded.trace(planned), recorded.start_by_name(planned)
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
        (save / "replay-trace.csv").write_bytes(csv_of(trace))
        (save / "replay-cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        (save / "replay-starts.json").write_text(json.dumps(live, indent=0))
        trace = read_trace([str(save / "replay-trace.csv")])
    until_s = recorded.end - trace.epoch
    again = replayed(trace, objects, CONFIG, until_s)
    found = compared(live, again)
    by_default = compared(live, replayed(trace, objects, CONFIG, until_s, cycle=None))
    waits = np.array([live[name] - trace.submit[i] for i, name in enumerate(trace.names) if name in live])
    record = {
        "command": "python bench/live replay" + " --spread" * spread, "machine": machine_name(),
        "commit": commit_name(), "minutes": minutes, "nodes": nodes, "gpus": nodes * 8, "load": load, "seed": seed,
        "submitted": len(recorded.submit), "started": len(recorded.start), "ended": len(recorded.ends),
        "cycles that started jobs": len(recorded.starts_of_cycle),
        "waited more than 5 s": int((waits > 5).sum()), "longest wait, s": round(float(waits.max()), 1),
        "scheduler's CPU, s": round(cpu_s, 1), "faults": faults, "load average": round(os.getloadavg()[1], 1),
        "until, s": round(until_s, 3), "tolerance, s": TOLERANCE_S, "cycle of the replay, s": CYCLE_S,
        "equal order of starts": found.equal, **_shortened(asdict(found)),
        "with at most one cycle in a second": {"equal": by_default.equal, **_shortened(asdict(by_default))},
    }  # fmt: skip
    text = json.dumps(record, indent=1)
    click.echo(text)
    if save is not None:
        (save / "replay.json").write_text(text + "\n", encoding="utf-8")
    if not found.equal:
        raise SystemExit(1)


def _shortened(found: dict[str, object]) -> dict[str, object]:
    """Long lists become their length and their first entries."""
    made: dict[str, object] = {}
    for name, value in found.items():
        if isinstance(value, list | tuple):
            made[name] = len(value)
            if value:
                made[f"{name}, the first"] = value[:5]
        else:
            made[name] = value
    return made
