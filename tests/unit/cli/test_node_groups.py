"""muster distribute, override and extender from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from muster.cli import main

POLICY = "apiVersion: groupmanagement.kubeedge.io/v1alpha1\nkind: {kind}\nmetadata: {{name: p}}\nspec: {spec}\n"
WORKLOAD = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: w}
spec: {template: {spec: {containers: [{name: c, image: "nginx:1"}]}}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.yaml").write_text(WORKLOAD)
    return tmp_path


def muster(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def propagation(spec: str, more: str = "") -> None:
    Path("p.yaml").write_text(POLICY.format(kind="PropagationPolicy", spec=spec) + more)


def override(rules: str) -> None:
    Path("p.yaml").write_text(POLICY.format(kind="OverridePolicy", spec=f"{{overrideRules: {rules}}}"))


class TestDistribute:
    def test_the_design_example(self) -> None:
        entries = "[{nodeGroupNames: [Beijing], weight: 2}, {nodeGroupNames: [Hangzhou], weight: 3}]"
        propagation(f"{{staticWeightList: {entries}}}")
        result = muster("distribute", "--policy", "p.yaml", "--replicas", "5", "-o", "json")
        assert json.loads(result.stdout) == {"groups": {"beijing": 2, "hangzhou": 3}, "unplaced": 0}
        assert "p.yaml:4: warning: PropagationPolicy default/p: " in result.stderr
        assert "names node group 'Beijing'; using 'beijing'" in result.stderr
        table = muster("distribute", "--policy", "p.yaml", "--replicas", "5").stdout
        assert "hangzhou" in table and "StaticWeight" in table

    def test_node_groups_in_the_same_file_are_those_there_are(self) -> None:
        group = "---\napiVersion: groupmanagement.kubeedge.io/v1alpha1\nkind: NodeGroup\nmetadata: {name: only}\n"
        propagation("{}", group)
        result = muster("distribute", "--policy", "p.yaml", "--replicas", "3", "-o", "json")
        assert json.loads(result.stdout) == {"groups": {"only": 3}, "unplaced": 0}

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("{staticWeightList: [{nodeGroupNames: [a], weight: 0}]}", "all weights are 0"),
            ("{staticWeightList: [{nodeGroupNames: [a], weight: -1}]}", "-1 is negative"),
            ("{numRange: [{nodeGroupNames: [a], min: 2, max: 1}]}", "min 2 is more than max 1"),
            ("{staticWeightList: [{nodeGroupNames: [a], weight: two}]}", "must be a whole number"),
        ],
    )
    def test_a_bad_policy_is_refused_with_its_place(self, spec: str, message: str) -> None:
        propagation(spec)
        result = muster("distribute", "--policy", "p.yaml", "--replicas", "3")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "p.yaml:" in result.stderr and message in result.stderr

    def test_the_policy_must_be_there_and_be_one(self) -> None:
        assert muster("distribute", "--policy", "gone.yaml", "--replicas", "3").exit_code == 2
        result = muster("distribute", "--policy", "w.yaml", "--replicas", "3")
        assert result.exit_code == 2 and "there is no PropagationPolicy in it" in result.stderr
        assert muster("distribute", "--policy", "w.yaml", "--replicas", "-1").exit_code == 2


class TestOverride:
    def test_the_template_comes_as_yaml_or_json(self) -> None:
        override("[{imageOverrider: [{component: Registry, operator: replace, value: r.io}]}]")
        result = muster("override", "--policy", "p.yaml", "--nodegroup", "g", "-f", "w.yaml")
        assert result.stdout == "spec:\n  containers:\n  - name: c\n    image: r.io/nginx:1\n"
        answer = muster("override", "--policy", "p.yaml", "--nodegroup", "g", "-f", "w.yaml", "-o", "json").stdout
        assert json.loads(answer) == {"spec": {"containers": [{"name": "c", "image": "r.io/nginx:1"}]}}

    def test_the_templates_of_all_tasks_of_a_volcano_job_are_shown(self) -> None:
        specs = {name: {"containers": [{"name": "c", "image": image}]} for name, image in (("a", "x"), ("b", "y"))}
        tasks = [{"name": name, "template": {"spec": spec}} for name, spec in specs.items()]
        head = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "w"}}
        Path("w.yaml").write_text(json.dumps({**head, "spec": {"tasks": tasks}}))
        override("[{plaintext: [{path: /spec/tasks/*/template/spec/hostname, operator: add, value: h}]}]")
        result = muster("override", "--policy", "p.yaml", "--nodegroup", "g", "-f", "w.yaml", "-o", "json")
        found = [(t["metadata"]["name"], t["spec"]["hostname"]) for t in json.loads(result.stdout)]
        assert found == [("a", "h"), ("b", "h")]
        text = muster("override", "--policy", "p.yaml", "--nodegroup", "g", "-f", "w.yaml").stdout
        assert text.count("---\n") == 1 and "image: y" in text

    def test_an_error_names_the_rule_and_nothing_is_printed(self) -> None:
        override("[{plaintext: [{path: /spec/hostname, operator: replace, value: x}]}]")
        result = muster("override", "--policy", "p.yaml", "--nodegroup", "g", "-f", "w.yaml")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "spec.overrideRules[0].plaintext[0]: replace /spec/hostname" in result.stderr
        assert "w.yaml:1" in result.stderr

    def test_an_empty_image_value_is_refused(self) -> None:
        override('[{imageOverrider: [{component: Tag, operator: add, value: ""}]}]')
        result = muster("override", "--policy", "p.yaml", "--nodegroup", "g", "-f", "w.yaml")
        assert result.exit_code == 2 and "must not be empty for add" in result.stderr

    def test_privileges_need_the_flag(self) -> None:
        override("[{plaintext: [{path: /spec/hostPID, operator: add, value: true}]}]")
        asked = ("override", "--policy", "p.yaml", "--nodegroup", "g", "-f", "w.yaml", "-o", "json")
        assert "the pod: Host Namespaces: hostPID (spec.overrideRules[0].plaintext[0])" in muster(*asked).stderr
        assert json.loads(muster(*asked, "--allow-privileged-overrides").stdout)["spec"]["hostPID"] is True

    def test_there_must_be_one_workload(self) -> None:
        override("[]")
        Path("two.yaml").write_text(WORKLOAD + "---\n" + WORKLOAD)
        for file in ("two.yaml", "p.yaml"):
            result = muster("override", "--policy", "p.yaml", "--nodegroup", "g", "-f", file)
            assert result.exit_code == 2 and "objects with a pod template" in result.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7"])
def test_beyond_loopback_the_extender_wants_to_know_its_clients(host: str) -> None:
    refused = muster("extender", "--host", host, "--port", "0", "--kubeconfig", "none.yaml")
    assert refused.exit_code == 2
    assert f"--host {host} can be reached by other machines" in refused.stderr
    assert "--client-ca-file" in refused.stderr and "--insecure-listen" in refused.stderr
    forced = muster("extender", "--host", host, "--port", "0", "--kubeconfig", "none.yaml", "--insecure-listen")
    assert "every client that can reach" in forced.stderr and '"v": 0' in forced.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_on_loopback_it_does_not(host: str) -> None:
    reported = muster("extender", "--host", host, "--port", "0", "--kubeconfig", "none.yaml").stderr
    assert "none.yaml" in reported and "can be reached" not in reported


def test_the_extender_needs_its_cluster_and_usable_certificates() -> None:
    nowhere = muster("extender", "--port", "0", "--kubeconfig", "none.yaml")
    assert nowhere.exit_code == 2 and "none.yaml" in nowhere.stderr
    bad = muster("extender", "-f", "w.yaml", "--port", "0", "--tls-cert-file", "w.yaml")
    assert bad.exit_code == 2 and "cannot be used for TLS" in bad.stderr
    assert muster("extender", "-f", "w.yaml", "--port", "0", "--client-ca-file", "w.yaml").exit_code == 2
