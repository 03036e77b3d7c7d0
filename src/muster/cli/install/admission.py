"""The admission objects of an installation: the webhook configurations, and the limits of two accounts.

The controllers patch nodes, pods and workloads. RBAC cannot restrict fields, so a ValidatingAdmissionPolicy does: the
account may change only the labels, annotations and fields that it has to write. The extender may change one label of
pods; its policy applies to the requests of its account only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from muster.groupctl.controllers.eviction_order import DELETION_COST, EVICT
from muster.groupctl.controllers.nodegroup import FINALIZER
from muster.groups.applications import DOMAIN, PolicyLabels
from muster.groups.assignment import MEMBER, RETRY

Plain = dict[str, Any]

_REGISTRATION = "admissionregistration.k8s.io/v1"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# The steps to the node affinity of a DaemonSet's template; what is missing is an empty mapping.
_PARTS = (
    ("spec", "spec"),
    ("template", "spec.?template"),
    ("podSpec", "spec.?template.?spec"),
    ("affinity", "spec.?template.?spec.?affinity"),
    ("nodeAffinity", "spec.?template.?spec.?affinity.?nodeAffinity"),
)
# The API server writes it when a DaemonSet's template changes.
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
# CEL: a field of the metadata is unchanged; no label but one is changed.
_SAME_METADATA = (
    "(has(object.metadata.{0}) ? object.metadata.{0} : {1}) == "
    "(has(oldObject.metadata.{0}) ? oldObject.metadata.{0} : {1})"
)
_ONE_LABEL = (
    "variables.new.all(k, k == '{0}' || (k in variables.old && variables.old[k] == variables.new[k])) && "
    "variables.old.all(k, k == '{0}' || k in variables.new)"
)


def webhook_configurations(service: str) -> list[Plain]:
    """Returns both configurations as the webhook keeps them, without the CA bundle, which it writes itself."""
    from muster.groupctl.webhook.registration import Endpoint, configurations

    return [one for _, one in configurations(Endpoint(service=service))]


def controller_limits(name: str, namespace: str, labels: Plain, keys: str) -> Iterator[Plain]:
    """Yields the policy on the account `name` of the namespace, and its binding.

    `keys`: a CEL list of the labels and annotations that OverridePolicies may change on running pods.
    """
    account = f"system:serviceaccount:{namespace}:{name}"
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["*"], "scope": "*"}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [everything],
            # Its own Lease, and its events.
            "excludeResourceRules": [
                {**everything, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]},
                {**everything, "apiGroups": ["", "events.k8s.io"], "resources": ["events"]},
            ],
        },
        "matchConditions": [{"name": "account", "expression": f"request.userInfo.username == '{account}'"}],
        "variables": [{"name": name, "expression": text} for name, text in _variables(keys)],
        "validations": list(_validations()),
    }
    meta = {"name": name, "labels": labels}
    yield {"apiVersion": _REGISTRATION, "kind": "ValidatingAdmissionPolicy", "metadata": dict(meta), "spec": spec}
    bound = {"policyName": name, "validationActions": ["Deny"]}
    yield {"apiVersion": _REGISTRATION, "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta, "spec": bound}


def _variables(keys: str) -> Iterator[tuple[str, str]]:
    yield "keys", keys
    yield "resource", "request.resource.group + '/' + request.resource.resource"
    for name, prefix in (("object", ""), ("oldObject", "old")):
        for field in ("labels", "annotations", "finalizers"):
            empty = "[]" if field == "finalizers" else "{}"
            variable = f"{prefix}{field.title()}" if prefix else field
            yield variable, f"dyn({name}).metadata.?{field}.orValue(dyn({empty}))"
        for part, path in _PARTS:
            variable = f"{prefix}{part[0].upper()}{part[1:]}" if prefix else part
            yield variable, f"dyn({name}).?{path}.orValue(dyn({{}}))"
    for field in ("labels", "annotations"):
        new, old = f"variables.{field}", f"variables.old{field.title()}"
        added = f"{new}.filter(k, !(k in {old}) || {new}[k] != {old}[k])"
        yield f"changed{field.title()}", f"{added} + {old}.filter(k, !(k in {new}))"
    # These belong to the user: which policy an application requires, and that a pod is not evicted.
    ours = f"k.startsWith('{DOMAIN}/') && !k.startsWith('{DOMAIN}/required-') && k != '{EVICT}'"
    bindings = ", ".join(f"'{pair.binding}'" for pair in PolicyLabels)
    yield "wrongLabels", _wrong("changedLabels", {
        "/nodes": f"k.startsWith('{MEMBER}')",
        "/pods": f"({ours}) || k in variables.keys",
        f"{DOMAIN}/nodegroups": "false",
    }, f"k in [{bindings}]")  # fmt: skip
    yield "wrongAnnotations", _wrong("changedAnnotations", {
        "/nodes": "false",
        "/pods": f"({ours}) || k == '{DELETION_COST}' || k.startsWith('muster.io/evicted-') || k in variables.keys",
        "apps/daemonsets": f"({ours}) || k == '{_TEMPLATE_GENERATION}'",
    }, ours)  # fmt: skip


def _wrong(changed: str, allowed: dict[str, str], otherwise: str) -> str:
    """Returns a CEL expression: the changed names that are not allowed for the resource."""
    test = f"({otherwise})"
    for resource, expression in reversed(allowed.items()):
        test = f"(variables.resource == '{resource}' ? ({expression}) : {test})"
    return f"variables.{changed}.filter(k, !{test})"


def _validations() -> Iterator[Plain]:
    who = "muster-controllers may not"
    for field in ("Labels", "Annotations"):
        word = field.lower()
        yield {
            "expression": f"size(variables.wrong{field}) == 0",
            "message": f"{who} change these {word}",
            "messageExpression": f"'{who} change the {word} ' + variables.wrong{field}.join(', ')"
            " + ' of ' + request.resource.resource",
        }
    meta = ("labels", "annotations", "managedFields", "resourceVersion", "generation", "finalizers")
    other_metadata = _same("dyn(object.metadata)", "dyn(oldObject.metadata)", meta)
    yield _rule(other_metadata, f"{who} change other metadata")
    own = f"(variables.resource == '{DOMAIN}/nodegroups' ? '{FINALIZER}' : '')"
    finalizers = " == ".join(f"variables.{name}.filter(f, f != {own})" for name in ("finalizers", "oldFinalizers"))
    yield _rule(finalizers, f"{who} change finalizers of others")
    others = _same("dyn(object)", "dyn(oldObject)", ("metadata", "spec"))
    yield _rule(others, f"{who} change anything but metadata and spec")
    but = "images of pods and the required node affinity of DaemonSets"
    for resource, tests in (("/pods", _pod()), ("apps/daemonsets", _daemon_set())):
        yield _rule(f"variables.resource != '{resource}' || ({' && '.join(tests)})", f"{who} change a spec, but {but}")
    whole = "variables.resource in ['/pods', 'apps/daemonsets'] || dyn(object).?spec == dyn(oldObject).?spec"
    yield _rule(whole, f"{who} change a spec, but {but}")


def _pod() -> list[str]:
    own = _same("variables.spec", "variables.oldSpec", ("containers", "initContainers"))
    return [own, _images("containers"), _images("initContainers")]


def _daemon_set() -> Iterator[str]:
    for (name, _), step in zip(_PARTS, ("template", "spec", "affinity", "nodeAffinity", _REQUIRED), strict=True):
        yield _same(f"variables.{name}", f"variables.old{name[0].upper()}{name[1:]}", (step,))


def _images(field: str) -> str:
    """Returns a CEL expression: the containers are equal except for their images."""
    new, old = (f"variables.{spec}.?{field}.orValue([])" for spec in ("spec", "oldSpec"))
    one = f"{old}.exists(o, o.name == c.name && {_same('c', 'o', ('image',))})"
    return f"size({new}) == size({old}) && {new}.all(c, {one})"


def _same(new: str, old: str, but: Sequence[str]) -> str:
    """Returns a CEL expression: two mappings (without a type) are equal in all fields but these."""
    names = ", ".join(f"'{name}'" for name in but)
    kept = f"{new}.all(k, k in [{names}] || (k in {old} && {new}[k] == {old}[k]))"
    return f"{kept} && {old}.all(k, k in [{names}] || k in {new})"


def _rule(expression: str, message: str) -> Plain:
    return {"expression": expression, "message": message}


def extender_policy(name: str, namespace: str, labels: dict[str, str]) -> list[Plain]:
    """Returns the policy for the extender's account and its binding; `name` is also the account's name."""
    # One per namespace: the account's name is in the condition.
    meta = {"name": f"{name}-{namespace}", "labels": labels}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "scope": "*",
            "resources": ["pods", "pods/status"]}  # fmt: skip
    account = f"request.userInfo.username == 'system:serviceaccount:{namespace}:{name}'"
    unchanged = [
        "object.spec == oldObject.spec",
        "object.status == oldObject.status",
        _SAME_METADATA.format("annotations", "{}"),
        _SAME_METADATA.format("finalizers", "[]"),
        _SAME_METADATA.format("ownerReferences", "[]"),
        _ONE_LABEL.format(RETRY),
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
        {"apiVersion": _REGISTRATION, "kind": "ValidatingAdmissionPolicy", "metadata": meta, "spec": spec},
        {
            "apiVersion": _REGISTRATION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": dict(meta),
            "spec": binding,
        },
    ]
