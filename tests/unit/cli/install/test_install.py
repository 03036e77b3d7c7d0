"""What `muster manifests` prints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from muster.cli import main
from muster.cli.install import PARTS, Settings, part_objects

SETTINGS = Settings("home", "muster:1", "actions: allocate\n")


def printed(*arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, ["manifests", "-o", "json", *arguments])
    assert done.exit_code == 0, done.output
    items: list[dict[str, Any]] = json.loads(done.stdout)["items"]
    return items


def deployment(part: str) -> dict[str, Any]:
    return next(one for one in part_objects(PARTS[part], SETTINGS) if one["kind"] == "Deployment")


def test_what_needs_something_first_is_printed_only_when_asked_for() -> None:
    installed = {one["metadata"]["name"] for one in printed() if one["kind"] == "Deployment"}
    assert installed == {"muster-scheduler", "muster-controllers", "muster-extender", "muster-webhook"}
    asked = [one["metadata"]["name"] for one in printed("--part", "edge-gate") if one["kind"] == "Deployment"]
    assert asked == ["muster-edge-gate"]


@pytest.mark.parametrize("part", list(PARTS))
def test_every_part_has_probes_limits_and_no_privileges(part: str) -> None:
    pod = deployment(part)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["resources"]["limits"]["memory"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize("part", list(PARTS))
def test_a_new_version_does_not_wait_for_the_old_one_that_waits_for_it(part: str) -> None:
    # Of these two only the holder of the Lease is ready.
    recreated = part in ("extender", "webhook")
    assert deployment(part)["spec"].get("strategy") == ({"type": "Recreate"} if recreated else None)


@pytest.mark.parametrize("part", list(PARTS))
def test_a_service_names_a_port_of_the_container(part: str) -> None:
    services = [one for one in part_objects(PARTS[part], SETTINGS) if one["kind"] == "Service"]
    ports = {port["name"] for port in deployment(part)["spec"]["template"]["spec"]["containers"][0]["ports"]}
    assert len(services) == PARTS[part].serves
    assert {port["targetPort"] for one in services for port in one["spec"]["ports"]} <= ports


def test_the_edge_gate_may_read_which_headers_the_api_server_trusts() -> None:
    objects = list(part_objects(PARTS["edge-gate"], SETTINGS))
    bound = [one for one in objects if one["metadata"].get("namespace") == "kube-system"]
    assert [one["kind"] for one in bound] == ["RoleBinding"]
    assert bound[0]["roleRef"]["name"] == "extension-apiserver-authentication-reader"
    assert bound[0]["subjects"][0]["name"] == "muster-edge-gate"
