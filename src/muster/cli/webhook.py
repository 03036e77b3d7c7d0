"""`muster webhook`: pods get their node group and its edition when they are created; objects are checked."""

from __future__ import annotations

import click

from muster.cli import options
from muster.cli.flags import flags
from muster.groupctl.webhook.settings import WebhookSettings


@click.command()
@flags(WebhookSettings, "webhook")
@options.verbosity
def webhook(settings: WebhookSettings, verbosity: int) -> None:
    """Serve the API server's admission questions until told to stop.

    Pods of namespaces with the label groupmanagement.kubeedge.io/webhook=enabled are changed; policies, node groups,
    queues and PodGroups are checked everywhere. The webhook configurations are part of the manifests; this command
    writes the authority of its certificates into them, which it makes and renews itself. If it is down, objects are
    created as they are.
    """
    from muster.cli.configuration import scheduler_of
    from muster.cli.live import run_until_stopped
    from muster.cli.reading import BadInput
    from muster.groupctl.webhook.service import WebhookService
    from muster.process.logs import Log

    try:
        component = WebhookService(settings, scheduler_of(settings.config), Log(verbosity))
    except OSError as fault:  # ssl.SSLError is one
        raise BadInput(f"{settings.client_ca_file}: error: cannot be used for TLS: {fault} (give a PEM file)") from None
    run_until_stopped(component)
