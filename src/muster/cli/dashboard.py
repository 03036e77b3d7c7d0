"""`muster dashboard`: a read-only page about a live cluster, manifests or a replay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.flags import flags
from muster.cli.help import Command
from muster.sim.dashboard.settings import DashboardSettings

if TYPE_CHECKING:
    import ssl

    from muster.cluster.manifests import Manifests
    from muster.process.logs import Log
    from muster.sim.dashboard.sources import Known, ResultSource
    from muster.sim.inputs import ConfigText


@click.command(cls=Command, example="muster dashboard -f cluster.yaml job.yaml")
@options.files(required=False)
@click.option("-c", "--config", "configs", multiple=True, type=click.Path(), metavar="FILE_OR_MAP",
              help="A scheduler configuration. The first one decides; pages can choose among all of them to decide "
              "again. Without it: the one of the running scheduler or in the snapshot, else the default.")  # fmt: skip
@click.option("--replay", "traces", multiple=True, type=click.Path(), metavar="TRACE",
              help="Show the replay of a trace of jobs. May be given several times.")  # fmt: skip
@click.option("--nodes", multiple=True, type=click.Path(), metavar="FILE",
              help="The nodes of a replay: a list that is published with a trace (CSV), or manifests.")  # fmt: skip
@flags(DashboardSettings, "dashboard")
@options.now
@options.keep_going
@options.verbosity
def dashboard(
    files: tuple[str, ...], configs: tuple[str, ...], traces: tuple[str, ...], nodes: tuple[str, ...],
    settings: DashboardSettings, now: float | None, keep_going: bool, verbosity: int,
) -> None:  # fmt: skip
    """Serve a read-only page about a cluster, and a JSON API.

    The page has queues, waiting pods with their causes, gangs, nodes, topology, devices, policies and a timeline.
    With -f it shows manifests or a snapshot, with --replay a trace of jobs on the cluster of -f or --nodes, else the
    live cluster. It listens on loopback; nothing is written to the cluster, and no Secret is read.
    """
    from muster.cli.reading import BadInput
    from muster.process.logs import Log

    if nodes and not traces:
        raise click.UsageError("--nodes needs --replay")
    log = Log(verbosity)
    tls = _tls(settings, log)
    if not files and not traces:
        from muster.cli.live import run_until_stopped
        from muster.sim.dashboard.live import DashboardService

        texts = _texts(configs)
        run_until_stopped(DashboardService(settings, log, texts, tls=tls, started=_started))
        return
    from muster.sim.dashboard.service import serve_source

    try:
        source = _replay(traces, nodes, files, configs, settings, keep_going) if traces else _files(
            files, configs, settings, now, keep_going, log
        )  # fmt: skip
        serve_source(source, settings, tls, _started)
    except OSError as fault:
        raise BadInput(f"muster: cannot listen on {settings.host}:{settings.port}: {fault.strerror or fault} "
                       "(choose another with --host and --port)") from None  # fmt: skip


def _started(address: str) -> None:
    click.echo(f"dashboard: {address}", err=True)


def _tls(settings: DashboardSettings, log: Log) -> ssl.SSLContext | None:
    from muster.cli.reading import BadInput

    if not settings.tls_cert_file:
        return None
    from muster.process.certificates import FileTls

    try:
        return FileTls(settings.tls_cert_file, settings.tls_private_key_file, report=log.report).context
    except OSError as fault:  # ssl.SSLError is one
        raise BadInput(f"{settings.tls_cert_file}: error: cannot be used for TLS: {fault} (give PEM files)") from None


def _texts(configs: Sequence[str]) -> list[ConfigText]:
    """Reads the configurations of -c; stops if one cannot be used."""
    from muster.cli.reading import config_from_flag, load_and_report

    texts = [text for text in map(config_from_flag, dict.fromkeys(configs)) if text is not None]
    for text in texts:
        load_and_report(text)
    return texts


def _files(
    files: Sequence[str], configs: Sequence[str], settings: DashboardSettings, now: float | None, keep_going: bool,
    log: Log,
) -> ResultSource:  # fmt: skip
    from muster.cli.reading import config_from_objects, load_and_report, read_manifests
    from muster.sim.dashboard.inputs import ClusterInput
    from muster.sim.dashboard.sources import FileSource
    from muster.sim.inputs import config_for, start_time, usable_cluster

    names = settings.scheduler_names
    texts = _texts(configs)

    def known(found: Manifests, chosen: ConfigText | None = None) -> Known:
        configurations = texts or [chosen or config_for(found.objects, names)]
        return ClusterInput(found.objects, start_time(now, found), names, found.findings), configurations

    def read() -> Known:
        return known(usable_cluster(files, keep_going=keep_going, workload_kinds=settings.workload_kinds))

    manifests = read_manifests(files, keep_going=keep_going, workload_kinds=settings.workload_kinds)
    chosen = None if texts else config_from_objects(manifests.objects, names)
    if chosen is not None:
        load_and_report(chosen)
    return FileSource(", ".join(files), files, known(manifests, chosen), read, log.report)


def _replay(
    traces: Sequence[str], nodes: tuple[str, ...], files: tuple[str, ...], configs: Sequence[str],
    settings: DashboardSettings, keep_going: bool,
) -> ResultSource:  # fmt: skip
    from muster.cli.options import read_traces
    from muster.cli.reading import BadInput, config_from_objects, print_findings
    from muster.cli.replay import read_replay_cluster
    from muster.model.finding import InputError
    from muster.sim.dashboard.inputs import ReplayInput
    from muster.sim.dashboard.sources import ReplaySource
    from muster.sim.replay.run import ReplayOptions

    try:
        manifests = read_replay_cluster(nodes, files, ReplayOptions().gpu_resource, keep_going)
    except InputError as fault:
        print_findings(fault.findings)
        raise BadInput(f"muster: {fault.message}") from None
    texts = _texts(configs) or [config_from_objects(manifests.objects, settings.scheduler_names)]
    given = ReplayInput(
        read_traces(traces), manifests.objects, ReplayOptions(scheduler_names=settings.scheduler_names)
    )
    return ReplaySource(f"replay of {', '.join(PurePath(trace).name for trace in traces)}", given, texts)
