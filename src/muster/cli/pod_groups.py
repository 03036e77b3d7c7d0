"""`muster pod-groups`: PodGroups for pods that name none, on a live cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.lease import lease as lease_options

if TYPE_CHECKING:
    from muster.process.leadership import LeaseSettings


@click.command()
@options.kubeconfig
@lease_options("pod-groups")
@click.option("--scheduler-name", "scheduler_names", multiple=True, default=("muster",), show_default=True,
              metavar="NAME", help="For pods with this schedulerName. May be given several times.")  # fmt: skip
@click.option("--metrics-host", "--host", "metrics_host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Where /healthz, /readyz and /metrics listen.")  # fmt: skip
@click.option("--metrics-port", "--port", "metrics_port", type=click.IntRange(0, 65535), default=8080,
              show_default=True, metavar="PORT", help="Their port; 0 takes any that is free and logs it.")  # fmt: skip
@options.verbosity
def pod_groups(
    kubeconfig: str | None,
    context: str | None,
    lease: Callable[[], LeaseSettings],
    scheduler_names: tuple[str, ...],
    metrics_host: str,
    metrics_port: int,
    verbosity: int,
) -> None:
    """Write the PodGroups of pods that name none until told to stop (SIGTERM ends gracefully).

    The scheduler has the same groups in memory; written, everybody can see them. A Deployment, StatefulSet or Job asks
    for more than one pod at a time by its annotation scheduling.volcano.sh/group-min-member. Pods behind Volcano's
    queue-allocation gate are let go when the scheduler has admitted them.
    """
    from muster.cli.live import run_until_stopped
    from muster.groupctl.controllers.pod_group_service import Service, Settings
    from muster.process.logs import Log

    settings = Settings(
        lease=lease(),
        scheduler_names=scheduler_names,
        kubeconfig=kubeconfig,
        context=context,
        probes_host=metrics_host,
        probes_port=metrics_port,
    )
    run_until_stopped(Service(settings, Log(verbosity)).run)
