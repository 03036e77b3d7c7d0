"""`muster webhook`: assigns new pods to their node group and its edition, and validates objects."""

from __future__ import annotations

import click

from muster.cli import options
from muster.cli.flags import flags
from muster.cli.help import Command
from muster.groupctl.webhook.settings import WebhookSettings


@click.command(cls=Command, example="muster webhook -v 1")
@flags(WebhookSettings, "webhook")
@options.verbosity
def webhook(settings: WebhookSettings, verbosity: int) -> None:
    """Serve the admission requests of the API server.

    Pods of namespaces with the label groupmanagement.kubeedge.io/webhook=enabled are mutated; policies, node groups,
    queues and PodGroups are validated in all namespaces. The webhook configurations are part of the manifests; this
    command writes the CA of its certificates into them, which it creates and renews itself. If it does not run, objects
    are created unchanged. It runs until SIGTERM.
    """
    from muster.cli.live import run_until_stopped
    from muster.cli.reading import BadInput, scheduler_of
    from muster.groupctl.webhook.service import WebhookService
    from muster.process.logs import Log

    try:
        component = WebhookService(settings, scheduler_of(settings.config), Log(verbosity))
    except OSError as fault:  # ssl.SSLError is one
        raise BadInput(f"{settings.client_ca_file}: error: cannot be used for TLS: {fault} (give a PEM file)") from None
    run_until_stopped(component)
