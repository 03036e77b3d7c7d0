"""A trace that is written is read back exactly, and no bytes make a reader raise anything but InputError."""

from __future__ import annotations

import gzip
import io
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.model.finding import InputError
from muster.sim.traces.names import job_names, valid_names
from muster.sim.traces.read import FORMAT_NAMES, read_trace
from muster.sim.traces.table import COLUMNS, Trace
from muster.sim.traces.write import HEADER, write_csv, write_parquet
from strategies.profiles import examples

NAME = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
SECONDS = st.floats(0, 1e8)
ROWS = {
    "philly": (b"timestamp,duration,num_gpus,gpu_time,cluster", b"2017-10-09 07:01:55,66.0,1,66.0,11cb48"),
    "openb": (
        b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time",
        b"openb-pod-0001,6000,12288,1,460,V100M16|T4,LS,Running,427061,12902960,427061",
    ),
    "muster": (",".join(HEADER).encode(), b"job-0,1.5,2,,2,1,1000,1024,2,500,-3,default,T4,u,0.5"),
    "swf": (b"; UnixStartTime: 846890738", b"1 0 5 100 4 -1 -1 8 3600 2048 1 3 1 -1 2 -1 -1 -1"),
}


@contextmanager
def stdin(data: bytes) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(data))
    try:
        yield
    finally:
        sys.stdin = before


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    n = draw(st.integers(1, 8))

    def column(values: st.SearchStrategy[float]) -> np.ndarray:  # type: ignore[type-arg]
        return np.array(draw(st.lists(values, min_size=n, max_size=n)))

    pods = column(st.integers(1, 20))
    milli = column(st.sampled_from([1000, 1, 250, 999]))
    texts = {name: tuple(sorted(draw(st.sets(NAME, min_size=1, max_size=3)))) for name in ("queue", "model", "user")}
    codes = {name: np.arange(n) % len(names) for name, names in texts.items()}
    names = {key: tuple(sorted({found[i] for i in codes[key]})) for key, found in texts.items()}
    return Trace(
        "stdin", draw(st.sampled_from([0.0, 1504521041.0, 0.1])),
        draw(st.lists(NAME, min_size=n, max_size=n, unique=True)),
        submit=np.sort(column(SECONDS)), duration=column(st.one_of(SECONDS, st.just(np.inf))),
        estimate=column(st.one_of(SECONDS, st.just(np.nan))), pods=pods, minimum=column(st.integers(0, 1)),
        cpu=column(st.integers(0, 10**9)), memory=column(st.integers(0, 2**53)),
        gpus=np.where(milli < 1000, pods, column(st.integers(0, 100))), gpu_milli=milli,
        priority=column(st.integers(-(10**9), 10**9)), usage=column(st.floats(0, 1)), **codes,
        queues=names["queue"], models=names["model"], users=names["user"],
    )  # fmt: skip


@given(traces(), st.sampled_from([write_csv, write_parquet]), st.booleans())
@examples(200)
def test_a_trace_that_is_written_is_read_back_exactly(made: Trace, write: object, packed: bool) -> None:
    buffer = io.BytesIO()
    write(made, buffer)  # type: ignore[operator]
    with stdin(gzip.compress(buffer.getvalue()) if packed else buffer.getvalue()):
        again = read_trace(["-"], strict=True)
    assert all(np.array_equal(getattr(made, name), getattr(again, name), equal_nan=True) for name in COLUMNS)
    assert (again.epoch, list(again.names)) == (made.epoch, made.names)
    assert (again.queues, again.models, again.users) == (made.queues, made.models, made.users)


@st.composite
def damaged_files(draw: st.DrawFn) -> bytes:
    header, row = ROWS[draw(st.sampled_from(sorted(ROWS)))]
    odd = st.sampled_from([b"", b"nan", b"-1", b"1e400", b'"', b"\0", b"\xff", b",", b"2017-99-01 ", b"inf", b"1e18"])
    rows = [row]
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(row)))
        rows.append(row[:at] + draw(st.one_of(odd, st.binary(max_size=5))) + row[at + draw(st.integers(0, 8)) :])
    data = b"\n".join([header, *rows, row])
    cut = gzip.compress(data)[: draw(st.integers(1, 400))]
    return draw(st.one_of(st.just(data), st.just(cut), st.binary(max_size=200)))


@given(damaged_files(), st.sampled_from(["", *FORMAT_NAMES]), st.booleans())
@examples(500)
def test_no_bytes_raise_anything_but_an_input_error(data: bytes, format: str, strict: bool) -> None:
    with stdin(data), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            trace = read_trace(["-"], format=format, strict=strict)
        except InputError as error:
            assert error.findings or not data or format
            return
    assert np.isfinite(trace.submit).all() and (trace.duration >= 0).all() and (trace.submit >= 0).all()
    assert all((getattr(trace, name) >= 0).all() for name in ("pods", "minimum", "cpu", "memory", "gpus"))
    assert len(set(trace.names)) == len(trace) and (not strict or trace.bad_rows == 0)


@given(st.lists(st.text(max_size=70), max_size=12))
@examples(300)
def test_names_are_valid_different_and_independent_of_the_order(originals: list[str]) -> None:
    names = valid_names(originals, "queue")
    assert len(set(names.values())) == len(names) == len(set(originals))
    assert names == valid_names(reversed(originals), "queue")
    jobs = job_names(originals)
    assert len(set(jobs)) == len(jobs)
    for name in (*names.values(), *jobs):
        assert 0 < len(name) <= 63 and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert name[0] != "-" != name[-1]
