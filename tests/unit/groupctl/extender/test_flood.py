"""Many connections with large, slow and hostile bodies: the extender's memory stays below its limit, and it answers."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.flood import Flood, Memory, until
from muster.cli.install import PARTS

LIMIT_MIB = 1024
NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}\n"
WHOLE = 32 << 20
POD = b'{"Pod":{"spec":{"containers":[' + b"{}," * 600_000 + b'{}]}},"NodeNames":[]}'
NODES = b'{"Pod":{},"Nodes":{"items":[' + b"{}," * 600_000 + b"{}]}}"
NAMES = b'{"Pod":{},"NodeNames":[' + b'"",' * 600_000 + b'""]}'


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """Its process and its port. On loopback every client is trusted: each may send the most."""
    file = tmp_path / "node.yaml"
    file.write_text(NODE, encoding="utf-8")
    command = [sys.executable, "-c", "from muster.cli import main; main()", "extender", "-f", str(file), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r":(\d+)$", process.stderr.readline().strip())
        assert found is not None
        yield process.pid, int(found[1])
        process.terminate()
        try:
            assert process.wait(30) == 0
        finally:
            process.kill()


def test_the_limit_is_that_of_the_manifests() -> None:
    assert PARTS["extender"].limits == (("memory", f"{LIMIT_MIB // 1024}Gi"),)


# 26 whole bodies are above the limit of the assertion; none of them may be kept beside all others.
@pytest.mark.parametrize("connections", [26, *(pytest.param(n, marks=pytest.mark.long) for n in (40, 200))])
def test_the_memory_stays_below_the_limit_and_a_request_is_answered(
    serving: tuple[int, int], connections: int
) -> None:
    pid, port = serving
    with (
        Memory(pid) as memory,
        Flood(port, connections, announced=WHOLE, size=WHOLE - 100) as large,
        Flood(port, 5, announced=1000, size=0),
        Flood(port, 5, announced=len(POD), size=0, first=POD),
        Flood(port, 5, announced=len(NODES), size=0, first=NODES),
        Flood(port, 5, announced=len(NAMES), size=0, first=NAMES),
    ):
        until(lambda: large.opened >= connections and large.sent > min(connections, 40) * (WHOLE - 200), 90)
        for _ in range(3):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("POST", "/filter", json.dumps({"Pod": {}, "NodeNames": ["a"]}))
            answer = connection.getresponse()
            assert (answer.status, json.loads(answer.read())["NodeNames"]) == (200, ["a"])
    assert memory.peak < LIMIT_MIB * 0.75, f"{memory.peak:.0f} MiB"
