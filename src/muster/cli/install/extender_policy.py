"""What the extender may change of a pod: one label. RBAC alone would let it change any field.

A ValidatingAdmissionPolicy, which the API server applies to the requests of the extender's account only.
"""

from __future__ import annotations

from typing import Any

from muster.groups.assignment import RETRY

Plain = dict[str, Any]

_VERSION = "admissionregistration.k8s.io/v1"
_SAME = (
    "(has(object.metadata.{0}) ? object.metadata.{0} : {1}) == "
    "(has(oldObject.metadata.{0}) ? oldObject.metadata.{0} : {1})"
)
_LABELS = (
    "variables.new.all(k, k == '{0}' || (k in variables.old && variables.old[k] == variables.new[k])) && "
    "variables.old.all(k, k == '{0}' || k in variables.new)"
)


def extender_policy(name: str, namespace: str, labels: dict[str, str]) -> list[Plain]:
    """The policy and its binding; `name` is the account's, too."""
    # Of each namespace one: the account's name is in the condition.
    meta = {"name": f"{name}-{namespace}", "labels": labels}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "scope": "*",
            "resources": ["pods", "pods/status"]}  # fmt: skip
    account = f"request.userInfo.username == 'system:serviceaccount:{namespace}:{name}'"
    unchanged = [
        "object.spec == oldObject.spec",
        "object.status == oldObject.status",
        _SAME.format("annotations", "{}"),
        _SAME.format("finalizers", "[]"),
        _SAME.format("ownerReferences", "[]"),
        _LABELS.format(RETRY),
    ]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [{"name": "extender", "expression": account}],
        "variables": [
            {"name": "new", "expression": "has(object.metadata.labels) ? object.metadata.labels : {}"},
            {"name": "old", "expression": "has(oldObject.metadata.labels) ? oldObject.metadata.labels : {}"},
        ],
        "validations": [
            {"expression": one, "message": f"the extender may only change the label {RETRY} of pods"}
            for one in unchanged
        ],
    }
    binding = {"policyName": meta["name"], "validationActions": ["Deny"]}
    return [
        {"apiVersion": _VERSION, "kind": "ValidatingAdmissionPolicy", "metadata": meta, "spec": spec},
        {"apiVersion": _VERSION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": dict(meta), "spec": binding},
    ]
