"""A live part of muster as a process of its own: `muster webhook`, `muster edge-gate`, `muster scheduler` …"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import urllib3

from live.api import Plain, until


class Part:
    """`with Part("webhook", …) as part`: ready when the block begins, ended when it is left."""

    def __init__(
        self, verb: str, kubeconfig: Path | str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.verb = verb
        self._folder = tempfile.TemporaryDirectory(prefix=f"muster-{verb}-")
        self.log_file = Path(self._folder.name) / "log"
        command = [sys.executable, "-c", "from muster.cli import main; main()", verb, "--kubeconfig", str(kubeconfig)]
        self._command = [*command, "--metrics-port", "0", "-v", "4", *arguments]
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.started: Plain = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            print("\n".join(self.log_file.read_text(encoding="utf-8").splitlines()[-20:]))
        self.stop()
        self._folder.cleanup()

    def start(self, wait: bool = True) -> None:
        with self.log_file.open("ab") as log:
            log.truncate(0)
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self._environment
            )
        self.started = until("it to start", self._started_entry, 40)
        if wait:
            until("ready", self._is_ready, 40)

    def run_instead(self, program: Sequence[str], cwd: Path) -> None:
        """The same arguments for another program; nobody waits until it is ready."""
        with self.log_file.open("ab") as log:
            arguments = self._command[self._command.index(self.verb) :]
            self._process = subprocess.Popen([*program, *arguments], cwd=cwd, stdout=log, stderr=log)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def killed(self) -> bool:
        """Ended by SIGKILL."""
        return self._process is not None and self._process.poll() == -signal.SIGKILL

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        return int(self._process.returncode)

    @property
    def cpu_s(self) -> float:
        """User and system time so far."""
        return cpu_seconds(self.pid)

    def probe(self, path: str, body: object = None) -> tuple[int, str]:
        url = f"http://127.0.0.1:{self.started['probes']}{path}"
        content = None if body is None else json.dumps(body).encode()
        method = "GET" if body is None else "POST"
        try:
            answer = urllib3.request(method, url, body=content, timeout=5, retries=False)
        except urllib3.exceptions.HTTPError:
            return 0, ""
        return answer.status, answer.data.decode()

    def metric(self, name: str, labels: str = "") -> float:
        """The sum over all labels, or over those lines that contain these."""
        lines = [line for line in self.probe("/metrics")[1].splitlines() if line.partition("{")[0].split()[0] == name]
        return sum(float(line.rpartition(" ")[2]) for line in lines if labels in line)

    def log(self) -> list[Plain]:
        found = []
        for line in self.log_file.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"msg": line})
        return found

    def _started_entry(self) -> Plain | None:
        found = [entry for entry in self.log() if entry.get("msg") == "started"]
        assert found or self.running, self.log_file.read_text(encoding="utf-8")
        return found[-1] if found else None

    def _is_ready(self) -> bool:
        code = None if self._process is None else self._process.poll()
        assert self.running, f"it ended with {code}: {self.log_file.read_text(encoding='utf-8')}"
        return self.probe("/readyz")[0] == 200


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100  # USER_HZ, which Linux has at 100 everywhere


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
