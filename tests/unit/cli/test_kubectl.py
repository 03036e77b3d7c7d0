"""`kubectl muster` without a cluster: defaults of kubectl, and completion."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from builders.files import text
from builders.manifests import node, pod
from muster.cli.kubectl import kubectl_muster
from muster.cli.kubectl_completion import complete

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: c, user: u, namespace: team}}
- {name: two, context: {cluster: c, user: u}}
"""


@pytest.fixture(autouse=True)
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr("kubernetes.config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    return str(path)


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    path = tmp_path / "cluster.yaml"
    waiting = [pod("a", namespace="team", cpu=64, labels={"app": "a"}), pod("b", cpu=64, labels={"app": "b"})]
    path.write_text(text(node(), *waiting))
    return str(path)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(kubectl_muster, arguments)


def waiting(cluster: str, *options: str) -> list[str]:
    return [job["group"] for job in json.loads(call("queues", "-f", cluster, "-o", "json", *options).stdout)["jobs"]]


def test_the_namespace_is_that_of_the_context(cluster: str, kubeconfig: str) -> None:
    assert waiting(cluster) == ["team/a"]
    assert waiting(cluster, "--context", "two") == waiting(cluster, "--context=two") == ["default/b"]
    assert waiting(cluster, "-ndefault") == waiting(cluster, "--namespace=default") == ["default/b"]
    assert sorted(waiting(cluster, "-A")) == ["default/b", "team/a"]
    assert waiting(cluster, "-A", "-l", "app=b", "--kubeconfig", kubeconfig) == ["default/b"]


def test_explain_takes_a_name_or_selects_waiting_pods(cluster: str) -> None:
    assert json.loads(call("explain", "a", "-f", cluster, "-o", "json").stdout)["pod"] == "team/a"
    assert json.loads(call("explain", "-l", "app=b", "-A", "-f", cluster, "-o", "json").stdout)["pod"] == "default/b"
    nothing, nobody = call("explain", "-f", cluster), call("explain", "-l", "app=c", "-f", cluster)
    assert (nothing.exit_code, nobody.exit_code) == (2, 2)
    assert "name a pod" in nothing.stderr and "no pod" in nobody.stderr


def test_only_commands_about_decisions_are_offered() -> None:
    result = call("simulate")
    assert result.exit_code == 2 and "as `muster simulate`" in result.stderr
    assert "kubectl muster queues -A" in call("--help").stdout


def test_completion_offers_commands_options_and_values() -> None:
    names, directive = complete([""])
    assert ([name.partition("\t")[0] for name in names], directive) == (["explain", "ask", "queues", "plan"], 4)
    assert [name.partition("\t")[0] for name in complete(["queues", "--names"])[0]] == ["--namespace"]
    assert complete(["queues", "-o", "j"]) == (["json"], 4)
    assert complete(["queues", "--context", "t"]) == (["two"], 4)
    assert complete(["plan", "-f", ""]) == ([], 0)


def test_completion_without_a_cluster_offers_nothing_and_does_not_fail() -> None:
    assert complete(["explain", ""]) == ([], 4)
    assert complete(["queues", "-n", ""]) == ([], 4)
