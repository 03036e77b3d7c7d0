"""`muster extender`: answers kube-scheduler by PropagationPolicies."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.lease import lease as lease_options
from muster.cli.lease import lease_is_named

if TYPE_CHECKING:
    import ssl

    from muster.cycle.scheduler import Scheduler
    from muster.process.leadership import LeaseSettings

_OPEN = (
    "--host {host} can be reached by other machines, so the extender must know who asks: give --tls-cert-file, "
    "--tls-private-key-file and --client-ca-file (docs/install.md says how), listen on 127.0.0.1 beside "
    "kube-scheduler, or give --insecure-listen to answer anyone"
)


@click.command()
@options.files(required=False)
@options.kubeconfig
@lease_options("extender")
@options.configured
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on. Other than loopback: "
              "only HTTPS, and only with --client-ca-file.")  # fmt: skip
@click.option("--port", required=True, type=click.IntRange(0, 65535), metavar="N", help="The port; 0 takes a free one.")
@click.option("--tls-cert-file", type=click.Path(), metavar="FILE", help="Serve HTTPS with this certificate (PEM).")
@click.option("--tls-private-key-file", type=click.Path(), default="", metavar="FILE", help="Its key, if apart.")
@click.option("--client-ca-file", type=click.Path(), default="", metavar="FILE",
              help="Answer only clients with a certificate of this CA: kube-scheduler's.")  # fmt: skip
@click.option("--insecure-listen", is_flag=True,
              help="Answer anyone who can reach an address other than loopback. Do not use it.")  # fmt: skip
@click.option("--metrics-host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Where --metrics-port listens.")  # fmt: skip
@click.option("--metrics-port", type=click.IntRange(0, 65535), metavar="PORT",
              help="Serve /healthz, /readyz and /metrics over plain HTTP on this port, too, for clients without a "
              "certificate.")  # fmt: skip
@click.option("--max-request-bytes", type=click.IntRange(1 << 20, 1 << 28), default=32 << 20, show_default=True,
              metavar="N", help="Refuse larger requests. With node names (nodeCacheCapable), and from clients that are "
              "not authenticated, the limit is 2 MiB.")  # fmt: skip
@click.option(
    "--legacy-failed-nodes", is_flag=True,
    help="Name refused nodes in FailedNodes as well, for schedulers before 1.22.",
)  # fmt: skip
@click.option(
    "--gate-override-pair", is_flag=True,
    help="Pods also wait until their application is bound to the OverridePolicy it asks for.",
)  # fmt: skip
@click.option(
    "--plugins", type=click.Path(), metavar="FILE_OR_MAP",
    help="A scheduler configuration (a file, or configmap:NAMESPACE/NAME[/KEY]) whose plugins filter and score pods "
    "that follow no policy.",
)  # fmt: skip
@options.keep_going
@options.verbosity
def extender(
    files: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    lease: Callable[[], LeaseSettings],
    configured: Callable[[], str],
    host: str,
    port: int,
    tls_cert_file: str | None,
    tls_private_key_file: str,
    client_ca_file: str,
    insecure_listen: bool,
    metrics_host: str,
    metrics_port: int | None,
    max_request_bytes: int,
    legacy_failed_nodes: bool,
    gate_override_pair: bool,
    plugins: str | None,
    keep_going: bool,
    verbosity: int,
) -> None:
    """Serve POST /filter, /prioritize and /preempt to kube-scheduler.

    With -f for the cluster in manifests, without for the live one. Beside them /healthz, /readyz and /metrics. On
    loopback, and with -f, over plain HTTP; on any other address over HTTPS to clients with a certificate.
    """
    from muster.cli.configuration import scheduler_of
    from muster.cli.reading import BadInput
    from muster.process.certificates import FileTls
    from muster.process.listener.limits import is_loopback
    from muster.process.logs import Log

    if tls_cert_file is None and (tls_private_key_file or client_ca_file):
        raise click.UsageError("--tls-private-key-file and --client-ca-file need --tls-cert-file")
    secure, log = None, Log(verbosity)
    local = bool(files) or is_loopback(host)
    if not local and not client_ca_file:
        if not insecure_listen:
            raise click.UsageError(_OPEN.format(host=host))
        log(0, f"--insecure-listen: whoever can reach {host} can ask the extender and make it reserve places in node "
               "groups; use --tls-cert-file and --client-ca-file", host=host)  # fmt: skip
    try:
        if tls_cert_file is not None:
            secure = FileTls(tls_cert_file, tls_private_key_file, client_ca_file, report=log.report).context
    except OSError as fault:  # ssl.SSLError is one
        raise BadInput(f"{tls_cert_file}: error: cannot be used for TLS: {fault} (give PEM files)") from None
    scheduler = None if plugins is None else scheduler_of(plugins)
    if files:
        how = (legacy_failed_nodes, gate_override_pair)
        _embedded(files, (host, port), secure, max_request_bytes, how, keep_going, scheduler)
        return
    from muster.cli.live import home_of, run_until_stopped
    from muster.groupctl.extender.service import Service, Settings

    own, kinds = lease(), configured()
    settings = Settings(
        lease=own,
        configured=kinds,
        presence=own.key if lease_is_named() else f"{home_of(kinds)}/muster-extender",
        kubeconfig=kubeconfig,
        context=context,
        host=host,
        port=port,
        context_tls=secure,
        trusted=local and not client_ca_file,
        probes=None if metrics_port is None else (metrics_host, metrics_port),
        largest_whole=max_request_bytes,
        legacy=legacy_failed_nodes,
        gate_override=gate_override_pair,
        scheduler=scheduler,
    )
    run_until_stopped(Service(settings, log).run)


def _embedded(
    files: tuple[str, ...],
    at: tuple[str, int],
    secure: ssl.SSLContext | None,
    largest_whole: int,
    how: tuple[bool, bool],
    keep_going: bool,
    scheduler: Scheduler | None,
) -> None:
    """Serve for the cluster in manifests, until a signal comes."""
    from muster.cli.reading import BadInput, read_manifests
    from muster.cluster.clock import VirtualClock
    from muster.cluster.memory import MemoryStore
    from muster.groupctl.extender.deciding import GroupScheduling
    from muster.groupctl.extender.http import ExtenderServer
    from muster.groupctl.extender.scoring import PluginScores
    from muster.model.custom import custom_kinds

    manifests = read_manifests(files, keep_going=keep_going)
    store = MemoryStore(VirtualClock(manifests.latest), manifests)
    asked = None if scheduler is None else PluginScores(store, scheduler)
    try:
        custom = custom_kinds(manifests.objects)
        scheduling = GroupScheduling(store, legacy=how[0], gate_override=how[1], custom=custom, plugins=asked)
        server = ExtenderServer(at, scheduling, secure, largest_whole)
    except OSError as fault:
        raise BadInput(f"muster: cannot listen on {at[0]}:{at[1]}: {fault.strerror} (choose another)") from None
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server.start()
    scheme = "http" if secure is None else "https"
    click.echo(f"extender listens on {scheme}://{at[0]}:{server.port}", err=True)
    stop.wait()
    server.stop()
