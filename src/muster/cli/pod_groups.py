"""`muster pod-groups`: PodGroups for pods that name none, on a live cluster."""

from __future__ import annotations

import click

from muster.cli import options
from muster.cli.flags import flags
from muster.groupctl.controllers.settings import PodGroupSettings


@click.command()
@flags(PodGroupSettings, "pod-groups")
@options.verbosity
def pod_groups(settings: PodGroupSettings, verbosity: int) -> None:
    """Write the PodGroups of pods that name none until told to stop (SIGTERM ends gracefully).

    The scheduler has the same groups in memory; written, everybody can see them. A Deployment, StatefulSet or Job asks
    for more than one pod at a time by its annotation scheduling.volcano.sh/group-min-member. Pods behind Volcano's
    queue-allocation gate are let go when the scheduler has admitted them.
    """
    from muster.cli.live import run_until_stopped
    from muster.groupctl.controllers.pod_group_service import PodGroupService
    from muster.process.logs import Log

    run_until_stopped(PodGroupService(settings, Log(verbosity)))
