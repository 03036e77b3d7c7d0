"""The page of the security model says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import muster
from muster.cli.install import PARTS
from muster.cluster.documents import MAX_SNAPSHOT_BYTES
from muster.engine.domains.domain_sources import MAX_PATTERN_CHARACTERS
from muster.groupctl.extender import server
from muster.groupctl.webhook import review
from muster.kube.client import Limits
from muster.kube.list_watch import MAX_EVENT_BYTES
from muster.model import extender
from muster.model.yamlevents import MAX_ALIASED, MAX_DEPTH
from muster.model.yamltext import MAX_CHARACTERS
from muster.process.listener.limits import LIMITS

PAGE = (Path(muster.__file__).parents[2] / "docs/concepts/security-model.md").read_text(encoding="utf-8")
MIB = 2**20


def row(begins: str) -> list[int]:
    """The numbers of a limit."""
    value = next(line for line in PAGE.splitlines() if line.startswith(f"| {begins}")).split("|")[2]
    return [int(number.replace(",", "")) for number in re.findall(r"[\d,]*\d", value)]


def test_the_limits_are_those_of_the_code() -> None:
    assert row("a text of YAML") == [MAX_CHARACTERS // MIB, MAX_DEPTH, MAX_ALIASED]
    assert row("a snapshot") == [MAX_SNAPSHOT_BYTES // 2**30]
    assert row("an answer") == [Limits().answer_bytes // MIB, MAX_EVENT_BYTES // MIB]
    limits = Limits()
    assert row("a request") == [limits.request_bytes // MIB, limits.seconds, limits.writes_at_once]
    bodies = (server.MAX_NAMES_BODY_BYTES, server.MAX_BODY_BYTES, review.MAX_BODY_BYTES)
    assert row("a body") == [size // MIB for size in bodies]
    assert row("connections") == [LIMITS.connections, LIMITS.request_s, LIMITS.body_bytes // MIB]
    assert row("bodies") == [LIMITS.decoded_bytes // MIB, extender.MAX_VALUES, review.MAX_VALUES]
    assert row("an expression") == [MAX_PATTERN_CHARACTERS]


def test_no_part_may_read_secrets_or_run_commands_and_the_scheduler_deletes_nothing() -> None:
    for part in PARTS.values():
        for right in (*part.rights, *part.at_home):
            assert not {"secrets", "pods/exec"} & set(right.resources)
    for right in PARTS["scheduler"].rights:
        assert "delete" not in right.verbs
        assert "nodes" not in right.resources or set(right.verbs) <= {"get", "list", "watch"}
