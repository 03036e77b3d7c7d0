"""`muster extender`: answers kube-scheduler by PropagationPolicies."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.flags import flags
from muster.cli.help import Command
from muster.groupctl.extender.settings import ExtenderSettings

if TYPE_CHECKING:
    import ssl

    from muster.cycle.scheduler import Scheduler

_OPEN = (
    "--host {host} can be reached by other machines, so clients must be authenticated: give --tls-cert-file, "
    "--tls-private-key-file and --client-ca-file (see docs/tasks/install.md), listen on 127.0.0.1 beside "
    "kube-scheduler, or give --insecure-listen to serve any client"
)


@click.command(cls=Command, example="muster extender -f cluster.yaml --port 8080")
@options.files(required=False)
@flags(ExtenderSettings, "extender")
@options.keep_going
@options.verbosity
def extender(files: tuple[str, ...], settings: ExtenderSettings, keep_going: bool, verbosity: int) -> None:
    """Answer kube-scheduler by the policies of node groups.

    It serves POST /filter, /prioritize and /preempt, and /healthz, /readyz and /metrics. With -f it answers for the
    cluster in manifests, without -f for the live cluster. On loopback and with -f it uses plain HTTP, on any other
    address HTTPS with client certificates.
    """
    from muster.cli.reading import BadInput, scheduler_of
    from muster.process.certificates import FileTls
    from muster.process.listener.limits import is_loopback
    from muster.process.logs import Log

    tls, log, host = None, Log(verbosity), settings.host
    local = bool(files) or is_loopback(host)
    if not local and not settings.client_ca_file:
        if not settings.insecure_listen:
            raise click.UsageError(_OPEN.format(host=host))
        log(0, f"--insecure-listen: every client that can reach {host} can make the extender reserve capacity in node "
               "groups; use --tls-cert-file and --client-ca-file", host=host)  # fmt: skip
    try:
        if certificate := settings.tls_cert_file:
            files_of_tls = (certificate, settings.tls_private_key_file, settings.client_ca_file)
            tls = FileTls(*files_of_tls, report=log.report).context
    except OSError as fault:  # ssl.SSLError is one
        raise BadInput(f"{certificate}: error: cannot be used for TLS: {fault} (give PEM files)") from None
    scheduler = None if settings.plugins is None else scheduler_of(settings.plugins)
    if files:
        _embedded(files, settings, tls, scheduler, keep_going=keep_going)
        return
    from muster.cli.live import run_until_stopped
    from muster.groupctl.extender.service import ExtenderService

    trusted = local and not settings.client_ca_file
    run_until_stopped(ExtenderService(settings, log, tls=tls, trusted=trusted, scheduler=scheduler))


def _embedded(
    files: tuple[str, ...], settings: ExtenderSettings, tls: ssl.SSLContext | None, scheduler: Scheduler | None, *,
    keep_going: bool,
) -> None:  # fmt: skip
    """Serves the cluster in manifests until SIGTERM or SIGINT."""
    from muster.cli.reading import BadInput, read_manifests
    from muster.cluster.memory import MemoryStore, VirtualClock
    from muster.groupctl.extender.group_scheduling import GroupScheduling
    from muster.groupctl.extender.plugin_scores import PluginScores
    from muster.groupctl.extender.server import ExtenderServer
    from muster.model.custom import custom_kinds

    at = (settings.host, settings.port)
    manifests = read_manifests(files, keep_going=keep_going)
    store = MemoryStore(VirtualClock(manifests.latest), manifests)
    asked = None if scheduler is None else PluginScores(store, scheduler)
    try:
        custom = custom_kinds(manifests.objects)
        scheduling = GroupScheduling(
            store, legacy=settings.legacy, gate_override=settings.gate_override, custom=custom, plugins=asked
        )
        server = ExtenderServer(at, scheduling, tls, settings.max_request_bytes)
    except OSError as fault:
        raise BadInput(f"muster: cannot listen on {at[0]}:{at[1]}: {fault.strerror} (choose another)") from None
    stops = {signal.SIGTERM, signal.SIGINT}
    # Before the threads start, which inherit it: a signal that one of them took would not wake this one.
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    server.start()
    scheme = "http" if tls is None else "https"
    click.echo(f"extender listens on {scheme}://{at[0]}:{server.port}", err=True)
    signal.sigwait(stops)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)  # another one ends it at once
    server.stop()
