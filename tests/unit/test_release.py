"""deploy/release.py: the SBOM has what users install. deploy/release_check.py finds interpreters; CI runs both."""

from __future__ import annotations

import json
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCK = tomllib.loads((ROOT / "uv.lock").read_text("utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(autouse=True)
def _deploy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))


def bill(folder: Path) -> str:
    from release import sbom

    wheel = folder / "muster-9-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    return sbom(LOCK, "9", wheel, datetime(2026, 1, 1, tzinfo=UTC))


def test_the_sbom_lists_the_dependencies_of_users_and_not_those_of_developers(tmp_path: Path) -> None:
    from release import EXTRAS

    components = json.loads(bill(tmp_path))["components"]
    names = {component["name"] for component in components}
    wanted = [*PROJECT["dependencies"], *(one for extra in EXTRAS for one in PROJECT["optional-dependencies"][extra])]
    assert {one.partition(">=")[0].lower() for one in wanted} <= names
    assert not names & {"pytest", "ruff", "mkdocs-material"}
    assert all(component["hashes"] and component["purl"] for component in components)


def test_the_sbom_of_the_same_wheel_is_the_same_bytes(tmp_path: Path) -> None:
    assert bill(tmp_path) == bill(tmp_path)


def test_an_interpreter_is_found_in_the_variable_and_asked_for_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from release_check import interpreter

    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / f"python{version}").symlink_to(sys.executable)
    (tmp_path / "bin" / "python3.99").symlink_to(sys.executable)
    monkeypatch.setenv("MUSTER_PYTHONS", str(tmp_path))
    assert interpreter(version) == str(tmp_path / "bin" / f"python{version}")
    assert interpreter("3.99") is None


def test_every_version_of_the_classifiers_is_checked() -> None:
    from release_check import VERSIONS

    prefix = "Programming Language :: Python :: 3."
    assert tuple(one.rpartition(" ")[2] for one in PROJECT["classifiers"] if one.startswith(prefix)) == VERSIONS
