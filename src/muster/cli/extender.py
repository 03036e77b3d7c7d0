"""`muster extender`: answers kube-scheduler by PropagationPolicies."""

from __future__ import annotations

import signal
import threading

import click

from muster.cli import options

_MIB = 1 << 20


@click.command()
@options.files(required=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", required=True, type=click.IntRange(0, 65535), metavar="N", help="The port; 0 takes a free one.")
@click.option("--tls-cert-file", type=click.Path(), metavar="FILE", help="Serve HTTPS with this certificate (PEM).")
@click.option("--tls-private-key-file", type=click.Path(), default="", metavar="FILE", help="Its key, if apart.")
@click.option(
    "--client-ca-file", type=click.Path(), default="", metavar="FILE",
    help="Let in only clients with a certificate of this CA.",
)  # fmt: skip
@click.option(
    "--max-body", type=click.IntRange(1, 4096), default=32, show_default=True, metavar="MIB",
    help="Refuse requests with a larger body.",
)  # fmt: skip
@click.option(
    "--legacy-failed-nodes", is_flag=True,
    help="Name refused nodes in FailedNodes as well, for schedulers before 1.22.",
)  # fmt: skip
@options.keep_going
@options.verbosity
def extender(
    files: tuple[str, ...],
    host: str,
    port: int,
    tls_cert_file: str | None,
    tls_private_key_file: str,
    client_ca_file: str,
    max_body: int,
    legacy_failed_nodes: bool,
    keep_going: bool,
    verbosity: int,
) -> None:
    """Serve POST /filter, /prioritize and /preempt to kube-scheduler for the cluster in manifests.

    Beside them /healthz, /readyz and /metrics.
    """
    from muster.cli.reading import BadInput, read_manifests
    from muster.cluster.clock import VirtualClock
    from muster.cluster.memory import MemoryStore
    from muster.server.extender.deciding import GroupScheduling
    from muster.server.extender.http import ExtenderServer, tls

    if tls_cert_file is None and (tls_private_key_file or client_ca_file):
        raise click.UsageError("--tls-private-key-file and --client-ca-file need --tls-cert-file")
    try:
        context = None if tls_cert_file is None else tls(tls_cert_file, tls_private_key_file, client_ca_file)
    except OSError as fault:  # ssl.SSLError is one
        raise BadInput(f"{tls_cert_file}: error: cannot be used for TLS: {fault} (give PEM files)") from None
    manifests = read_manifests(files, keep_going=keep_going)
    store = MemoryStore(VirtualClock(manifests.latest), manifests)
    try:
        server = ExtenderServer(
            (host, port), GroupScheduling(store, legacy=legacy_failed_nodes), context, max_body * _MIB
        )
    except OSError as fault:
        raise BadInput(f"muster: cannot listen on {host}:{port}: {fault.strerror} (choose another)") from None
    for number in (signal.SIGTERM, signal.SIGINT):
        # shutdown waits for the loop that this very thread runs
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    scheme = "http" if context is None else "https"
    click.echo(f"extender listens on {scheme}://{host}:{server.server_address[1]}", err=True)
    with server:
        server.serve_forever(poll_interval=0.1)
