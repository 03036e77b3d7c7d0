"""Native PodGroups: how many of the groups that can be placed kube-scheduler places, and how many muster places.

100 random groups of at most six pods on at most six nodes, with rules between their pods; and groups with a topology
key whose nodes are full of pods of lower priority. An exhaustive search can place all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from scene import as_json, save_record  # makes the tests importable, too

from live.controlplane import ControlPlane
from live.muster_process import Scheduler
from live.native_comparison import create_nodes, placed_by
from live.native_plane import FLAGS, PREEMPT
from muster.model.crd import OURS, PEERS
from muster.sim.bench.record import commit_name, machine_name
from oracles.group_placement import placeable


@contextmanager
def _kube_scheduler(plane: ControlPlane) -> Iterator[None]:
    plane.run("kube-scheduler")
    plane.wait_ready("kube-scheduler")
    yield
    plane.kill("kube-scheduler")


@click.command("native-groups")
@click.option("--groups", default=100, show_default=True, help="Groups with rules between pods.")
@click.option("--with-victims", default=30, show_default=True, help="Groups with a topology key that need victims.")
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the record there, too.")
def native_groups(groups: int, with_victims: int, save: Path | None) -> None:
    """The same native PodGroups for kube-scheduler 1.36 and for muster, as JSON."""
    rows: dict[str, dict[str, int]] = {}
    for name, count, victims in (("groups", groups, False), ("groups that need victims", with_victims, True)):
        cases = placeable(count, victims=victims)
        with ControlPlane(parts=("etcd", "kube-apiserver", "kube-controller-manager", "kwok"), flags=FLAGS) as plane:
            api = plane.api
            for definition in (*OURS, *PEERS):
                api.apply(definition.plain())
            create_nodes(api, cases)
            row = rows[name] = {"groups": count}
            row["kube-scheduler"] = placed_by(api, "by-kube", cases, "default-scheduler", _kube_scheduler(plane))
            muster = Scheduler(plane.kubeconfig, "-v", "0", config=PREEMPT)
            row["muster"] = placed_by(api, "by-muster", cases, "muster", muster)
            click.echo(f"{name}: {row}", err=True)
    record = {
        "command": "python bench/live native-groups", "machine": machine_name(), "commit": commit_name(),
        "kubernetes": "1.36, scheduling.k8s.io/v1alpha2", "placed whole": rows,
    }  # fmt: skip
    click.echo(as_json(record))
    save_record(record, save)
