"""An account that lacks a permission: the log, the metrics and a condition name it, and nothing else breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.manifests import priority_class, queue
from live.api import Api, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, all_placed, condition, gang, muster_pod
from live.part_process import Part
from live.test_scheduler import EVICTS
from muster.cli.install.rights import CONFIGURED, CONTROLLERS, SCHEDULER, Right

pytestmark = pytest.mark.usefixtures("crds")
_RBAC = "rbac.authorization.k8s.io"


def account_without(
    plane: ControlPlane, namespace: str, rights: tuple[Right, ...], verb: str = "", resource: str = ""
) -> Path:
    """A kubeconfig of an account with all these rights but one."""
    name = f"without-{verb}-{resource.replace('/', '-') or 'nothing'}"
    rules = []
    # Several API groups have podgroups: the first one is meant, which is Volcano's.
    group = next((right.group for right in rights if resource in right.resources and verb in right.verbs), "")
    for right in rights:
        for one in right.resources:
            verbs = [v for v in right.verbs if (right.group, v, one) != (group, verb, resource)]
            if verbs:
                rules.append({"apiGroups": [right.group], "resources": [one], "verbs": verbs})
    kind = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": f"{name}-{namespace}"}}
    plane.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}})
    plane.api.apply({**kind, "kind": "ClusterRole", "rules": rules})
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": f"{name}-{namespace}"}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    plane.api.apply({**kind, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]})
    return plane.kubeconfig_of(namespace, name)


def message(part: Part, verb: str, resource: str, word: str = "missing permission") -> bool:
    return any(
        str(entry["msg"]).startswith(word) and (entry["v"], entry["verb"], entry["resource"]) == (0, verb, resource)
        for entry in part.log()
    )


def of_us(api: Api, namespace: str) -> str:
    """The message of the condition of muster's own pod."""
    conditions = api.get(f"/api/v1/namespaces/{namespace}/pods/us")["status"].get("conditions", ())
    return next((c.get("message", "") for c in conditions if c["type"] == "muster.io/PermissionsGranted"), "none yet")


@pytest.mark.parametrize(
    ("verb", "resource", "waits"),
    [
        ("create", "pods/binding", "gang"),
        ("create", "pods/eviction", "high"),
        ("patch", "pods/status", ""),
        ("patch", "podgroups/status", ""),
        ("patch", "queues/status", ""),
        ("create", "events", ""),
    ],
)
def test_each_permission_to_write_that_is_missing_is_named(
    verb: str, resource: str, waits: str, api: Api, namespace: str, make_nodes: MakeNodes, control_plane: ControlPlane
) -> None:
    api.apply(priority_class("high", 1000))
    make_nodes(1, prefix="full", resources={"cpu": "4"})
    for i in range(2):
        api.create(muster_pod(namespace, f"low-{i}", cpu="2", nodeName="full1"))
    make_nodes(1, resources={"cpu": "2"})
    api.apply(queue("default"))
    api.create(muster_pod(namespace, "us", schedulerName="another"))
    kubeconfig = account_without(control_plane, namespace, SCHEDULER, verb, resource)
    environment = {"POD_NAMESPACE": namespace, "POD_NAME": "us"}
    labels = f'resource="{resource}",verb="{verb}"'
    with Scheduler(kubeconfig, config=EVICTS, environment=environment) as muster:
        until("the review", lambda: message(muster, verb, resource))
        assert muster.metric("muster_permission_missing", labels) == 1
        assert muster.metric("muster_permission_missing") == 1, "only this one is missing"
        names = gang(api, namespace, "gang", 2)
        api.create(muster_pod(namespace, "high", cpu="4", priorityClassName="high"))
        api.create(muster_pod(namespace, "large", cpu="64"))
        until("a refusal", lambda: muster.metric("muster_permission_denied_total", labels) > 0, 60)
        refusals = muster.metric("muster_permission_denied_total")
        assert refusals <= muster.metric("muster_permission_denied_total", labels), "nothing else was refused"
        if waits:
            # Of a gang, the pod that is bound first: which one depends on when they were created.
            refused = names if waits == "gang" else [waits]

            def messages() -> str:
                return " ".join(condition(api, namespace, pod).get("message", "") for pod in refused)

            until("its condition", lambda: resource in messages(), 60)
            assert verb in messages()
        else:
            all_placed(api, namespace, [*names, "high"], 60)
        if resource != "pods/status":
            until("the condition of our pod", lambda: f"{verb} {resource}" in of_us(api, namespace))
        assert sum(str(entry["msg"]).startswith("missing permission") for entry in muster.log()) == 1
        assert muster.metric("muster_faults_total") == 0


def test_nothing_is_reported_where_nothing_is_missing(
    api: Api, namespace: str, make_nodes: MakeNodes, control_plane: ControlPlane
) -> None:
    make_nodes(1)
    api.create(muster_pod(namespace, "us", schedulerName="another"))
    environment = {"POD_NAMESPACE": namespace, "POD_NAME": "us"}
    kubeconfig = account_without(control_plane, namespace, (*SCHEDULER, *CONFIGURED))
    with Scheduler(kubeconfig, environment=environment) as muster:
        until("the condition of our pod", lambda: of_us(api, namespace) == "")
        all_placed(api, namespace, gang(api, namespace, "gang", 2))
        assert muster.metric("muster_permission_missing") == 0 == muster.metric("muster_permission_denied_total")


def test_the_controllers_name_what_they_lack(
    api: Api, namespace: str, make_nodes: MakeNodes, control_plane: ControlPlane
) -> None:
    make_nodes(1, labels={"place": "here"})
    kubeconfig = account_without(control_plane, namespace, CONTROLLERS, "patch", "nodegroups/status")
    group = {
        "apiVersion": "groupmanagement.kubeedge.io/v1alpha1", "kind": "NodeGroup",
        "metadata": {"name": f"g-{namespace}"}, "spec": {"matchLabels": {"place": "here"}},
    }  # fmt: skip
    with Part("controllers", kubeconfig, "--no-leader-elect") as part:
        made = api.create(group)
        try:
            until("its message", lambda: message(part, "patch", "nodegroups/status"))
            labels = 'resource="nodegroups/status",verb="patch"'
            assert part.metric("muster_permission_denied_total", labels) > 0
        finally:
            api.delete(f"/apis/groupmanagement.kubeedge.io/v1alpha1/nodegroups/{made['metadata']['name']}")
