"""One run of the eviction churn under one configuration: the scheduler, the load, the findings and the costs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path

import yaml

from live.api import Api, Plain, place, until
from live.controlplane import ControlPlane
from live.eviction_check import Findings, Run, claims_in, faults, findings
from live.eviction_churn import Churn
from live.eviction_load import Scale, cluster, gangs, singles
from live.muster_process import Scheduler, create_all
from live.part_process import cpu_seconds
from muster.kube import Client, load

RECOMMENDED = Path(__file__).parents[2] / "deploy" / "scheduler-with-evictions.yaml"
# The second order is the one of the designs' samples: reclaim looks for victims before allocate uses idle nodes.
ORDERS = {
    "allocate-first": "enqueue, allocate, reclaim, preempt, backfill",
    "reclaim-first": "enqueue, reclaim, allocate, backfill, preempt",
}
TIERS = ("usual-tiers", "single-tier")
FAST = Scale(nodes=60, gangs=30, seconds=25, plain_every=1.0)
SEED = 12


def configuration(order: str, tiers: str) -> str:
    """The recommended configuration with another order of actions, or with all plugins in one tier."""
    config = yaml.safe_load(RECOMMENDED.read_text(encoding="utf-8"))
    config["actions"] = ORDERS[order]
    if tiers == "single-tier":
        config["tiers"] = [{"plugins": [plugin for tier in config["tiers"] for plugin in tier["plugins"]]}]
    return yaml.safe_dump(config, sort_keys=False)


def set_up(api: Api, scale: Scale) -> list[Plain]:
    """Creates nodes, queues and priority classes; returns them to be deleted."""
    made = cluster(scale)
    create_all(api, made, 8)
    until("the nodes to be ready", lambda: _ready(api) >= scale.nodes, 120, 0.5)
    return made


def tear_down(api: Api, namespace: str, made: list[Plain]) -> None:
    clear(api, namespace)
    for obj in made:
        api.delete(place(obj))


def clear(api: Api, namespace: str) -> None:
    """Deletes the pods and groups of a run."""
    for path in (f"/api/v1/namespaces/{namespace}/pods",
                 f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"):  # fmt: skip
        api.delete(path, {"gracePeriodSeconds": 0})
        until(f"{path} is empty", lambda path=path: not api.list(f"{path}?limit=1"), 60, 0.5)  # type: ignore[misc]


def trial(
    plane: ControlPlane, kubeconfig: Path, namespace: str, scale: Scale, config: str, seed: int = SEED,
    keep: Path | None = None,
) -> tuple[Findings, Plain]:  # fmt: skip
    """The findings, and the record of the run: findings, faults, load of the machine and CPU of everybody.

    In the folder `keep` it leaves what is needed to find a cause: the events of the pods and the scheduler's log.
    """
    others = {part: plane.pid(part) for part in plane.parts}
    # At -v 1 the log names evictions and the cycles that decided something, but not bindings.
    with Scheduler(kubeconfig, "-v", "1", config=config) as scheduler:
        calls = scheduler.api_calls()
        before, cpu = {part: cpu_seconds(pid) for part, pid in others.items()}, scheduler.cpu_s
        own = time.process_time()
        run = asyncio.run(_play(plane, namespace, scale, seed))
        run.cpu_s = scheduler.cpu_s - cpu
        calls = scheduler.api_calls() - calls
        run.calls = calls.total() - calls["POST pods/eviction"]
        cpu_s = {part: round(cpu_seconds(pid) - before[part], 1) for part, pid in others.items()}
        cpu_s.update({"muster": round(run.cpu_s, 1), "load-generator": round(time.process_time() - own, 1)})
        log = scheduler.log()
        actions = _seconds_by_action(scheduler)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(scheduler.log_file, keep / "scheduler.log")
            lines = (json.dumps(event._asdict()) for event in run.events)
            (keep / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    run.cycles = claims_in(log)
    found = findings(run)
    cycles = sorted(float(str(entry["milliseconds"])) for entry in log if entry.get("msg") == "cycle")
    record: Plain = {
        "faults": faults(found), **_shortened(asdict(found)), "seconds": round(run.end, 1),
        "gangs_finished": _finished(run),
        "api_calls": dict(calls.most_common(12)),
        "cpu_s": cpu_s, "cycles": len(cycles), "cycle_ms_median": cycles[len(cycles) // 2] if cycles else 0.0,
        "cycle_ms_most": cycles[-1] if cycles else 0.0, "action_s": actions,
        "load_average": [round(one, 1) for one in os.getloadavg()],
    }  # fmt: skip
    return found, record


async def _play(plane: ControlPlane, namespace: str, scale: Scale, seed: int) -> Run:
    async with Client(load(str(plane.kubeconfig))) as client:
        churn = Churn(client, namespace, gangs(scale, seed), singles(scale, seed))
        await churn.play(scale.seconds)
        return churn.run


def _shortened(found: Plain) -> Plain:
    """Long lists become their length and their first entries."""
    made: Plain = {}
    for name, value in found.items():
        if name in ("partial", "mutual", "second_claims"):
            entries = list(value.items()) if isinstance(value, dict) else value
            made[name], made[f"{name}_first"] = len(entries), entries[:5]
        else:
            made[name] = round(value, 4) if isinstance(value, float) else value
    return made


def _finished(run: Run) -> int:
    return sum(job in run.minimum for job in run.finished)


def _seconds_by_action(scheduler: Scheduler) -> dict[str, float]:
    name = "volcano_action_scheduling_latency_milliseconds_sum"
    actions = ("enqueue", "allocate", "reclaim", "preempt", "backfill")
    return {action: round(scheduler.metric(name, f'action="{action}"') / 1000, 2) for action in actions}


def _ready(api: Api) -> int:
    return sum(
        any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
        and not node["spec"].get("taints")
        for node in api.list("/api/v1/nodes?resourceVersion=0")
    )
