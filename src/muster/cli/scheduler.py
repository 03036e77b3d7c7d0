"""`muster scheduler`: the scheduler on a live cluster."""

from __future__ import annotations

import click

from muster.cli import options
from muster.cli.flags import flags
from muster.cli.help import Command
from muster.scheduler.settings import SchedulerSettings


@click.command(cls=Command, example="muster scheduler -c scheduler.yaml --no-leader-elect")
@flags(SchedulerSettings, "scheduler")
@options.verbosity
def scheduler(settings: SchedulerSettings, verbosity: int) -> None:
    """Schedule the pods of a cluster until SIGTERM.

    Logs are JSON lines on stderr. A changed configuration is validated and then used; if it is invalid, the last valid
    configuration stays in use.
    """
    from muster.cli.install.rights import SCHEDULER
    from muster.cli.live import run_until_stopped, writes_of
    from muster.cli.reading import BadInput
    from muster.process.config_sources import InvalidConfig
    from muster.process.logs import Log
    from muster.process.memory import keep_freed_memory
    from muster.scheduler.service import SchedulerService

    keep_freed_memory()
    try:
        run_until_stopped(SchedulerService(settings, Log(verbosity), writes_of(SCHEDULER)))
    except InvalidConfig as why:
        raise BadInput(str(why)) from None
