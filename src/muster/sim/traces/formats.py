"""The published formats of traces: which columns each has, and what they become.

A format is a column map. Readers of formats that are no tables are in `swf` and `philly_json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.sim.traces.column_map import KEYS

__all__ = ["FORMATS", "Format", "detect"]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of tables with a header. It is recognised by the columns in `marks`."""

    name: str
    marks: tuple[str, ...]
    columns: dict[str, str]
    pods: int = 0
    """The pods of every job; 0 if a column has them, or if the replay divides the jobs."""
    order: tuple[str, ...] = field(default=())
    """The columns of a file that is published without a header."""


_HELIOS = {
    "name": "job_id", "user": "user", "pods": "node_num", "gpus": "gpu_num", "cpu": "cpu_num", "submit": "submit_time",
    "start": "start_time", "end": "end_time", "duration": "duration",
}  # fmt: skip

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format("muster", (), {key: key for key in KEYS}),
        Format(
            "openb", ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
            {
                "name": "name", "cpu_milli": "cpu_milli", "memory_mib": "memory_mib", "gpus": "num_gpu",
                "gpu_milli": "gpu_milli", "model": "gpu_spec", "priority": "qos", "submit": "creation_time",
                "start": "scheduled_time", "end": "deletion_time",
            },
            pods=1,
        ),
        Format(
            "philly", ("timestamp", "duration", "num_gpus", "gpu_time", "cluster"),
            {"submit": "timestamp", "duration": "duration", "gpus": "num_gpus", "queue": "cluster"},
        ),
        # The column `queue` of Helios and Acme has seconds of waiting.
        Format("helios", ("job_id", "vc", "gpu_num", "node_num", "submit_time"), {**_HELIOS, "queue": "vc"}),
        Format(
            "acme", ("job_id", "type", "gpu_num", "node_num", "submit_time"),
            {**_HELIOS, "queue": "type", "memory_gib_per_pod": "mem_per_pod_GB"},
        ),
        # A task has no time of submission; the table was made on a cluster where few tasks waited.
        Format(
            "pai", ("job_name", "task_name", "inst_num", "plan_cpu", "plan_gpu"),
            {
                "name": "job_name+task_name", "pods": "inst_num", "submit": "start_time", "end": "end_time",
                "cpu_percent_per_pod": "plan_cpu", "memory_gib_per_pod": "plan_mem",
                "gpus_percent_per_pod": "plan_gpu", "model": "gpu_type",
            },
            order=(
                "job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem",
                "plan_gpu", "gpu_type",
            ),
        ),
        Format(
            "spot", ("organization", "gpu_request", "worker_num", "job_type"),
            {
                "name": "job_name", "queue": "organization", "model": "gpu_model", "cpu_per_pod": "cpu_request",
                "gpus_per_pod": "gpu_request", "pods": "worker_num", "submit": "submit_time", "duration": "duration",
                "priority": "job_type",
            },
        ),
        Format(
            "tiresias", ("job_id", "num_gpu", "submit_time", "iterations", "duration"),
            {"name": "job_id", "gpus": "num_gpu", "submit": "submit_time", "duration": "duration"},
        ),
    )
}  # fmt: skip


def detect(header: Sequence[str]) -> Format | None:
    """Returns the format of a header; None if it is not known."""
    if "submit" in header and len(header) > 1 and all(column in KEYS for column in header):
        return FORMATS["muster"]
    return next((one for one in FORMATS.values() if one.marks and set(one.marks) <= set(header)), None)
