"""Collects the jobs of one or several files, and joins them into one trace."""

from __future__ import annotations

import math

import numpy as np

from muster.model.finding import Finding
from muster.sim.traces.chunks import MOST_FINDINGS, BadRows, Column
from muster.sim.traces.names import job_names, valid_names
from muster.sim.traces.table import FloatArray, IntArray, Trace

__all__ = ["JoinedJobs"]

UNIX_TIMES = 3.2e8
"""Seconds from this on are since 1970 (it is 1980 then): a trace with relative times is shorter than ten years."""

_FLOATS = ("duration", "estimate", "usage")
_INTEGERS = ("pods", "minimum", "cpu", "memory", "gpus", "gpu_milli", "priority")
_TEXTS = ("queue", "model", "user")


class JoinedJobs:
    """The jobs that were read so far."""

    def __init__(self) -> None:
        self.jobs = 0
        self.findings: list[Finding] = []
        self._bad_rows = 0
        self._names: list[str] = []
        self._columns: dict[str, list[Column]] = {name: [] for name in (*_FLOATS, *_INTEGERS, *_TEXTS)}
        self._codes: dict[str, dict[str, int]] = {name: {} for name in _TEXTS}
        self._file = ""
        self._epoch: float | None = None
        self._times: list[FloatArray] = []
        self._submits: list[tuple[str, float | None, FloatArray]] = []

    def start_file(self, file: str, epoch: float | None) -> None:
        """Begins a file. Its times are relative to `epoch`, if that is known."""
        self._file, self._epoch, self._times = file, epoch, []

    def add(self, columns: dict[str, Column]) -> None:
        """Adds jobs of the current file."""
        self.jobs += len(columns["submit"])
        self._times.append(np.asarray(columns["submit"], dtype=np.float64))
        self._names += columns["name"]
        for name in _FLOATS:
            self._columns[name].append(columns[name])
        for name in _INTEGERS:
            self._columns[name].append(np.asarray(columns[name], dtype=np.int64))
        for name in _TEXTS:
            codes = self._codes[name]
            coded = [codes.setdefault(text, len(codes)) for text in columns[name]]
            self._columns[name].append(np.array(coded, dtype=np.int64))

    def end_file(self, bad: BadRows) -> None:
        """Ends a file."""
        self.findings += bad.findings
        self._bad_rows += bad.count
        submit = np.concatenate(self._times) if self._times else np.zeros(0)
        if self._epoch is None and len(submit) and submit.min() >= UNIX_TIMES:
            self._epoch = float(math.floor(submit.min()))
            submit = submit - self._epoch
        self._submits.append((self._file, self._epoch, submit))

    def trace(self, source: str) -> Trace:
        """Returns all jobs, sorted by their submission."""
        submit, epoch = self._joined_times()
        order = np.argsort(submit, kind="stable")
        columns = {name: np.concatenate(parts)[order] for name, parts in self._columns.items()}
        queues, columns["queue"] = self._indexed("queue", columns["queue"])
        models, columns["model"] = self._indexed("model", columns["model"])
        users, columns["user"] = self._indexed("user", columns["user"])
        return Trace(
            source=source, epoch=epoch, names=job_names([self._names[i] for i in order.tolist()]),
            submit=submit[order], **columns, queues=queues, models=models, users=users,
            findings=tuple(self.findings[:MOST_FINDINGS]), bad_rows=self._bad_rows,
        )  # fmt: skip

    def _joined_times(self) -> tuple[FloatArray, float]:
        """The times since the earliest time zero of the files."""
        known = [epoch for _, epoch, submit in self._submits if epoch is not None and len(submit)]
        common = min(known, default=0.0)
        parts: list[FloatArray] = []
        for file, epoch, submit in self._submits:
            if epoch is None and known and len(submit):
                message = "the times are relative, those of another file are not: its time zero is taken"
                fix = "add a line `# UnixStartTime: SECONDS` above the header"
                self.findings.insert(0, Finding("warning", file, None, "", "time", message, fix))
            parts.append(submit if epoch is None else submit + (epoch - common))
        return np.concatenate(parts), common

    def _indexed(self, column: str, codes: IntArray) -> tuple[tuple[str, ...], IntArray]:
        """Replaces the codes of texts by indices of sorted names."""
        texts = list(self._codes[column])
        if column == "model":
            names = {text: text for text in texts}
        else:
            names = valid_names((text for text in texts if text), column)
            names[""] = "default" if column == "queue" else ""
        there = tuple(sorted({names[text] for text in texts}))
        index = {name: i for i, name in enumerate(there)}
        return there, np.array([index[names[text]] for text in texts], dtype=np.int64)[codes]
