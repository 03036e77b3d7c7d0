"""`muster webhook`: pods get their node group and its edition when they are created; objects are checked."""

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
@options.config
@lease_options("webhook")
@options.configured
@click.option("--service", metavar="NS/NAME", help="The Service by which the API server reaches this process. "
              "Default: muster-webhook in the namespace muster runs in.")  # fmt: skip
@click.option("--service-port", type=click.IntRange(1, 65535), default=443, show_default=True, metavar="PORT",
              help="The Service's port.")  # fmt: skip
@click.option("--url", metavar="https://HOST:PORT", help="In place of a Service: where the API server finds us.")
@click.option("--name", "names", multiple=True, metavar="HOST",
              help="A further name or address in the certificate. May be given several times.")  # fmt: skip
@click.option("--registration", default="muster-webhook", show_default=True, metavar="NAME",
              help="The name of the webhook configurations that are kept.")  # fmt: skip
@click.option("--allow-privileged-overrides", is_flag=True,
              help="Policies may give pods privileges that their templates have not.")  # fmt: skip
@click.option("--ungate/--no-ungate", default=True, show_default=True,
              help="Let pods go that waited for their application to be bound to its policies.")  # fmt: skip
@click.option("--readmit-after", type=click.FloatRange(min=1), default=300.0, show_default=True, metavar="SECONDS",
              help="A pod that finds no place in its group for so long is evicted, to be made anew.")  # fmt: skip
@click.option("--client-ca-file", type=click.Path(), default="", metavar="FILE", help="Answer only clients with a "
              "certificate of this CA: the API server's (docs/webhook-and-gate.md says how it shows one).")  # fmt: skip
@click.option("--webhook-host", default="0.0.0.0", show_default=True, metavar="ADDRESS", help="Where HTTPS listens.")
@click.option("--webhook-port", type=click.IntRange(0, 65535), default=9443, show_default=True, metavar="PORT",
              help="Its port.")  # fmt: skip
@click.option("--metrics-host", "--host", "metrics_host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Where /healthz, /readyz and /metrics listen.")  # fmt: skip
@click.option("--metrics-port", "--port", "metrics_port", type=click.IntRange(0, 65535), default=8080,
              show_default=True, metavar="PORT", help="Their port; 0 takes any that is free and logs it.")  # fmt: skip
@click.option("--certificate-lifetime", type=click.FloatRange(min=1), default=30 * 86400.0, show_default=True,
              metavar="SECONDS", help="How long a certificate is good; renewed when a third is left.")  # fmt: skip
@click.option("--check-period", type=click.FloatRange(min=0.1), default=30.0, show_default=True, metavar="SECONDS",
              help="How often the webhook configurations and the certificate are looked at.")  # fmt: skip
@options.verbosity
def webhook(
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    lease: Callable[[], LeaseSettings],
    configured: Callable[[], str],
    service: str | None,
    service_port: int,
    url: str | None,
    names: tuple[str, ...],
    registration: str,
    allow_privileged_overrides: bool,
    ungate: bool,
    readmit_after: float,
    client_ca_file: str,
    webhook_host: str,
    webhook_port: int,
    metrics_host: str,
    metrics_port: int,
    certificate_lifetime: float,
    check_period: float,
    verbosity: int,
) -> None:
    """Serve the API server's admission questions until told to stop.

    Pods of namespaces with the label groupmanagement.kubeedge.io/webhook=enabled are changed; policies, node groups,
    queues and PodGroups are checked everywhere. The webhook configurations are part of the manifests; this command
    writes the authority of its certificates into them, which it makes and renews itself. If it is down, objects are
    created as they are.
    """
    from urllib.parse import urlsplit

    from muster.cli.configuration import scheduler_of
    from muster.cli.live import own_namespace, run_until_stopped
    from muster.cli.reading import BadInput
    from muster.groupctl.webhook.registration import Endpoint
    from muster.groupctl.webhook.service import Service, Settings
    from muster.process.logs import Log

    if url is not None and service is not None:
        raise click.UsageError("--url and --service exclude each other")
    if url is not None and not (url.startswith("https://") and urlsplit(url).hostname):
        raise click.UsageError("--url begins with https:// and names a host")
    service = service or f"{own_namespace()}/muster-webhook"
    if service.count("/") != 1:
        raise click.UsageError("--service is NAMESPACE/NAME")
    host = urlsplit(url).hostname if url is not None else None
    settings = Settings(
        endpoint=Endpoint(url=url) if url is not None else Endpoint(service=service, port=service_port),
        lease=lease(),
        configured=configured(),
        kubeconfig=kubeconfig,
        context=context,
        scheduler=scheduler_of(config),
        host=webhook_host,
        port=webhook_port,
        probes_host=metrics_host,
        probes_port=metrics_port,
        names=(*((host,) if host else ()), *names),
        registration=registration,
        client_authority=client_ca_file,
        privileged=allow_privileged_overrides,
        ungate=ungate,
        readmit_after=readmit_after,
        lifetime=certificate_lifetime,
        look_every=check_period,
    )
    try:
        running = Service(settings, Log(verbosity))
    except OSError as fault:  # ssl.SSLError is one
        raise BadInput(f"{client_ca_file}: error: cannot be used for TLS: {fault} (give a PEM file)") from None
    run_until_stopped(running.run)
