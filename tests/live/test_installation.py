"""What `muster manifests` prints, in a cluster that takes nothing but the restricted pod security standard."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import muster
from live.api import Api, Plain, Refused, place, until
from live.binary import helm, version
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from muster.cli import main
from muster.cli.install import PARTS
from muster.model.yamltext import load_all

HOME = "muster-system"
CHART = Path(muster.__file__).parents[2] / "deploy" / "helm" / "muster"


def printed(*arguments: str) -> list[Plain]:
    done = CliRunner().invoke(main, ["manifests", "-o", "json", *arguments])
    assert done.exit_code == 0, done.stderr
    items: list[Plain] = json.loads(done.stdout)["items"]
    return items


@pytest.fixture(scope="module")
def installed(api: Api, crds: None) -> Iterator[list[Plain]]:
    objects = printed()
    api.create(restricted(objects[0]))
    for one in objects[1:]:
        api.apply(one)
    yield objects
    for one in reversed(objects[1:]):
        api.delete(place(one))
    api.delete(place(objects[0]))


def restricted(namespace: Plain) -> Plain:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {**namespace, "metadata": {**namespace["metadata"], "labels": labels}}


def may(api: Api, part: str, verb: str, resource: str, namespace: str = "default", name: str = "") -> bool:
    """What the API server would say to the part's account."""
    path, _, sub = resource.partition("/")
    plural, _, group = path.partition(".")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": sub, "namespace": namespace, "name": name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{HOME}:muster-{part}",
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": asked,
        },
    }
    answer = api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    allowed: bool = answer["status"]["allowed"]
    return allowed


def test_every_part_comes_up_under_the_restricted_standard(
    installed: list[Plain], api: Api, make_nodes: MakeNodes
) -> None:
    make_nodes(2)
    for part in PARTS.values():
        path = f"/apis/apps/v1/namespaces/{HOME}/deployments/{part.name}"

        def replicas_run(path: str = path, wanted: int = part.replicas) -> bool:
            return bool(api.get(path)["status"].get("readyReplicas", 0) == wanted)

        until(f"{part.name} to run", replicas_run, 40)


@pytest.mark.parametrize("part", list(PARTS))
def test_no_part_may_do_what_it_never_does(part: str, installed: list[Plain], api: Api) -> None:
    for verb, resource in (
        ("get", "secrets"), ("list", "secrets"), ("create", "pods"), ("delete", "pods"), ("deletecollection", "pods"),
        ("update", "nodes"), ("delete", "nodes"), ("patch", "nodes/status"), ("create", "serviceaccounts/token"),
        ("create", "pods/exec"), ("escalate", "clusterroles.rbac.authorization.k8s.io"), ("list", "configmaps"),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io"), ("delete", "queues.scheduling.volcano.sh"),
        ("update", "leases.coordination.k8s.io"), ("patch", "customresourcedefinitions.apiextensions.k8s.io"),
    ):  # fmt: skip
        assert not may(api, part, verb, resource), f"{part} may {verb} {resource}"


def test_the_scheduler_may_bind_and_evict_and_not_touch_nodes(installed: list[Plain], api: Api) -> None:
    for verb, resource in (
        ("watch", "nodes"), ("list", "pods"), ("create", "pods/binding"), ("create", "pods/eviction"),
        ("patch", "pods/status"), ("patch", "podgroups.scheduling.volcano.sh"), ("create", "events"),
        ("patch", "podgroups.scheduling.volcano.sh/status"), ("patch", "persistentvolumeclaims"),
    ):  # fmt: skip
        assert may(api, "scheduler", verb, resource), f"{verb} {resource}"
    for verb, resource in (
        ("patch", "nodes"), ("patch", "pods"), ("patch", "deployments.apps"), ("patch", "queues.scheduling.volcano.sh"),
        ("create", "podgroups.scheduling.volcano.sh"), ("patch", "nodegroups.groupmanagement.kubeedge.io"),
    ):  # fmt: skip
        assert not may(api, "scheduler", verb, resource), f"{verb} {resource}"


@pytest.mark.parametrize("part", list(PARTS))
def test_a_part_holds_its_own_lease_and_no_other(part: str, installed: list[Plain], api: Api) -> None:
    lease = "leases.coordination.k8s.io"
    assert may(api, part, "create", lease, HOME)
    assert may(api, part, "update", lease, HOME, f"muster-{part}")
    assert not may(api, part, "update", lease, HOME, "kube-scheduler")
    assert not may(api, part, "update", lease, "kube-system", f"muster-{part}")


def test_the_extender_only_reads(installed: list[Plain], api: Api) -> None:
    assert may(api, "extender", "watch", "propagationpolicies.groupmanagement.kubeedge.io")
    for verb, resource in (("create", "pods/binding"), ("create", "pods/eviction"), ("patch", "pods/status")):
        assert not may(api, "extender", verb, resource)


def test_the_scheduler_binds_with_its_own_token(
    installed: list[Plain], control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1)
    account = Api(api.url, api.ca, api.token_of(HOME, "muster-scheduler"))
    spec = {"schedulerName": "muster", "containers": [{"name": "main", "image": "app:1"}]}
    meta = {"name": "a", "namespace": namespace}
    made = api.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    account.bind(made, "n1")
    with pytest.raises(Refused) as refused:
        account.delete(place(made))
    assert refused.value.status == 403


def test_the_default_queue_leaves_one_that_exists_as_it_is(installed: list[Plain], api: Api) -> None:
    queue = next(one for one in installed if one["kind"] == "Queue")
    assert api.get(place(queue))["spec"]["weight"] == 1
    api.merge(place(queue), {"spec": {"weight": 7}})
    api.apply(queue)
    assert api.get(place(queue))["spec"]["weight"] == 7


def test_the_chart_is_clean_and_renders_what_the_command_prints() -> None:
    lint = subprocess.run([helm(), "lint", "--strict", CHART], capture_output=True, text=True)
    assert lint.returncode == 0, lint.stdout + lint.stderr
    assert by_place(rendered("--namespace", HOME)) == by_place(printed()[1:])


def test_the_chart_leaves_out_what_is_switched_off() -> None:
    values = "extender.enabled=false,controllers.enabled=false,scheduler.replicas=1,scheduler.defaultQueue=false"
    kinds = sorted(one["kind"] for one in rendered("--set", values))
    account = ["ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "Role", "RoleBinding", "ServiceAccount"]
    assert kinds == account


def test_helm_brings_the_definitions_along() -> None:
    shown = subprocess.run([helm(), "show", "crds", CHART], capture_output=True, text=True).stdout
    assert shown.count("kind: CustomResourceDefinition") == 8


def rendered(*arguments: str) -> list[Plain]:
    # Without a cluster to ask, and without the stamps of its releases, helm takes Kubernetes to be very old.
    command = [helm(), "template", "muster", CHART, "--kube-version", version(), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [document.value for document in load_all(done.stdout, "helm template")]


def by_place(objects: list[Plain]) -> dict[str, Plain]:
    return {place(one): one for one in objects}
