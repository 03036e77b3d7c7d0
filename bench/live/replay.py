"""Does a replay start jobs in the same order as the live scheduler did? A recorded run and its replay.

The load is about the capacity of 20 nodes with 8 GPUs each, so that jobs wait. tests/live/test_replay.py does the same
in about a minute.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import click
from scene import NAMESPACE, scene

from live.api import Plain
from live.muster_process import Scheduler
from live.recorded_load import CONFIG, NODE_GPUS, LiveJobs, Scale, cluster, create_cluster, load_trace
from live.recorded_run import Recorder
from live.recording import Recording, read_recording, waits, write_recording
from live.start_order import TOLERANCE_S, Comparison, compared, replayed
from muster.sim.bench.record import commit_name, machine_name


@click.command("replay")
@click.option("--minutes", default=60.0, show_default=True)
@click.option("--nodes", default=20, show_default=True, help="Of 8 GPUs each.")
@click.option("--load", default=1.1, show_default=True, help="Relative to the GPUs of all nodes.")
@click.option("--seed", default=16, show_default=True)
@click.option("--spread", is_flag=True, help="Let the scheduler see the pods of a job come and go one by one.")
@click.option(
    "--save", type=click.Path(file_okay=False, path_type=Path), help="Write the recording and the record there."
)
@click.option(
    "--again", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Replay the recording of this folder; nothing is recorded.",
)  # fmt: skip
def replay(
    minutes: float, nodes: int, load: float, seed: int, spread: bool, save: Path | None, again: Path | None
) -> None:
    """Record a run of the live scheduler and replay it, as JSON. The exit code is 1 if the order of starts differs."""
    if again is not None:
        facts = json.loads((again / "replay.json").read_text(encoding="utf-8"))["recorded"]
        recording = read_recording(again, facts["seconds"])
    else:
        scale = Scale(nodes, minutes * 60, mean=150, shortest=30, longest=600, gap=1.0, load=load)
        recording, facts = _recorded(scale, seed, spread)
    objects = cluster(facts["nodes"], recording.trace)
    found = compared(recording, replayed(recording, objects, CONFIG))
    by_default = compared(recording, replayed(recording, objects, CONFIG, cycle=None))
    record = {
        "command": "python bench/live replay", "recorded": facts, "tolerance, s": TOLERANCE_S,
        "replayed with a cycle every 20 ms": _shown(found),
        "replayed with at most one cycle in a second": _shown(by_default),
    }  # fmt: skip
    text = json.dumps(record, indent=1)
    click.echo(text)
    if save is not None:
        write_recording(save, recording)
        (save / "replay.json").write_text(text + "\n", encoding="utf-8")
    if not found.equal:
        raise SystemExit(1)


def _recorded(scale: Scale, seed: int, spread: bool) -> tuple[Recording, Plain]:
    """Returns the recording, and what is worth knowing about it."""
    planned = load_trace(scale, seed)
    made = cluster(scale.nodes, planned)
    with scene(0) as plane:
        create_cluster(plane.api, made)
        with Scheduler(plane.kubeconfig, config=CONFIG) as scheduler:
            jobs = LiveJobs(planned, made, NAMESPACE)
            run = Recorder(plane.api, scheduler, NAMESPACE, planned, jobs, scale.gap, spread=spread).play(scale.seconds)
            cpu_s, faults = scheduler.cpu_s, scheduler.metric("muster_faults_total")
    recording = run.recording(planned)
    return recording, {
        "machine": machine_name(), "commit": commit_name(), "nodes": scale.nodes, "GPUs": scale.nodes * NODE_GPUS,
        "load": scale.load, "seed": seed, "pods of a job come and go one by one": spread,
        "seconds": recording.seconds, "jobs submitted": len(run.submit), "jobs started": len(run.start),
        "jobs ended": len(run.ends), **waits(recording), "scheduler's CPU, s": round(cpu_s, 1),
        "scheduler's faults": faults, "load average": round(os.getloadavg()[1], 1),
    }  # fmt: skip


def _shown(found: Comparison) -> Plain:
    return {"equal order of starts": found.equal, **_shortened(asdict(found))}


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
