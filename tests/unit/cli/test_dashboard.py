"""`muster dashboard`: what it serves, and what it says when it cannot start."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3
from click.testing import CliRunner

from builders.files import text
from builders.manifests import node, pod
from muster.cli import main


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["dashboard", *arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--nodes", "n.csv"), "--nodes needs --replay"),
        (("--host", "0.0.0.0"), "give --token-file"),
        (("-f", "missing.yaml"), "missing.yaml"),
        (("-f", "cluster.yaml", "-c", "bad.yaml"), "bad.yaml"),
        (("-f", "cluster.yaml", "--tls-cert-file", "bad.yaml"), "cannot be used for TLS"),
        (("--replay", "day.csv"), "give the nodes with --nodes FILE"),
    ],
)
def test_bad_input_is_one_clear_line(
    arguments: tuple[str, ...], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.yaml").write_text(text(node()))
    Path("bad.yaml").write_text("actions: nonsense\n")
    Path("day.csv").write_text("submit,duration,pods\n0,1,1\n")
    code, output = run(*arguments)
    assert (code, why in output) == (2, True), output
    assert "Traceback" not in output


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(text(node()))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, output = run("-f", str(tmp_path / "cluster.yaml"), "--port", str(taken.getsockname()[1]))
    assert (code, "cannot listen on 127.0.0.1" in output, "--port" in output) == (2, True, True), output


def test_it_serves_files_follows_them_and_ends_at_a_signal(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text(node(), pod("p")))
    command = [sys.executable, "-c", "from muster.cli import main; main()", "dashboard", "-f", str(file), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        try:
            address = line.split()[1]
            status = urllib3.request("GET", f"{address}api/v1/status", timeout=10).json()
            assert (status["title"], status["figures"]["pods"]) == (str(file), 1)
            stream = urllib3.request("GET", f"{address}api/v1/events", timeout=10, preload_content=False)
            file.write_text(text(node(), pod("p"), pod("q")))
            seen = b""
            while b'"pods":2' not in seen:
                seen += stream.read1()
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(15) == 0, line
