"""What the tokens of muster's parts cannot do, although RBAC lets them patch the object."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from builders.manifests import pod
from live.accounts import account_in
from live.api import Api, Plain, Refused, place, until
from live.conftest import HOME, MakeNodes
from live.controlplane import ControlPlane
from live.part_process import free_port
from live.webhook_site import DOMAIN, REGISTERED, deployment, made, thing, unregister, webhook_part
from muster.cli.install import PARTS, Settings, part_objects
from muster.config.loader import DEFAULT

POLICY = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/muster-controllers"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


@pytest.fixture(scope="module")
def stolen(api: Api, control_plane: ControlPlane, crds: None, rights: None) -> Api:
    """The API server, spoken to with the token of the controllers."""
    token = api.token_of(HOME, "muster-controllers")
    stolen = Api(control_plane.api.url, control_plane.api.ca, token)
    api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "limited"}})
    enforced(stolen, "/api/v1/nodes/limited")
    api.delete("/api/v1/nodes/limited")
    return stolen


def enforced(stolen: Api, path: str) -> None:
    """The API server takes a moment until it heeds a new policy."""
    values = map(str, itertools.count())  # a value that is there already is no change
    until("the policy to be enforced", lambda: denied(stolen, path, labels(enforced=next(values))), 60)


def denied(stolen: Api, path: str, change: object, kind: str = MERGE) -> str:
    """What the API server says to it; empty: it lets it through."""
    try:
        stolen.call("PATCH", path, change, kind)
    except Refused as refused:
        assert "muster-controllers" in refused.message, refused.message
        return refused.message
    return ""


def labels(**given: Any) -> Plain:
    return {"metadata": {"labels": {name.replace("__", "/").replace("_", "-"): value for name, value in given.items()}}}


def note(name: str, value: str | None = "x") -> Plain:
    return {"metadata": {"annotations": {name: value}}}


def test_the_policy_s_expressions_have_the_right_types(api: Api, stolen: Api) -> None:
    checked = until("its types to be checked", lambda: api.get(POLICY).get("status", {}).get("observedGeneration"), 60)
    assert checked
    warnings = api.get(POLICY)["status"].get("typeChecking", {}).get("expressionWarnings", [])
    assert warnings == []


def test_of_a_node_only_the_labels_of_groups_can_be_written(stolen: Api, api: Api, make_nodes: MakeNodes) -> None:
    make_nodes(1, prefix="limited-")
    path = "/api/v1/nodes/limited-1"
    group = f"nodegroup.{DOMAIN}/here"
    assert not denied(stolen, path, {"metadata": {"labels": {group: ""}}})
    assert not denied(stolen, path, {"metadata": {"labels": {group: None}}})
    for change in (
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        {"metadata": {"labels": {"kubernetes.io/hostname": None}}},
        {"metadata": {"labels": {f"{DOMAIN}/nodegroup": "x"}}},
        {"metadata": {"labels": {group: "", "tier": "x"}}},
        note("a"),
        note(f"{DOMAIN}/x"),
        {"metadata": {"finalizers": ["a.example/x"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "b"}]}},
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
    ):
        assert denied(stolen, path, change), change
    assert "tier" not in api.get(path)["metadata"]["labels"]


def test_of_a_pod_only_images_and_muster_s_own_marks_can_be_written(stolen: Api, api: Api, namespace: str) -> None:
    made_pod = pod(
        "p", namespace=namespace, labels={"app": "a"}, container={"name": "web", "image": "nginx:1"},
        schedulerName="nobody", schedulingGates=[{"name": "example.com/gate"}],
        initContainers=[{"name": "init", "image": "init:1"}],
    )  # fmt: skip
    path = place(api.create(made_pod))
    for field, name in (("containers", "web"), ("initContainers", "init")):
        change = {"spec": {field: [{"name": name, "image": "other:2"}]}}
        assert not denied(stolen, path, change, STRATEGIC)
    for change in (
        {"metadata": {"labels": {f"{DOMAIN}/observed": "x"}}},
        note(f"{DOMAIN}/seat", "1"),
        note("controller.kubernetes.io/pod-deletion-cost", "1"),
        note("muster.io/evicted-by"),
    ):
        assert not denied(stolen, path, change), change
    for change in (
        labels(app="b"),
        labels(app=None),
        labels(pod_security="x"),
        note("example.com/x"),
        note(f"{DOMAIN}/evict", "false"),
        {"metadata": {"finalizers": ["a.example/x"]}},
        {"spec": {"schedulingGates": None}},
        {"spec": {"activeDeadlineSeconds": 1}},
        {"spec": {"nodeSelector": {"a": "b"}}},
    ):
        assert denied(stolen, path, change), change
    tolerated = [{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]
    assert denied(stolen, path, tolerated, "application/json-patch+json")
    assert api.get(path)["spec"]["containers"][0]["image"] == "other:2"
    assert api.get(path)["metadata"]["labels"]["app"] == "a"


def test_of_a_workload_only_the_binding_can_be_written(stolen: Api, api: Api, namespace: str) -> None:
    app = api.create(deployment(namespace, 0, {"app": "a"}, name="web"))
    path = place(app)
    for name in ("propagation", "override"):
        assert not denied(stolen, path, {"metadata": {"labels": {f"{DOMAIN}/binding-{name}policy": "p"}}})
    assert not denied(stolen, path, note(f"{DOMAIN}/overridden-by"))
    for change in (
        {"metadata": {"labels": {f"{DOMAIN}/required-overridepolicy": "p"}}},
        labels(app="b"),
        note("deployment.kubernetes.io/revision", "9"),
        {"spec": {"replicas": 7}},
        {"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}},
        {"spec": {"template": {"spec": {"hostNetwork": True}}}},
        {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": required("a")}}}}},
    ):
        assert denied(stolen, path, change), change
    image = {"spec": {"template": {"spec": {"containers": [{"name": "nginx", "image": "evil"}]}}}}
    assert denied(stolen, path, image, STRATEGIC)


def required(key: str) -> Plain:
    terms = [{"matchExpressions": [{"key": key, "operator": "Exists"}]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def test_of_a_daemon_set_the_required_node_affinity_can_be_written_too(stolen: Api, api: Api, namespace: str) -> None:
    app = deployment(namespace, 0, {}, name="agent")
    app["kind"] = "DaemonSet"
    del app["spec"]["replicas"]
    path = place(api.create(app))
    affinity = {"affinity": {"nodeAffinity": required(f"nodegroup.{DOMAIN}/g")}}
    applied = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "annotations": {f"{DOMAIN}/daemonset-affinity": "x"}},
        "spec": {"template": {"spec": affinity}},
    }
    query = "?fieldManager=muster-daemonset-affinity&force=true"
    assert not denied(stolen, path + query, applied, "application/apply-patch+yaml")
    assert api.get(path)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"] == required(f"nodegroup.{DOMAIN}/g")
    own = {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": required("mine")}}}}}
    assert not denied(stolen, path, own)
    released = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}}
    assert not denied(stolen, path + query, released, "application/apply-patch+yaml")
    preference = {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
    preferred = [{"weight": 1, "preference": preference}]
    template: list[Plain] = [
        {"hostPID": True},
        {"nodeSelector": {"a": "b"}},
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "a"}]}}},
        {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}},
    ]
    for change in (*({"spec": {"template": {"spec": one}}} for one in template), {"spec": {"minReadySeconds": 5}}):
        assert denied(stolen, path, change), change


def test_of_a_node_group_only_muster_s_finalizer_and_annotation_can_be_written(stolen: Api, api: Api) -> None:
    path = place(api.create(thing("NodeGroup", "limited", spec={"nodes": ["n"]})))
    finalizer = f"{DOMAIN}/node-labels"
    assert not denied(stolen, path, {"metadata": {"finalizers": [finalizer]}})
    assert not denied(stolen, path, note(f"{DOMAIN}/exclusive", "true"))
    for change in (
        {"spec": {"nodes": ["other"]}},
        {"metadata": {"finalizers": [finalizer, "a.example/x"]}},
        labels(a="b"),
        {"metadata": {"labels": {f"{DOMAIN}/binding-overridepolicy": "p"}}},
    ):
        assert denied(stolen, path, change), change
    assert not denied(stolen, path, {"metadata": {"finalizers": None}})
    api.delete(path)


def test_keys_that_the_administrator_lists_can_be_written_to_pods(
    stolen: Api, api: Api, control_plane: ControlPlane, namespace: str
) -> None:
    limited = list(part_objects(PARTS["controllers"], Settings(namespace, "m", DEFAULT, override_metadata='["tier"]')))
    for one in limited:
        if "Cluster" in one["kind"] or "Admission" in one["kind"]:
            one["metadata"]["name"] += f"-in-{namespace}"
        if one["kind"].endswith("PolicyBinding"):
            one["spec"]["policyName"] += f"-in-{namespace}"
        if one["kind"] == "ClusterRoleBinding":
            one["roleRef"]["name"] += f"-in-{namespace}"
        if one["kind"] in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding") or "Admission" in one["kind"]:
            api.apply(one)
    other = Api(api.url, api.ca, api.token_of(namespace, "muster-controllers"))
    api.create(deployment(namespace, 1, {}, name="web"))
    path = place(made(api, namespace, 1)[0] | {"apiVersion": "v1", "kind": "Pod"})
    enforced(other, path)
    assert not denied(other, path, labels(tier="edge"))
    for one in limited:
        if "Admission" in one["kind"]:
            api.delete(place(one))


def test_the_webhook_updates_its_configurations_and_cannot_make_others(
    stolen: Api, api: Api, control_plane: ControlPlane
) -> None:
    webhook = Api(api.url, api.ca, api.token_of(HOME, "muster-webhook"))
    for one in part_objects(PARTS["webhook"], Settings(HOME, "m", DEFAULT)):
        if not one["kind"].endswith("WebhookConfiguration"):
            continue
        path = place(one)
        with pytest.raises(Refused) as refused:
            webhook.create(one)
        assert refused.value.status == 403
        api.apply(one)
        known = webhook.get(path)
        known["webhooks"][0]["timeoutSeconds"] = 3
        assert webhook.call("PUT", path, known)["webhooks"][0]["timeoutSeconds"] == 3
        with pytest.raises(Refused) as refused:
            webhook.delete(path)
        assert refused.value.status == 403
        api.delete(path)


def test_a_webhook_without_configurations_reports_it_and_takes_them_up_when_they_come(
    crds: None, control_plane: ControlPlane, api: Api, namespace: str
) -> None:
    account = account_in(control_plane, namespace, "webhook")
    unregister(api)
    part = webhook_part(account, namespace, free_port())
    try:
        part.start(wait=False)
        until("the report", lambda: any("apply the manifests" in entry["msg"] for entry in part.log()), 60)
        status, text = part.probe("/readyz")
        assert status != 200 and "not registered" in text
        account_in(control_plane, namespace, "webhook")
        until("ready", lambda: part.probe("/readyz")[0] == 200, 60)
        assert api.get(REGISTERED)["webhooks"][0]["clientConfig"]["caBundle"]
    finally:
        part.stop()
        unregister(api)
