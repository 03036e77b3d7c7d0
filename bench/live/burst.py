"""CPU time of `muster scheduler` per bound pod in a burst, with a stand-in for the API server."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import click
import yaml
from burst_server import Burst, serve
from compare import GANG
from scene import cpu_seconds

from live.certificates import Authority
from live.muster_process import Scheduler


@click.command()
@click.option("--nodes", default=1000, show_default=True)
@click.option("--pods", default=5000, show_default=True)
@click.option("--per-second", default=400, show_default=True, help="Pods created in a second.")
@click.option("--gangs", is_flag=True, help=f"Gangs of {GANG} instead of single pods.")
@click.option("--rounds", default=1, show_default=True)
@click.option("--spy", default="", help="A command that is started with the scheduler's pid as its last argument.")
def burst(nodes: int, pods: int, per_second: int, gangs: bool, rounds: int, spy: str) -> None:
    """The scheduler's CPU time per bound pod with a stand-in for the API server: what a profile of it needs."""
    for _ in range(rounds):
        print(f"{_measured(nodes, pods, per_second, GANG if gangs else 0, spy):.3f} ms a pod", flush=True)


def _measured(nodes: int, pods: int, per_second: int, gang: int, spy: str) -> float:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        authority = Authority(Path(folder))
        authority.server("server")
        process = context.Process(
            target=serve, args=(Burst(folder, nodes, pods, per_second, gang), theirs), daemon=True
        )
        process.start()
        config = {
            "clusters": [{"name": "c", "cluster": {
                "server": f"https://127.0.0.1:{ours.recv()}", "certificate-authority": f"{folder}/ca.crt"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x",
        }  # fmt: skip
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")
        with Scheduler(kubeconfig, "-v", "0") as scheduler:
            time.sleep(1)
            spying = subprocess.Popen([*spy.split(), str(scheduler.pid)]) if spy else None
            before = cpu_seconds(scheduler.pid)
            ours.send("create")
            ours.recv()
            took = cpu_seconds(scheduler.pid) - before
            if spying is not None:
                spying.send_signal(signal.SIGINT)
                spying.wait()
        process.terminate()
        return 1000 * took / pods
