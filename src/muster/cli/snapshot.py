"""`muster snapshot`: writes the live cluster to a file."""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
from functools import partial
from typing import IO, TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.help import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from muster.kube.snapshot import Taken
    from muster.model.meta import Object

    Write = Callable[[IO[bytes]], Coroutine[Any, Any, None]]

STDOUT = "-"


@click.command(cls=Command, example="muster snapshot prod.ndjson.gz && muster simulate -f prod.ndjson.gz")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), default="snapshot.ndjson.gz")
@options.kubeconfig
@options.output("table", "json")
@options.workload_kinds
@options.verbosity
def snapshot(
    file: str,
    kubeconfig: str | None,
    context: str | None,
    form: str,
    workload_kinds: tuple[str, ...],
    verbosity: int,
) -> None:
    """Write the live cluster to a file for simulate and explain.

    Without FILE, it is snapshot.ndjson.gz; - is stdout. Nothing is changed in the cluster. Secrets are not read;
    commands, arguments and environments of containers are omitted. The only ConfigMap that is read is the configuration
    of the running scheduler, which simulate then uses. Workloads of described kinds (see muster workload-kinds) and the
    kinds that installed plugins read are written, too.
    """
    from muster.cli.answer import waiting
    from muster.cli.live import further_kinds
    from muster.cli.reading import BadInput
    from muster.kube import NoAccess
    from muster.kube.snapshot import Taken
    from muster.store.errors import ApiError

    try:
        with waiting("reading the cluster", "objects") as shown:
            taken = Taken()
            shown.sample = lambda: (sum(taken.counts.values()), 0)
            further = further_kinds(workload_kinds)
            write = partial(_write, taken=taken, kubeconfig=kubeconfig, context=context, further=further)
            _to_stdout(write) if file == STDOUT else _to_file(file, write)
    except (NoAccess, ApiError) as fault:
        raise BadInput(f"muster: cannot take a snapshot of the cluster: {fault}") from None
    except OSError as fault:
        raise BadInput(f"{file}: error: cannot be written: {fault.strerror} (choose another place)") from None
    if file != STDOUT:
        _show(file, taken, form)


def _to_file(file: str, write: Write) -> None:
    """Opens a temporary file that is renamed when it is complete; only its owner may read it."""
    unfinished = f"{file}.{os.getpid()}.unfinished"
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            asyncio.run(write(out))
        os.replace(unfinished, file)
    except BaseException:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise


def _to_stdout(write: Write) -> None:
    if sys.stdout.isatty():
        raise click.UsageError("a snapshot is not text for a terminal: give a file, or use a pipe")
    asyncio.run(write(sys.stdout.buffer))


async def _write(
    out: IO[bytes], taken: Taken, kubeconfig: str | None, context: str | None, further: Sequence[type[Object]]
) -> None:
    from muster.kube import Client, load
    from muster.kube.snapshot import snapshot

    async with Client(load(kubeconfig, context)) as client:
        # Without a name and a time in its header: the same cluster gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=out, mtime=0) as packed:
            async for line in snapshot(client, taken, _warn, further=further):
                packed.write(line)


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)


def _show(file: str, taken: Taken, form: str) -> None:
    from muster.cli.answer import console, print_json, row, table

    size = os.path.getsize(file)
    if form == "json":
        counts = dict(sorted(taken.counts.items()))
        schedulers = [
            {"lease": one.lease, "running": one.running, "configuration": one.source, "hash": one.hash}
            for one in taken.schedulers if one.lease
        ]  # fmt: skip
        print_json({
            "file": file, "bytes": size, "objects": counts, "forbidden": taken.forbidden, "schedulers": schedulers
        })  # fmt: skip
        return
    made = table(f"{file}: {sum(taken.counts.values()):,} objects in {size:,} bytes", "kind", "objects")
    for kind, count in sorted(taken.counts.items()):
        row(made, kind, f"{count:,}")
    console().print(made)
    for one in taken.schedulers:
        if one.text is not None:
            state = "the running scheduler" if one.running else "a scheduler that does not run"
            click.echo(f"configuration: {one.source} (hash {one.hash}), of {state} (Lease {one.lease})")
    if not any(one.text is not None for one in taken.schedulers):
        click.echo("configuration: none")
