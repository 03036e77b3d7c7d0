"""Runs cells on an existing Dask cluster.

The inputs are tasks of their own, on which the cells depend: each is sent to the cluster once, and the scheduler
computes it again if the worker that has it dies. Workers need muster, but no files. Results come back to this process,
which writes them. If a worker dies, its unfinished cells run again on another one.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from muster.model.finding import InputError
from muster.sim.sweep.cells import code_version
from muster.sim.sweep.processes import Failure, Result, TaskOutcome, attempt

__all__ = ["TlsFiles", "run_on_dask"]

Task = TypeVar("Task")
TlsFiles = Mapping[str, str]
"""The keys `tls_ca_file`, `tls_client_cert` and `tls_client_key` of Dask's Security."""
CONNECT_TIMEOUT_S = 10
WORKERS_TIMEOUT_S = 30
_one_at_a_time = threading.Lock()


def run_on_dask(
    address: str,
    tasks: Sequence[tuple[Task, str, tuple[str, ...]]],
    inputs: Mapping[str, object],
    run: Callable[..., Result],
    tls: TlsFiles,
) -> Iterator[TaskOutcome[Task]]:
    """Yields the outcome of each task as it ends.

    A task comes with its key and the names of the inputs that `run` takes after the task. Raises InputError if the
    cluster cannot be used.
    """
    distributed = _distributed()
    with _without_messages(), _connect(address, tls) as client:
        _check_versions(client)
        # Another client of the cluster may have the same input in the objects of another version.
        prefix = f"muster-input-{code_version()}"
        sent = {name: client.submit(_identity, value, key=f"{prefix}-{name}") for name, value in inputs.items()}
        futures = {
            client.submit(
                _run_remote, run, code_version(), task, *(sent[name] for name in names), key=f"muster-cell-{key}"
            ): task
            for task, key, names in tasks
        }
        del sent
        try:
            for future in distributed.as_completed(list(futures), loop=client.loop):
                yield TaskOutcome(futures.pop(future), _result(future))
                future.release()
        finally:
            client.cancel(list(futures))


def _identity(value: object) -> object:
    return value


def _run_remote(run: Callable[..., Result], version: str, *given: object) -> Result | Failure:
    """Runs in a worker, one cell at a time: a replay uses one core, and a second one would only take memory."""
    if code_version() != version:
        have = code_version()
        return Failure(f"the worker has muster {have}, but the sweep runs {version}: install the same version")
    with _one_at_a_time:
        return attempt(run, *given)


def _result(future: Any) -> Result | Failure:
    try:
        found = future.result()
    except Exception as fault:  # the scheduler gives a task up after several workers died with it
        kind = type(fault).__name__
        if "Cancelled" in kind:
            raise InputError("the connection to the Dask cluster was lost; the same command continues") from None
        if kind == "KilledWorker":
            return Failure("the workers died that ran this cell; look at their logs (they may be out of memory)")
        return Failure(f"{kind}: {' '.join(str(fault).split())}")
    assert isinstance(found, dict | Failure)
    return found


@contextmanager
def _without_messages() -> Iterator[None]:
    """Keeps Dask's own messages from stderr: a lost worker or connection is reported by the cell or by the sweep."""
    before = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(before)


def _distributed() -> Any:
    """Imports the package, which has types for a part of its functions only."""
    try:
        return import_module("distributed")
    except ModuleNotFoundError:
        raise InputError("--dask needs the package distributed (pip install 'muster[dask]')") from None


def _connect(address: str, tls: TlsFiles) -> Any:
    """Connects to the scheduler.

    A client that cannot connect is closed here. The garbage collector may otherwise close it while the next client
    starts, and both then wait for the lock of Dask's event loops forever.
    """
    distributed = _distributed()
    client = distributed.Client.__new__(distributed.Client)
    try:
        security = distributed.Security(**tls)  # the rest is Dask's own configuration
        if address.startswith("tls://") and security.get_connection_args("client").get("ssl_context") is None:
            raise ValueError("it needs --tls-ca, --tls-cert and --tls-key")
        client.__init__(address, timeout=CONNECT_TIMEOUT_S, security=security, set_as_default=False)
        return client
    except (OSError, ValueError, TypeError, RuntimeError) as fault:
        client.__del__()
        raise InputError(f"the Dask cluster {address} cannot be reached: {fault} (is it an address such as "
                         "tcp://127.0.0.1:8786?)") from None  # fmt: skip


def _check_versions(client: Any) -> None:
    """Raises InputError if there are no workers, or if they have another Python or muster."""
    try:
        client.wait_for_workers(1, timeout=WORKERS_TIMEOUT_S)
    except TimeoutError:
        raise InputError("the Dask cluster has no workers (start one: dask worker ADDRESS)") from None
    found = client.get_versions(packages=["muster"])
    compare_versions(
        found["client"]["packages"], {worker: one["packages"] for worker, one in found["workers"].items()}
    )


def compare_versions(ours: Mapping[str, object], workers: Mapping[str, Mapping[str, object]]) -> None:
    """Raises InputError if a worker has another Python or muster."""
    wrong: dict[str, list[str]] = {}
    for worker, theirs in sorted(workers.items()):
        for package, what in (("python", "Python"), ("muster", "muster")):
            mine, other = _short(ours.get(package)), _short(theirs.get(package))
            if mine != other:
                wrong.setdefault(f"{what} {other or 'is missing'}, but the sweep runs {mine}", []).append(worker)
    if wrong:
        lines = [f"{len(names)} worker(s), such as {names[0]}: {what}" for what, names in wrong.items()]
        raise InputError("; ".join(lines) + " (install the same versions on the workers)")


def _short(version: object) -> str:
    """Returns 3.11.2 for what Dask calls 3.11.2.final.0."""
    return ".".join(str(version).split(".")[:3]) if version else ""
