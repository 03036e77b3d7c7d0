"""`muster crds` and `muster manifests`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from muster.cli import VERBS, main
from muster.cli.install import PARTS, Part
from muster.model.yamltext import load_all


def muster(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def objects(*arguments: str) -> list[dict[str, Any]]:
    answer = muster(*arguments, "-o", "json")
    assert answer.exit_code == 0, answer.stderr
    items: list[dict[str, Any]] = json.loads(answer.stdout)["items"]
    return items


def test_crds_prints_ours_and_with_peers_theirs_as_well() -> None:
    ours = [one["metadata"]["name"] for one in objects("crds")]
    assert ours == [
        f"{kind}.groupmanagement.kubeedge.io" for kind in ("nodegroups", "propagationpolicies", "overridepolicies")
    ]
    everything = [one["metadata"]["name"] for one in objects("crds", "--with-peers")]
    assert everything[:3] == ours
    assert everything[3:] == [
        "queues.scheduling.volcano.sh",
        "podgroups.scheduling.volcano.sh",
        "hypernodes.topology.volcano.sh",
        "topologies.kueue.x-k8s.io",
        "topologies.kai.scheduler",
    ]


def test_yaml_and_json_say_the_same() -> None:
    for verb in ("crds", "manifests"):
        assert [document.value for document in load_all(muster(verb).stdout, verb)] == objects(verb)


def test_missing_needs_a_cluster_and_reports_it(tmp_path: Path) -> None:
    answer = muster("crds", "--missing", "--kubeconfig", str(tmp_path / "none"))
    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert str(tmp_path / "none") in answer.stderr


def test_manifests_run_as_nobody_with_probes_and_limits() -> None:
    deployments = [one for one in objects("manifests", "--image", "muster:1") if one["kind"] == "Deployment"]
    assert [one["metadata"]["name"] for one in deployments] == [part.name for part in PARTS.values() if part.by_default]
    for one in deployments:
        pod = one["spec"]["template"]["spec"]
        container = pod["containers"][0]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert not container["securityContext"]["allowPrivilegeEscalation"]
        assert container["image"] == "muster:1"
        assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("part", [part for part in PARTS.values() if part.verb in VERBS], ids=lambda part: part.verb)
def test_every_part_is_started_with_options_that_its_verb_has(part: Part) -> None:
    command = main.get_command(main.make_context("muster", ["--help"], resilient_parsing=True), part.verb)
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts}
    assert [word for word in part.command if word.startswith("-") and word not in options] == []


def test_parts_can_be_chosen() -> None:
    kinds = [one["kind"] for one in objects("manifests", "--part", "extender", "--namespace", "edge")]
    rights = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]
    policy = ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]
    assert kinds == ["Namespace", *rights, *policy, "Deployment", "Service"]
    alone = objects("manifests", "--part", "extender", "--accounts-only")
    assert [one["kind"] for one in alone] == ["Namespace", *rights, *policy]


def test_only_the_api_server_is_let_through_to_the_webhook() -> None:
    given = ("--part", "webhook", "--api-server-cidr", "10.0.0.7 10.0.1.0/24", "--api-server-cidr", "fd00::7")
    (policy,) = [one for one in objects("manifests", *given) if one["kind"] == "NetworkPolicy"]
    tls, plain = policy["spec"]["ingress"]
    assert [source["ipBlock"]["cidr"] for source in tls["from"] if "ipBlock" in source] == [
        "10.0.0.7/32", "10.0.1.0/24", "fd00::7/128",
    ]  # fmt: skip
    assert tls["ports"] == [{"port": "https", "protocol": "TCP"}] and "from" not in plain
    # Without an address nobody is let through: an empty list would mean anybody.
    (policy,) = [one for one in objects("manifests", "--part", "webhook") if one["kind"] == "NetworkPolicy"]
    assert [list(source) for source in policy["spec"]["ingress"][0]["from"]] == [["namespaceSelector", "podSelector"]]
    assert CliRunner().invoke(main, ["manifests", "--api-server-cidr", "10.0.0.300"]).exit_code == 2


def test_the_webhook_can_be_given_the_authority_of_the_api_servers_certificate() -> None:
    made = objects("manifests", "--part", "webhook", "--webhook-client-ca", "callers")
    (pod,) = [one["spec"]["template"]["spec"] for one in made if one["kind"] == "Deployment"]
    arguments = pod["containers"][0]["args"]
    assert arguments[arguments.index("--client-ca-file") + 1] == "/etc/muster/ca.crt"
    assert {"name": "certificate", "secret": {"secretName": "callers"}} in pod["volumes"]


def test_no_right_is_for_everything_or_reaches_secrets() -> None:
    for one in objects("manifests"):
        for rule in one.get("rules", ()):
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "*" not in words
            assert "secrets" not in words


def test_the_configuration_given_is_checked_and_carried_along(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text("actions: allocate\ntiers:\n- plugins:\n  - name: gang\n", encoding="utf-8")
    held = next(one for one in objects("manifests", "-c", str(file)) if one["kind"] == "ConfigMap")
    (text,) = held["data"].values()
    assert load_all(text, "held")[0].value == {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}]}]}
    file.write_text("actions: alocate\n", encoding="utf-8")
    refused = muster("manifests", "-c", str(file))
    assert refused.exit_code == 2
    assert "alocate" in refused.stderr
