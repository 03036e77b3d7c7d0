"""Reading files: formats are recognised, files are joined, compressed files and pipes work."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from muster.model.finding import InputError
from muster.sim.traces.make import Recipe, make_trace
from muster.sim.traces.read import read_trace
from muster.sim.traces.table import COLUMNS, Trace
from muster.sim.traces.write import write_csv, write_parquet

PHILLY = (
    "timestamp,duration,num_gpus,gpu_time,cluster\n"
    "2017-10-09 07:01:55,66.0,1,66.0,11cb48\n"
    "2017-10-09 06:13:03,2951.0,8,23608.0,6214e9\n"
)


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Trace]:
    """Writes a text to a file and reads it as a trace."""

    def read(text: str | bytes, name: str = "trace.csv", **options: object) -> Trace:
        (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
        return read_trace([str(tmp_path / name)], **options)  # type: ignore[arg-type]

    return read


def test_philly(read: Callable[..., Trace]) -> None:
    trace = read(PHILLY)
    assert trace.epoch == 1507529583.0 and trace.submit.tolist() == [0, 2932]
    assert trace.duration.tolist() == [2951, 66] and trace.gpus.tolist() == [8, 1]
    assert [trace.queues[i] for i in trace.queue] == ["6214e9", "11cb48"]
    assert list(trace.names) == ["job-000000", "job-000001"]
    assert trace.pods.tolist() == [0, 0] and np.isnan(trace.estimate).all()


def test_openb(read: Callable[..., Trace]) -> None:
    trace = read(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
        "pod-0,6000,12288,1,460,V100M16|V100M32,LS,Running,10,100,20\n"
        "pod-1,1000,1,0,0,,BE,Running,5,50,\n"
        "pod-2,8000,1024,8,1000,,Burstable,Failed,11,11,11\n"
    )
    assert list(trace.names) == ["pod-1", "pod-0", "pod-2"]
    assert trace.duration.tolist() == [45, 80, 0]
    assert trace.cpu.tolist() == [1000, 6000, 8000] and trace.memory.tolist() == [2**20, 12288 * 2**20, 2**30]
    assert trace.gpus.tolist() == [0, 1, 8] and trace.gpu_milli.tolist() == [1000, 460, 1000]
    assert trace.priority.tolist() == [0, 100, 50] and trace.pods.tolist() == [1, 1, 1]
    assert [trace.models[i] for i in trace.model] == ["", "V100M16|V100M32", ""]


def test_openb_without_times_never_ends(read: Callable[..., Trace]) -> None:
    trace = read("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1000\nq,1,1,1,500\n")
    assert trace.submit.tolist() == [0, 0] and np.isposinf(trace.duration).all()


HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


def test_helios_and_acme(read: Callable[..., Trace]) -> None:
    trace = read(
        f"{HELIOS}7,uA,vcX,16,128,2,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:10,2020-04-01 00:02:10,60,60\n"
    )
    assert (trace.pods.tolist(), trace.gpus.tolist(), trace.cpu.tolist()) == ([2], [16], [128_000])
    assert (trace.queues, trace.users, trace.duration.tolist()) == (("vcx",), ("ua",), [60])
    kalos = read(
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,"
        "end_time,fail_time,stop_time,duration,queue,gpu_time\n"
        "dl1,u1,8,64,960,1000,100.0,Pretrain,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,"
        "2023-05-17 11:01:26+00:00,,,18,10,1152\n"
    )
    assert (kalos.queues, kalos.memory.tolist(), kalos.pods.tolist()) == (("pretrain",), [8000 * 2**30], [8])
    seren = read(
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
        "1,u,1,8,64,Eval,COMPLETED,2023-05-17 11:00:58+08:00,,,18,10,144\n"
    )
    assert (seren.epoch, seren.duration.tolist()) == (1684292458.0, [18])


PAI = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"


def test_pai_tasks_with_and_without_a_header(read: Callable[..., Trace]) -> None:
    rows = (
        "j,worker,4,Terminated,100.0,160.0,600.0,29.296875,50.0,T4\nj,ps,1,Terminated,90,190,100,1,,\n"
        "k,w,2,Done,95,96,1,1,200,V100\n"
    )
    for trace in (read(PAI + rows), read(rows, format="pai")):
        assert list(trace.names) == ["j-ps", "k-w", "j-worker"]
        assert trace.gpus.tolist() == [0, 4, 4] and trace.gpu_milli.tolist() == [1000, 1000, 500]
        assert trace.cpu.tolist() == [1000, 20, 24_000] and trace.pods.tolist() == [1, 2, 4]
        assert trace.memory[2] == round(4 * 29.296875 * 2**30)


def test_spot_has_gangs_queues_and_two_priorities(read: Callable[..., Trace]) -> None:
    trace = read(
        "job_name,organization,gpu_model,cpu_request,gpu_request,worker_num,submit_time,duration,job_type\n"
        "239255,13,A10,20,1,1,0,2764799,HP\n437261,57,A100-SXM4-80GB,15,1,94,9589663,71718,Spot\n"
    )
    assert trace.pods.tolist() == [1, 94] and trace.gpus.tolist() == [1, 94] and trace.cpu[1] == 94 * 15_000
    assert trace.priority.tolist() == [100, 0] and trace.queues == ("13", "57")
    assert trace.models == ("A10", "A100-SXM4-80GB")


def test_tiresias(read: Callable[..., Trace]) -> None:
    trace = read("job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,1,0,606,vgg19,164,30\n")
    assert (trace.gpus.tolist(), trace.duration.tolist(), trace.models) == ([1], [164], ("",))


def test_swf(read: Callable[..., Trace]) -> None:
    text = (
        "; Version: 2.2\n; UnixStartTime: 846890738\n\n"
        "1 0 5 100 4 -1 -1 8 3600 2048 1 3 1 -1 2 -1 -1 -1\n"
        "  2   9 5 -1 4 -1 -1 -1 -1 -1 5 3 1 -1 2 -1 -1 -1\n"
        "3 20 5 10 4 -1 512 -1 -1 -1 1 -1 1 -1 -1 -1 -1 -1\n"
    )
    trace = read(text, "log.swf")
    assert trace.epoch == 846890738 and list(trace.names) == ["job-1", "job-3"]
    assert trace.cpu.tolist() == [8000, 4000] and trace.memory.tolist() == [8 * 2048 * 1024, 4 * 512 * 1024]
    assert trace.estimate[0] == 3600 and np.isnan(trace.estimate[1])
    assert [trace.queues[i] for i in trace.queue] == ["queue-2", "default"]
    assert [trace.users[i] for i in trace.user] == ["user-3", ""]
    assert [str(one) for one in trace.findings] == [f"{trace.source}:5: error: duration is missing"]
    assert len(read("1 0 5 100 4 -1 -1 8 3600 2048 1 3 1 -1 2 -1 -1 -1\n")) == 1


def test_philly_json(read: Callable[..., Trace]) -> None:
    attempt = (
        '{"start_time": "2017-10-09 07:02:00", "end_time": "2017-10-09 07:03:00",'
        ' "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]}'
    )
    text = (
        f'[{{"status": "Pass", "vc": "a", "jobid": "app_1", "user": "u", "submitted_time": "2017-10-09 07:01:00",'
        f' "attempts": [{attempt}, {attempt}]}}, {{"vc": "a", "jobid": "app_2", "attempts": []}}, 5]'
    )
    trace = read(text, "cluster_job_log")
    assert (list(trace.names), trace.duration.tolist()) == (["app-1"], [120])
    assert (trace.gpus.tolist(), trace.pods.tolist(), trace.bad_rows) == ([3], [2], 2)


def test_a_column_map_reads_any_csv(read: Callable[..., Trace]) -> None:
    columns = {"submit_ms": "at", "duration_hours": "h", "gpus_per_pod": "g", "pods": "n", "cpu_per_pod": "c",
               "memory_gib": "m", "queue": "team", "priority": "p", "estimate_minutes": "e"}  # fmt: skip
    trace = read("at;h;g;n;c;m;team;p;e\n1500;0.5;0.25;4;2.5;8;A Team;-7;30\n", columns=columns)
    assert (trace.submit.tolist(), trace.duration.tolist(), trace.estimate.tolist()) == ([1.5], [1800], [1800])
    assert (trace.gpus.tolist(), trace.gpu_milli.tolist(), trace.cpu.tolist()) == ([4], [250], [10_000])
    assert (trace.memory.tolist(), trace.queues, trace.priority.tolist()) == ([8 * 2**30], ("a-team",), [-7])


def test_a_column_map_replaces_columns_of_a_format(read: Callable[..., Trace]) -> None:
    trace = read(PHILLY, format="philly", columns={"name": "cluster"})
    assert list(trace.names) == ["6214e9", "11cb48"] and trace.gpus.tolist() == [8, 1]


def test_several_files_are_joined_into_one_trace(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(PHILLY)
    (tmp_path / "b.csv").write_text(PHILLY.replace("2017-10-09", "2017-10-08"))
    trace = read_trace([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])
    assert trace.submit.tolist() == [0, 2932, 86400, 89332] and len(set(trace.names)) == 4
    (tmp_path / "c.csv").write_text("submit,duration\n10,5\n")
    mixed = read_trace([str(tmp_path / "a.csv"), str(tmp_path / "c.csv")])
    assert mixed.submit.tolist() == [0, 10, 2932]
    assert [one.message for one in mixed.findings] == [
        "the times are relative, those of another file are not: its time zero is taken"
    ]


def packed_by(pack: str, data: bytes) -> bytes:
    if pack == "zst":
        return pa.compress(data, codec="zstd", asbytes=True)  # type: ignore[no-any-return]
    return {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[pack](data)


@pytest.mark.parametrize("pack", ["gz", "bz2", "xz", "zst"])
def test_compressed_files_are_unpacked_and_damaged_ones_reported(read: Callable[..., Trace], pack: str) -> None:
    rows = "".join(f"{i},{i * 7919 % 1000},1\n" for i in range(5_000))
    data = packed_by(pack, ("submit,duration,gpus\n" + rows).encode())
    assert len(read(data, f"trace.csv.{pack}")) == 5_000
    try:
        findings = read(data[: len(data) * 2 // 3], "cut").findings
    except InputError as error:  # bz2 and zstd unpack nothing of a block that is not complete
        assert pack in ("bz2", "zst")
        findings = error.findings
    assert "cannot be read from here on" in findings[-1].message


def test_a_named_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(gzip.compress(PHILLY.encode())), daemon=True)
    writer.start()
    trace = read_trace([str(pipe)])
    writer.join()
    assert len(trace) == 2


def test_a_minus_is_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PHILLY.encode())))
    assert len(read_trace(["-"])) == 2


def test_what_is_written_is_read_back_exactly(tmp_path: Path) -> None:
    recipe = Recipe(jobs=300, hours=5, pods={1: 1, 3: 1}, gpus={0: 1, 0.3: 1, 2: 1}, queues={"a": 1, "b-2": 1},
                    models={"": 1, "A100|H100": 1}, priorities={-5: 1, 7: 1}, estimate_error=3)  # fmt: skip
    made = make_trace(recipe, 5)
    for name, write in {"t.csv": write_csv, "t.parquet": write_parquet}.items():
        with (tmp_path / name).open("wb") as file:
            write(made, file)
        again = read_trace([str(tmp_path / name)])
        assert all(np.array_equal(getattr(made, c), getattr(again, c), equal_nan=True) for c in COLUMNS)
        assert (again.queues, again.models, list(again.names)) == (made.queues, made.models, made.names)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "has no rows"),
        ("# only a comment\n", {}, "has no rows"),
        ("a,b\n1,2\n", {}, "the columns are those of no known format: a, b"),
        ("submit,duration\nx,1\n", {}, "there is no job in"),
        (PHILLY, {"format": "phily"}, "did you mean philly"),
        (PHILLY, {"format": "openb"}, "the format openb has a column 'cpu_milli'"),
        (PHILLY, {"columns": {"submit": "timestmp"}}, "did you mean timestamp"),
        (PHILLY, {"columns": {"submits": "timestamp"}}, "did you mean submit"),
        (PHILLY, {"columns": {"cpu": "num_gpus", "cpu_milli": "num_gpus"}}, "cpu is given twice"),
        (b"PAR1 and then nothing", {}, "cannot be read"),
        (b"PK\x03\x04", {}, "zip"),
        (b"\xff\xfea\x00", {}, "UTF-16"),
        ('{"kind": "Pod"}', {}, "not a JSON list of jobs"),
        ('"a,b\n', {}, "the header cannot be split"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(
    read: Callable[..., Trace], text: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(text, **options)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read_trace([str(path)])
