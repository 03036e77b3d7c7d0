"""`muster scheduler` says clearly why it cannot begin; `explain` wants manifests or the cluster, not both."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from muster.cli import main


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_a_bad_configuration_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("actions: alocate\n", encoding="utf-8")
    result = asked("scheduler", "-c", str(file))
    assert result.exit_code == 2
    assert f"{file}:1" in result.stderr and "allocate" in result.stderr


def test_a_kubeconfig_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "kubeconfig"
    result = asked("scheduler", "--kubeconfig", str(missing), "--metrics-port", "0")
    assert result.exit_code == 2
    assert str(missing) in result.stderr and "Traceback" not in result.stderr


def test_a_lease_must_outlast_its_renewals() -> None:
    result = asked("scheduler", "--lease-duration", "5", "--lease-renew-deadline", "10")
    assert result.exit_code == 2 and "--lease-duration must be longer" in result.stderr


def test_a_lease_has_a_namespace() -> None:
    result = asked("scheduler", "--lease-name", "muster")
    assert result.exit_code == 2 and "NAMESPACE/NAME" in result.stderr


def test_explain_asks_either_manifests_or_the_cluster(tmp_path: Path) -> None:
    for arguments in ((), ("--live", "-f", str(tmp_path))):
        result = asked("explain", "d/a", *arguments)
        assert result.exit_code == 2 and "either manifests" in result.stderr


@pytest.mark.parametrize("place", ["configmap:", "configmap:a/b/c/d", "configmap:a//c"])
def test_a_configmap_is_named_as_it_should_be(place: str) -> None:
    result = asked("scheduler", "-c", place)
    assert result.exit_code == 2 and "configmap:NAMESPACE/NAME" in result.stderr
