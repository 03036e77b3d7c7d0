"""muster's own kinds: NodeGroup, PropagationPolicy, OverridePolicy (groupmanagement.kubeedge.io/v1alpha1)."""

from __future__ import annotations

from muster.model import groups
from muster.model.crd.schema import (
    COUNT,
    LABEL_VALUE,
    LARGE,
    NAME,
    SHARED,
    SPELT_NAME,
    Column,
    Definition,
    Demands,
    Rule,
    Schema,
)

VERSION = "groupmanagement.kubeedge.io/v1alpha1"
# Limits that let the API server bound the cost of the rules; far above what a cluster has.
_MANY_GROUPS = 1024
_MANY_RULES = 1024

_GROUP_NAMES: Schema = {"minItems": 1, "maxItems": _MANY_GROUPS, "items": SPELT_NAME}

_NODE_GROUP: dict[type, Demands] = {
    **SHARED,
    groups.NodeGroup: Demands(required=("spec",)),
    groups.NodeGroupSpec: Demands(
        fields={
            "nodes": {"description": "Members by name.", "items": NAME},
            "matchLabels": {
                "description": "Nodes that have all of these labels are members as well; without labels, none is.",
                "maxProperties": 64,
                "additionalProperties": LABEL_VALUE,
            },
        },
        rules=[
            Rule(
                "!has(self.matchLabels) || self.matchLabels.all(key, key.size() <= 316 && key.matches("
                "'^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$'))",
                "every key must be a label key, such as topology.kubernetes.io/zone",
                ".matchLabels",
            )
        ],
    ),
    groups.NodeGroupStatus: Demands(fields={"observedGeneration": LARGE}),
}

_PROPAGATION: dict[type, Demands] = {
    **SHARED,
    groups.PropagationPolicy: Demands(required=("spec",)),
    groups.PropagationPolicySpec: Demands(
        fields={
            "propagationStrategy": {
                "description": "Which of the lists is used; if absent, the list that is given, else StaticWeight.",
                # Empty: what Go's own marshalling of the design's type writes for an absent strategy.
                "enum": ["StaticWeight", "NumRange", ""],
            },
            "staticWeightList": {
                "description": "Shares by weight; empty: every node group with weight 1.",
                "maxItems": _MANY_GROUPS,
                "x-kubernetes-validations": [
                    Rule(
                        "self.size() == 0 || self.exists(entry, entry.weight > 0)",
                        "at least one weight must be greater than 0",
                    ).plain()
                ],
            },
            "numRange": {"description": "How many pods each node group may have.", "maxItems": _MANY_GROUPS},
        },
    ),
    groups.StaticNodeGroupWeight: Demands(
        required=("nodeGroupNames", "weight"), fields={"nodeGroupNames": _GROUP_NAMES, "weight": LARGE}
    ),
    groups.NumRange: Demands(
        required=("nodeGroupNames",),
        fields={
            "nodeGroupNames": _GROUP_NAMES,
            "min": {**COUNT, "description": "The minimum number of pods of each of the groups; 0 if absent."},
            "max": {**COUNT, "description": "The maximum number of pods of each of the groups; no limit if absent."},
        },
        rules=[Rule("!has(self.min) || !has(self.max) || self.min <= self.max", "min must not be above max", ".min")],
    ),
    groups.PolicyStatus: Demands(fields={"observedGeneration": LARGE}),
}

_ANY_OPERATOR = ["add", "replace", "update"]

_OVERRIDE: dict[type, Demands] = {
    **SHARED,
    groups.OverridePolicy: Demands(required=("spec",)),
    groups.OverridePolicySpec: Demands(fields={"overrideRules": {"maxItems": _MANY_RULES}}),
    groups.OverrideRule: Demands(
        fields={
            "targetNodeGroup": {
                "description": "The node groups that the rule applies to; all, if none is named.",
                "maxItems": _MANY_GROUPS,
                "items": SPELT_NAME,
            },
            **{name: {"maxItems": 64} for name in ("imageOverrider", "commandOverrider", "argsOverrider", "plaintext")},
        },
    ),
    groups.Overriders: Demands(
        fields={
            name: {"maxItems": 64} for name in ("imageOverrider", "commandOverrider", "argsOverrider", "plaintext")
        },
    ),
    groups.ImagePredicate: Demands(required=("path",), fields={"path": {"minLength": 1}}),
    groups.ImageOverrider: Demands(
        required=("component", "operator"),
        fields={
            "component": {"enum": ["Registry", "Repository", "Tag"]},
            "operator": {"enum": ["add", "replace", "remove"]},
            "value": {"maxLength": 1024},
        },
        rules=[
            Rule(
                "self.operator == 'remove' || (has(self.value) && self.value != '')",
                "add and replace need a value",
                ".value",
            ),
            Rule(
                "self.component != 'Repository' || self.operator != 'remove'",
                "an image cannot be without its repository",
                ".operator",
            ),
        ],
    ),
    groups.CommandArgsOverrider: Demands(
        required=("containerName", "operator"),
        fields={"containerName": {"minLength": 1}, "operator": {"enum": ["add", "remove"]}},
    ),
    groups.PlaintextOverrider: Demands(
        required=("path", "operator"),
        fields={
            "path": {"maxLength": 1024, "pattern": "^(/([^/~]|~[01])*)+$"},
            # The design's comment has update for replace: both are read.
            "operator": {"enum": [*_ANY_OPERATOR, "remove"]},
        },
        # CEL does not see a value of any type, so its presence is a matter of the schema itself.
        whole={
            "anyOf": [
                {"properties": {"operator": {"enum": _ANY_OPERATOR}}, "required": ["value"]},
                {"properties": {"operator": {"enum": ["remove"]}, "value": {"enum": [""]}}},
            ]
        },
    ),
    groups.PolicyStatus: Demands(fields={"observedGeneration": LARGE}),
}

_STANDING = (
    Column("Resolved", '.status.conditions[?(@.type=="Resolved")].status'),
    Column("Satisfied", '.status.conditions[?(@.type=="Satisfied")].status'),
    Column("Reason", '.status.conditions[?(@.type=="Satisfied")].reason'),
    Column("Message", '.status.conditions[?(@.status=="False")].message', priority=1),
)

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        groups.NodeGroup, VERSION, "nodegroups", ("ng",),
        (
            Column("Nodes", ".status.nodes", "integer"),
            Column("Ready", ".status.readyNodes", "integer"),
            Column("Contained", ".status.containedNodes", priority=1),
        ),
        _NODE_GROUP,
    ),
    Definition(
        groups.PropagationPolicy, VERSION, "propagationpolicies", ("pp",),
        (Column("Strategy", ".spec.propagationStrategy"), *_STANDING),
        _PROPAGATION,
    ),
    Definition(groups.OverridePolicy, VERSION, "overridepolicies", ("op",), _STANDING, _OVERRIDE),
)  # fmt: skip
