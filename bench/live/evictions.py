"""Are evictions sound while gangs come and go at 130 % of the capacity? The record of the live eviction churn.

Two orders of actions and two kinds of tiers, one after the other on one control plane; the load is that of
tests/live/test_eviction_churn.py, larger and longer.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import click
from scene import NAMESPACE, as_json, rests, save_record, scene

from live.api import Plain
from live.eviction_load import LOAD, Scale
from live.eviction_trial import ORDERS, SEED, TIERS, clear, configuration, set_up, trial
from muster.sim.bench.record import commit_name, machine_name

RUNS = {f"{order},{tiers}": (order, tiers) for order, tiers in product(ORDERS, TIERS)}


@click.command()
@click.option("--nodes", default=300, show_default=True)
@click.option("--gangs", default=200, show_default=True, help="Of 8 to 64 pods, half of them elastic.")
@click.option("--seconds", default=150.0, show_default=True, help="Of each configuration.")
@click.option("--plain-every", default=1.0, show_default=True, help="Seconds between plain pods of high priority.")
@click.option("--seed", default=SEED, show_default=True)
@click.option("--only", multiple=True, type=click.Choice(list(RUNS)), help="May be given several times.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Write events and logs of runs there.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the record there, too.")
def evictions(
    nodes: int, gangs: int, seconds: float, plain_every: float, seed: int, only: tuple[str, ...], keep: Path | None,
    save: Path | None,
) -> None:  # fmt: skip
    """Evictions under a changing load, as JSON. The exit code is 1 when a requirement is not met."""
    scale = Scale(nodes, gangs, seconds, plain_every)
    rows: dict[str, Plain] = {}
    with scene(0) as plane:
        set_up(plane.api, scale)
        for name in only or RUNS:
            rests(plane)
            config, folder = configuration(*RUNS[name]), None if keep is None else keep / name
            _, rows[name] = trial(plane, plane.kubeconfig, NAMESPACE, scale, config, seed, folder)
            clear(plane.api, NAMESPACE)
            click.echo(_line(name, rows[name]), err=True)
            for fault in rows[name]["faults"]:
                click.echo(f"  {fault}", err=True)
    record = {
        "machine": machine_name(), "commit": commit_name(), "nodes": nodes, "gangs": gangs, "load": LOAD, "seed": seed,
        "runs": rows,
    }  # fmt: skip
    click.echo(as_json(record))
    save_record(record, save)
    if any(row["faults"] for row in rows.values()):
        raise SystemExit(1)


def _line(name: str, row: Plain) -> str:
    return (
        f"{name}: {row['evictions']} evictions, {row['bindings']} bindings, {row['useful_share']:.1%} useful, "
        f"{row['cpu_ms_per_binding']} ms of CPU per binding, load average {row['load_average'][0]}"
    )
