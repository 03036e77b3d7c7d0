"""The parts' own accounts: what `muster manifests` lets them do, and no more."""

from __future__ import annotations

from pathlib import Path

from live.api import Api
from live.conftest import REGISTRATIONS
from live.controlplane import ControlPlane
from muster.cli.install import PARTS, Settings, part_objects
from muster.config.loader import DEFAULT

_KINDS = (*REGISTRATIONS, "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
_RBAC = "rbac.authorization.k8s.io"


def account_in(plane: ControlPlane, namespace: str, verb: str) -> Path:
    """A kubeconfig of the part's account as it were if it ran in this namespace, with its webhook configurations."""
    part = PARTS[verb]
    for one in part_objects(part, Settings(namespace, "muster:test", DEFAULT)):
        if one["kind"] == "ClusterRoleBinding" or one["metadata"].get("namespace") == "kube-system":
            one["metadata"]["name"] += f"-in-{namespace}"
        if one["kind"] in _KINDS:
            plane.api.apply(one)
    return plane.kubeconfig_of(namespace, part.name)


def let_read(api: Api, namespace: str, verb: str, group: str, plural: str) -> None:
    """What an administrator grants for a kind that the ConfigMap names."""
    name = f"{verb}-{plural}-{namespace}"
    role = {"apiVersion": f"{_RBAC}/v1", "metadata": {"name": name}}
    rule = {"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "watch"]}
    api.apply({**role, "kind": "ClusterRole", "rules": [rule]})
    account = {"kind": "ServiceAccount", "name": PARTS[verb].name, "namespace": namespace}
    reference = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    api.apply({**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [account]})
