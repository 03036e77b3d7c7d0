"""`muster snapshot` of a real cluster: what simulate reads, no secrets, and what an account may not see."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from click.testing import CliRunner

from live.api import Api, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from muster.cli import main


def _reader(api: Api, namespace: str, resources: list[str]) -> None:
    """A ServiceAccount that may list these and nothing else."""
    rbac = "rbac.authorization.k8s.io"
    name = f"reader-{namespace}"
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": namespace}})
    rules = [{"apiGroups": [""], "resources": resources, "verbs": ["list", "watch"]}]
    api.create({"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
    api.create({
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
    })  # fmt: skip


def test_a_snapshot_is_what_simulate_reads(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes, tmp_path: Path
) -> None:
    make_nodes(2, prefix="snap")
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}},
                 "env": [{"name": "TOKEN", "value": "hush-hush"}]}  # fmt: skip
    pods = {"schedulerName": "muster", "containers": [container]}
    template = {"metadata": {"labels": {"app": "d"}}, "spec": pods}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    meta = {"name": "d", "namespace": namespace}
    api.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    api.create({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace},
        "stringData": {"password": "hush-hush"},
    })  # fmt: skip
    until("its pods", lambda: len(api.list(f"/api/v1/namespaces/{namespace}/pods")) == 3)
    file = tmp_path / "cluster.ndjson.gz"

    kubeconfig = str(control_plane.kubeconfig)
    taken = CliRunner().invoke(main, ["snapshot", str(file), "--kubeconfig", kubeconfig, "-o", "json"])
    assert taken.exit_code == 0, taken.output
    counts = json.loads(taken.stdout)["objects"]
    assert counts["Node"] >= 2 and counts["Pod"] >= 3 and counts["Deployment"] >= 1 and "Secret" not in counts
    assert file.stat().st_mode & 0o777 == 0o600

    assert b"hush-hush" not in gzip.decompress(file.read_bytes())
    ran = CliRunner().invoke(main, ["simulate", "-f", str(file), "-o", "json"])
    assert ran.exit_code == 0, ran.output
    decided = json.loads(ran.stdout)
    ours = [name for name in (*decided["binds"], *decided["pending"]) if name.startswith(f"{namespace}/")]
    assert sorted(ours) == sorted(
        f"{namespace}/{one['metadata']['name']}" for one in api.list(f"/api/v1/namespaces/{namespace}/pods")
    )


def test_a_snapshot_by_one_who_may_not_see_everything_reports_it(
    control_plane: ControlPlane, api: Api, namespace: str, tmp_path: Path
) -> None:
    _reader(api, namespace, ["pods", "nodes"])
    kubeconfig = control_plane.kubeconfig_of(namespace, "reader")
    file = tmp_path / "some.ndjson.gz"
    taken = CliRunner().invoke(main, ["snapshot", str(file), "--kubeconfig", str(kubeconfig), "-o", "json"])
    assert taken.exit_code == 0, taken.output
    assert "persistentvolumes" in json.loads(taken.stdout)["forbidden"]
    assert "persistentvolumes is left out" in taken.stderr


def test_a_snapshot_by_one_who_may_see_nothing_is_refused(
    control_plane: ControlPlane, api: Api, namespace: str, tmp_path: Path
) -> None:
    _reader(api, namespace, ["namespaces"])
    kubeconfig = control_plane.kubeconfig_of(namespace, "reader")
    file = tmp_path / "none.ndjson.gz"
    taken = CliRunner().invoke(main, ["snapshot", str(file), "--kubeconfig", str(kubeconfig)])
    assert taken.exit_code == 2
    assert 'cannot list resource "pods"' in taken.stderr
    assert list(tmp_path.iterdir()) == []
