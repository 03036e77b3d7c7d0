"""`muster edge-gate`: a proxy of the API server that hides pods that must not reach edge nodes yet."""

from __future__ import annotations

import click

from muster.cli import options
from muster.cli.flags import flags
from muster.cli.help import Command
from muster.groupctl.edge_gate.settings import GateSettings


@click.command("edge-gate", cls=Command, example="muster edge-gate -v 1")
@flags(GateSettings, "edge-gate")
@options.verbosity
def edge_gate(settings: GateSettings, verbosity: int) -> None:
    """Run the proxy that hides unbound pods from edge nodes.

    It runs between the API server and the components that send pods to edge nodes, until SIGTERM. Pods whose
    application requires a policy and is not bound to it are removed from lists and watches; they appear when it is
    bound. A pod that was sent stays visible, unless --hold-strict is given. All other requests are forwarded unchanged.
    Clients use their own bearer tokens.
    """
    from muster.cli.live import run_until_stopped
    from muster.cli.reading import BadInput
    from muster.groupctl.edge_gate.service import GateService
    from muster.process.logs import Log

    try:
        component = GateService(settings, Log(verbosity))
    except OSError as fault:  # ssl.SSLError is one
        files = ", ".join(filter(None, (settings.tls_cert_file, settings.client_ca_file, settings.write_ca_file)))
        raise BadInput(f"{files}: error: cannot be used for TLS: {fault} (give PEM files)") from None
    run_until_stopped(component)
