"""The labels that bind an application to its policies, and what each combination of them means.

An application requires a policy with the required label. The controller sets the binding label to the same value once
the policy exists and is valid. The extender reads the labels for PropagationPolicies, the edge gate both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, IntEnum

__all__ = ["DOMAIN", "PolicyLabels", "BindingState", "hold_reason", "binding_state", "unusable_name", "unbound_reason"]

DOMAIN = "groupmanagement.kubeedge.io"
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class PolicyLabels(Enum):
    """The two labels of an application for one kind of policy: the required policy and the bound policy."""

    PROPAGATION = "PropagationPolicy"
    OVERRIDE = "OverridePolicy"

    def __init__(self, kind: str) -> None:
        self.required = f"{DOMAIN}/required-{kind.lower()}"
        self.binding = f"{DOMAIN}/binding-{kind.lower()}"


class BindingState(IntEnum):
    """The design's four situations, and STALE: a binding label without a required label."""

    UNBOUND = 1
    REBINDING = 2
    BOUND = 3
    FREE = 4
    STALE = 5


def binding_state(labels: Mapping[str, str], pair: PolicyLabels) -> BindingState:
    """The binding state of an application with these labels."""
    required, binding = labels.get(pair.required), labels.get(pair.binding)
    if not required:
        return BindingState.STALE if binding else BindingState.FREE
    if not binding:
        return BindingState.UNBOUND
    return BindingState.BOUND if required == binding else BindingState.REBINDING


def unbound_reason(labels: Mapping[str, str], pair: PolicyLabels) -> str | None:
    """Why pods of the application must wait for its policy; None: they need not wait."""
    state = binding_state(labels, pair)
    required, binding = labels.get(pair.required, ""), labels.get(pair.binding, "")
    if state == BindingState.UNBOUND:
        return f"{pair.value} {required} is required and not bound yet"
    if state == BindingState.REBINDING:
        return f"{pair.value} {required} is required, but {binding} is still bound"
    return None


def hold_reason(labels: Mapping[str, str]) -> str | None:
    """Why the edge gate does not send pods of the application to edge nodes; None: it sends them."""
    return unbound_reason(labels, PolicyLabels.PROPAGATION) or unbound_reason(labels, PolicyLabels.OVERRIDE)


def unusable_name(policy: str) -> str | None:
    """Why no application can require a policy of that name; None: one can."""
    if _LABEL_VALUE.fullmatch(policy):
        return None
    return "the name is no label value, so no application can ask for it (63 characters)"
