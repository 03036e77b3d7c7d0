"""`python bench/live COMMAND`: muster measured on a real control plane."""

from __future__ import annotations

import click
from burst import burst
from compare import compare
from evictions import evictions
from gate_and_webhook import gate_and_webhook
from native_groups import native_groups
from replay import replay
from restart import restart
from scheduler_perf import scheduler_perf
from workload_kinds import workload_kinds


@click.group()
def main() -> None:
    """Measures on a real control plane with KWOK nodes, all of it on this machine. Needs what `make e2e` needs."""


main.add_command(burst)
main.add_command(compare)
main.add_command(restart)
main.add_command(gate_and_webhook)
main.add_command(evictions)
main.add_command(native_groups)
main.add_command(replay)
main.add_command(scheduler_perf)
main.add_command(workload_kinds)
main()
