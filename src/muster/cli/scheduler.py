"""`muster scheduler`: the scheduler on a live cluster."""

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
@click.option("--scheduler-name", "scheduler_names", multiple=True, default=("muster",), show_default=True,
              metavar="NAME", help="Schedule pods with this schedulerName. May be given several times.")  # fmt: skip
@options.config
@lease_options("scheduler")
@options.configured
@click.option("--metrics-host", "--host", "metrics_host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Where /healthz, /readyz and /metrics listen.")  # fmt: skip
@click.option("--metrics-port", "--port", "metrics_port", type=click.IntRange(0, 65535), default=8080,
              show_default=True, metavar="PORT", help="Their port; 0 takes any that is free and logs it.")  # fmt: skip
@click.option("--period", type=click.FloatRange(min=0.1), default=10.0, show_default=True, metavar="SECONDS",
              help="While pods wait, look again at least so often; changes start a cycle at once.")  # fmt: skip
@click.option("--binds-in-flight", type=click.IntRange(min=1), default=64, show_default=True, metavar="N",
              help="Calls that write to the API server at the same time.")  # fmt: skip
@click.option("--volume-patience", type=click.FloatRange(min=1), default=600.0, show_default=True, metavar="SECONDS",
              help="How long a pod's claims may take to be bound before it is placed anew.")  # fmt: skip
@options.verbosity
def scheduler(
    kubeconfig: str | None,
    context: str | None,
    scheduler_names: tuple[str, ...],
    config: str | None,
    lease: Callable[[], LeaseSettings],
    configured: Callable[[], str],
    metrics_host: str,
    metrics_port: int,
    period: float,
    binds_in_flight: int,
    volume_patience: float,
    verbosity: int,
) -> None:
    """Schedule the pods of a cluster until told to stop (SIGTERM ends gracefully).

    Logs are JSON lines on stderr. The configuration is followed: a changed one is checked first, and the last good one
    stays in use.
    """
    from muster.cli.install.rights import SCHEDULER
    from muster.cli.live import own_pod, run_until_stopped, writes_of
    from muster.cli.reading import BadInput
    from muster.process.config_sources import InvalidConfig
    from muster.process.logs import Log
    from muster.scheduler.service import Service, Settings
    from muster.sim.memory import keep_freed_memory

    keep_freed_memory()

    file, config_map = _place(config)
    settings = Settings(
        lease=lease(),
        kubeconfig=kubeconfig,
        context=context,
        config=file,
        config_map=config_map,
        pod=own_pod(),
        scheduler_names=scheduler_names,
        metrics_host=metrics_host,
        metrics_port=metrics_port,
        period=period,
        at_once=binds_in_flight,
        claim_patience=volume_patience,
        needs=writes_of(SCHEDULER),
        applications=configured(),
    )
    try:
        run_until_stopped(Service(settings, Log(verbosity)).run)
    except InvalidConfig as why:
        raise BadInput(str(why)) from None


def _place(config: str | None) -> tuple[str | None, str]:
    """The file, or the ConfigMap with its namespace."""
    from muster.cli.live import config_map_place
    from muster.config.announced import PREFIX

    if config is None or not config.startswith(PREFIX):
        return config, ""
    return None, config_map_place(config)
