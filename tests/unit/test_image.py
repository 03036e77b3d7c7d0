"""The image is what the manifests run. Docker itself is not needed for this, and builds nothing here."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.cli import main
from muster.cli.install import PARTS, Settings, installation

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
LINES = [line.split(maxsplit=1) for line in TEXT.splitlines() if line and not line.startswith("#")]


def message(instruction: str) -> list[str]:
    return [rest for name, rest in LINES if name == instruction]


@pytest.mark.parametrize("part", list(PARTS))
def test_it_runs_as_the_manifests_want_it(part: str) -> None:
    settings = Settings("muster-system", "muster:test", "")
    deployment = next(o for o in installation(settings, [PARTS[part]]) if o["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    security, container = spec["securityContext"], spec["containers"][0]
    assert message("USER") == [f"{security['runAsUser']}:{security['runAsGroup']}"]
    assert message("EXPOSE") == [str(next(p["containerPort"] for p in container["ports"] if p["name"] == "http"))]
    assert "command" not in container and json.loads(message("ENTRYPOINT")[0]) == ["muster"]
    assert CliRunner().invoke(main, [container["args"][0], "--help"]).exit_code == 0
    # The root is read-only: what is written goes where there is a volume.
    assert message("WORKDIR")[-1] in {mount["mountPath"] for mount in container["volumeMounts"]}
    assert "HOME=/tmp" in message("ENV")[0].split()


def test_no_registry_is_named() -> None:
    for image in message("FROM"):
        assert re.fullmatch(r"[a-z]+:\S+( AS [a-z]+)?", image), image


def test_all_that_is_copied_is_there_and_not_ignored() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    assert rules[0] == "*"
    copied = [part for line in message("COPY") if "--from" not in line for part in shlex.split(line)[:-1]]
    assert sorted(copied) == sorted(kept)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert not any(fnmatch("src", rule) for rule in rules[1:])


def test_the_versions_are_those_of_the_lock() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "deploy/versions.py", ROOT / "uv.lock"], capture_output=True, text=True, check=True
    )
    names = [line.partition("==")[0] for line in done.stdout.splitlines()]
    assert {"numpy", "msgspec", "pyyaml", "click", "rich", "kubernetes", "aiohttp", "cryptography"} <= set(names)
    assert "muster" not in names
    twice = [line for line in done.stdout.splitlines() if names.count(line.partition("==")[0]) > 1]
    assert all(" ; " in line for line in twice)
