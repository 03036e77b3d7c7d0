"""What `muster manifests` prints, in a cluster that takes nothing but the restricted pod security standard."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import muster
from builders.manifests import group, priority_class
from live.api import Api, Plain, place, until
from live.binary import helm, version
from live.conftest import HOME, RIGHTS, MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, all_placed, events, gang, muster_pod, read_group
from live.test_install_page import steps
from muster.cli import main
from muster.cli.install import PARTS, Part, default_queue
from muster.cli.install.parts import PORT
from muster.model.yamltext import load_all

ALL = [argument for part in PARTS for argument in ("--part", part)]
ELECTING = [part.verb for part in PARTS.values() if part.elects]
CHART = Path(muster.__file__).parents[2] / "deploy" / "helm" / "muster"


def printed(*arguments: str) -> list[Plain]:
    done = CliRunner().invoke(main, ["manifests", "-o", "json", *arguments])
    assert done.exit_code == 0, done.stderr
    items: list[Plain] = json.loads(done.stdout)["items"]
    return items


@pytest.fixture(scope="module")
def installed(api: Api, crds: None, rights: None, module_nodes: MakeNodes) -> Iterator[list[Plain]]:
    # Too small for the pods of the tests below, which look at the nodes that they make themselves.
    module_nodes(2, prefix="installed-", resources={"cpu": "5"})
    objects = printed(*ALL)
    api.merge(place(objects[0]), {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
    for one in objects:
        api.apply(one)
    yield objects
    # The rights stay: other tests work under them.
    for one in reversed(objects):
        if one["kind"] not in RIGHTS:
            api.delete(place(one))


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


def test_every_part_comes_up_under_the_restricted_standard(installed: list[Plain], api: Api) -> None:
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


@pytest.mark.parametrize("part", ELECTING)
def test_a_part_holds_its_own_lease_and_no_other(part: str, installed: list[Plain], api: Api) -> None:
    lease = "leases.coordination.k8s.io"
    assert may(api, part, "create", lease, HOME)
    assert may(api, part, "update", lease, HOME, f"muster-{part}")
    assert not may(api, part, "update", lease, HOME, "kube-scheduler")
    assert not may(api, part, "update", lease, "kube-system", f"muster-{part}")


def test_the_extender_reads_and_wakes_pods_through_their_status(installed: list[Plain], api: Api) -> None:
    assert may(api, "extender", "watch", "propagationpolicies.groupmanagement.kubeedge.io")
    assert may(api, "extender", "patch", "pods/status")
    for verb, resource in (("create", "pods/binding"), ("create", "pods/eviction"), ("patch", "pods")):
        assert not may(api, "extender", verb, resource)


def test_the_edge_gate_reads_pods_and_applications_and_writes_nothing(installed: list[Plain], api: Api) -> None:
    for verb, resource in (("list", "pods"), ("get", "pods"), ("watch", "deployments.apps"), ("watch", "jobs.batch")):
        assert may(api, "edge-gate", verb, resource), f"{verb} {resource}"
    for verb, resource in (
        ("watch", "pods"), ("patch", "pods"), ("impersonate", "users"), ("list", "services"),
        ("create", "tokenreviews.authentication.k8s.io"), ("create", "leases.coordination.k8s.io"),
    ):  # fmt: skip
        assert not may(api, "edge-gate", verb, resource), f"{verb} {resource}"


def test_the_webhook_writes_its_own_configurations_and_no_others(installed: list[Plain], api: Api) -> None:
    for kind in ("mutating", "validating"):
        resource = f"{kind}webhookconfigurations.admissionregistration.k8s.io"
        assert not may(api, "webhook", "create", resource, "")
        for verb in ("get", "update"):
            assert may(api, "webhook", verb, resource, "", "muster-webhook")
            assert not may(api, "webhook", verb, resource, "", "someone-else")
        for verb in ("delete", "list", "patch"):
            assert not may(api, "webhook", verb, resource, "", "muster-webhook")
        assert not may(api, "controllers", "update", resource, "", "muster-webhook")


@pytest.mark.parametrize("part", [part for part in PARTS.values() if part.serves], ids=lambda part: part.verb)
def test_a_service_leads_to_the_pods_of_its_part(part: Part, installed: list[Plain], api: Api) -> None:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{HOME}/endpointslices"

    def ready() -> list[int]:
        slices = api.list(f"{path}?labelSelector=kubernetes.io%2Fservice-name%3D{part.name}")
        return [
            slice_["ports"][0]["port"]
            for slice_ in slices
            for endpoint in slice_["endpoints"] or ()
            if endpoint["conditions"]["ready"]
        ]

    assert until(f"an endpoint of {part.name}", ready, 40) == [part.tls_port or PORT]


def test_the_scheduler_does_its_work_with_its_own_rights(
    scheduler_kubeconfig: Path, crds: None, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(2)
    low, high = (api.create(priority_class(name, value)) for name, value in (("live-low", 1), ("live-high", 100)))
    configuration = "actions: enqueue, allocate, preempt\ntiers:\n- plugins: [{name: priority}, {name: gang}]\n"
    configuration += "- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]\n"
    lease = f"{HOME}/muster-scheduler"
    with Scheduler(scheduler_kubeconfig, config=configuration, elect=True, lease=lease) as scheduler:
        first = gang(api, namespace, "first", 2, members=1, cpu="6", priorityClassName="live-low")
        all_placed(api, namespace, first)
        api.create(group("urgent", "default", namespace=namespace, minMember=1, priorityClassName="live-high"))
        api.create(muster_pod(namespace, "now", "urgent", "6", priorityClassName="live-high"))
        all_placed(api, namespace, ["now"], 40)
        until("an event", lambda: events(api, namespace, "now", "Scheduled"))
        until("the phase", lambda: read_group(api, namespace, "urgent").get("status", {}).get("phase") == "Running")
        message = scheduler.log_file.read_text(encoding="utf-8")
    holder = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/muster-scheduler")
    assert holder["spec"]["leaseTransitions"] >= 0
    assert [line for line in message.splitlines() if "forbidden" in line.lower()] == []
    for made in (low, high):
        api.delete(place(made))


QUEUE = "/apis/scheduling.volcano.sh/v1beta1/queues/default"


def test_the_default_queue_is_printed_with_our_label_where_there_is_none(
    installed: list[Plain], api: Api, control_plane: ControlPlane
) -> None:
    access = ("--kubeconfig", str(control_plane.kubeconfig))
    if not api.gone(QUEUE):
        api.delete(QUEUE)
    assert not [one for one in installed if one["kind"] == "Queue"]
    (queue,) = (one for one in printed("--default-queue", *access) if one["kind"] == "Queue")
    assert api.create(queue)["metadata"]["labels"]["app.kubernetes.io/part-of"] == "muster"
    assert not [one for one in printed("--default-queue", *access) if one["kind"] == "Queue"]
    uninstall = steps()["Uninstall"]
    (by_label,) = (line for line in uninstall if "queues.scheduling.volcano.sh" in line)
    assert control_plane.kubectl(*by_label.split()[1:]).returncode == 0
    assert api.gone(QUEUE)
    api.create({**queue, "metadata": {"name": "default"}})  # somebody else's
    assert control_plane.kubectl(*by_label.split()[1:]).returncode == 0
    assert not api.gone(QUEUE)
    api.delete(QUEUE)


def test_all_that_is_printed_carries_the_label(installed: list[Plain]) -> None:
    assert {one["metadata"]["labels"].get("app.kubernetes.io/part-of") for one in installed} == {"muster"}


def test_the_chart_is_clean_and_renders_what_the_command_prints() -> None:
    lint = subprocess.run([helm(), "lint", "--strict", CHART], capture_output=True, text=True)
    assert lint.returncode == 0, lint.stdout + lint.stderr
    assert by_place(rendered("--namespace", HOME)) == by_place([*printed()[1:], default_queue()])
    everything = rendered("--namespace", HOME, "--set", ALL_ENABLED)
    assert by_place(everything) == by_place([*printed(*ALL)[1:], default_queue()])


def test_the_chart_and_the_command_place_the_parts_by_the_same_values(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(VALUES, encoding="utf-8")
    wanted = by_place([*printed("--values", str(values), *ALL)[1:], default_queue()])
    found = rendered(
        "--namespace", HOME, "-f", str(values), "--set", ALL_ENABLED
    )  # fmt: skip
    assert by_place(found) == wanted
    pods = {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in found if one["kind"] == "Deployment"}
    assert len(pods) == len(PARTS)
    for name, pod_spec in pods.items():
        extender = name == "muster-extender"
        assert pod_spec["nodeSelector"] == ({"disk": "ssd"} if extender else {"role": "system"})
        assert pod_spec["priorityClassName"] == ("mine" if extender else "system-node-critical")
        assert pod_spec["tolerations"] == [{"key": "role", "operator": "Exists"}]
        assert "podAntiAffinity" in pod_spec["affinity"]
        memory = pod_spec["containers"][0]["resources"]["limits"]["memory"]
        assert (memory == "3Gi") == extender


ALL_ENABLED = "edgeGate.enabled=true,podGroups.enabled=true,dashboard.enabled=true"
VALUES = """\
nodeSelector: {role: system}
tolerations: [{key: role, operator: Exists}]
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 1
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector: {matchLabels: {app.kubernetes.io/name: muster}}
priorityClassName: system-node-critical
extender:
  nodeSelector: {disk: ssd}
  priorityClassName: mine
  replicas: 2
  resources: {requests: {cpu: "1", memory: 1Gi}, limits: {memory: 3Gi}}
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [("nodeselector: {a: b}", "did you mean nodeSelector"), ("extender: {nodeSelectr: {}}", "extender.nodeSelectr"),
     ("tolerations: {a: b}", "tolerations should be a list"), ("extender: 3", "should be a mapping"),
     ("- 1", "should be a mapping"), ("a: [", "values.yaml:")],
)  # fmt: skip
def test_values_that_cannot_be_used_are_named(text: str, says: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(text, encoding="utf-8")
    done = CliRunner().invoke(main, ["manifests", "--values", str(values)])
    assert done.exit_code == 2 and says in done.stderr


def test_the_chart_leaves_out_what_is_switched_off() -> None:
    values = "extender.enabled=false,controllers.enabled=false,webhook.enabled=false"
    values += ",scheduler.replicas=1,scheduler.defaultQueue=false"
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
