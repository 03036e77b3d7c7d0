"""`muster edge-gate`: the API server's pods without those that are not to be sent to edge nodes yet."""

from __future__ import annotations

from collections.abc import Callable

import click

from muster.cli import options


@click.command("edge-gate")
@options.kubeconfig
@options.configured
@click.option("--proxy-host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Where the proxy listens.")  # fmt: skip
@click.option("--proxy-port", type=click.IntRange(0, 65535), default=6444, show_default=True, metavar="PORT",
              help="Its port; 0 takes any that is free and logs it.")  # fmt: skip
@click.option("--tls-cert-file", type=click.Path(), metavar="FILE",
              help="Serve with this certificate (PEM). Without it: one that muster makes itself.")  # fmt: skip
@click.option("--tls-private-key-file", type=click.Path(), default="", metavar="FILE", help="Its key, if apart.")
@click.option("--name", "names", multiple=True, default=("localhost", "127.0.0.1"), show_default=True, metavar="HOST",
              help="A name or address in the certificate that muster makes. May be given several times.")  # fmt: skip
@click.option("--write-ca-file", type=click.Path(), default="", metavar="FILE",
              help="Where to write the authority that clients are to trust.")  # fmt: skip
@click.option("--client-ca-file", type=click.Path(), default="", metavar="FILE",
              help="Accept certificates of this CA from clients; needs --front-proxy-cert.")  # fmt: skip
@click.option("--front-proxy-cert", type=click.Path(), metavar="FILE", help="A certificate of the API server's "
              "request header CA, by which it believes the gate who a client is.")  # fmt: skip
@click.option("--front-proxy-key", type=click.Path(), default="", metavar="FILE", help="Its key, if apart.")
@click.option("--gate-port", type=click.IntRange(0, 65535), metavar="PORT", help="Answer POST /gate over HTTPS on this "
              "port of --proxy-host, to clients with a certificate of --client-ca-file.")  # fmt: skip
@click.option("--hold-outdated", is_flag=True, help="Also hold pods that are not in their node group's edition.")
@click.option("--hold-strict", is_flag=True, help="Also hold pods that were sent already, running ones included: they "
              "are deleted at the edge while their application is not bound.")  # fmt: skip
@click.option("--allow-privileged-overrides", is_flag=True,
              help="Editions may have privileges that templates have not, as the controllers were told.")  # fmt: skip
@click.option("--metrics-host", "--host", "metrics_host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Where /healthz, /readyz and /metrics listen; on loopback POST /gate, too.")  # fmt: skip
@click.option("--metrics-port", "--port", "metrics_port", type=click.IntRange(0, 65535), default=8080,
              show_default=True, metavar="PORT", help="Their port; 0 takes any that is free and logs it.")  # fmt: skip
@options.verbosity
def edge_gate(
    kubeconfig: str | None,
    context: str | None,
    configured: Callable[[], str],
    proxy_host: str,
    proxy_port: int,
    tls_cert_file: str | None,
    tls_private_key_file: str,
    names: tuple[str, ...],
    write_ca_file: str,
    client_ca_file: str,
    front_proxy_cert: str | None,
    front_proxy_key: str,
    gate_port: int | None,
    hold_outdated: bool,
    hold_strict: bool,
    allow_privileged_overrides: bool,
    metrics_host: str,
    metrics_port: int,
    verbosity: int,
) -> None:
    """Stand between the API server and those that send pods to edge nodes, until told to stop.

    Pods whose application asks for a policy and is not bound to it are left out of what is read through the gate;
    they appear when it is bound. A pod that was sent stays visible, unless --hold-strict is given. Everything else is
    passed on as it is. Clients use their own bearer tokens.
    """
    from muster.cli.live import run_until_stopped
    from muster.cli.reading import BadInput
    from muster.groupctl.edge_gate.service import Service, Settings
    from muster.process.logs import Log

    if tls_cert_file is None and tls_private_key_file:
        raise click.UsageError("--tls-private-key-file needs --tls-cert-file")
    if front_proxy_cert is None and front_proxy_key:
        raise click.UsageError("--front-proxy-key needs --front-proxy-cert")
    if front_proxy_cert is not None and not client_ca_file:
        raise click.UsageError("--front-proxy-cert needs --client-ca-file: whose certificates are to be believed?")
    if gate_port is not None and not client_ca_file:
        raise click.UsageError("--gate-port needs --client-ca-file: only authenticated callers are answered")
    settings = Settings(
        verdict_port=gate_port,
        configured=configured(),
        kubeconfig=kubeconfig,
        context=context,
        host=proxy_host,
        port=proxy_port,
        probes_host=metrics_host,
        probes_port=metrics_port,
        certificate=None if tls_cert_file is None else (tls_cert_file, tls_private_key_file),
        names=names,
        authority_file=write_ca_file,
        client_authority=client_ca_file,
        front_proxy=None if front_proxy_cert is None else (front_proxy_cert, front_proxy_key),
        hold_outdated=hold_outdated,
        hold_strict=hold_strict,
        privileged=allow_privileged_overrides,
    )
    try:
        running = Service(settings, Log(verbosity))
    except OSError as fault:  # ssl.SSLError is one
        files = ", ".join(filter(None, (tls_cert_file, client_ca_file, write_ca_file)))
        raise BadInput(f"{files}: error: cannot be used for TLS: {fault} (give PEM files)") from None
    run_until_stopped(running.run)
