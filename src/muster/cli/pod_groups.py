"""`muster pod-groups`: PodGroups for pods that name none, on a live cluster."""

from __future__ import annotations

import click

from muster.cli import options
from muster.cli.flags import flags
from muster.cli.help import Command
from muster.groupctl.controllers.settings import PodGroupSettings


@click.command(cls=Command, example="muster pod-groups --no-leader-elect")
@flags(PodGroupSettings, "pod-groups")
@options.verbosity
def pod_groups(settings: PodGroupSettings, verbosity: int) -> None:
    """Create the PodGroups of pods that name none, until SIGTERM.

    The scheduler has the same groups in memory; as objects they are visible to all. A Deployment, StatefulSet or Job
    sets its minimum with the annotation scheduling.volcano.sh/group-min-member. Volcano's queue-allocation gate is
    removed from pods that the scheduler has admitted.
    """
    from muster.cli.live import run_until_stopped
    from muster.groupctl.controllers.pod_group_service import PodGroupService
    from muster.process.logs import Log

    run_until_stopped(PodGroupService(settings, Log(verbosity)))
