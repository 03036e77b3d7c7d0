"""The labels by which an application asks for a policy and a controller grants it, and what each situation means.

An application asks with a required label and gets a binding label of the same value once the policy is found good.
The extender looks at the propagation pair, the edge gate at both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, IntEnum

__all__ = ["DOMAIN", "PolicyLabels", "BindingState", "hold_reason", "binding_state", "unusable_name", "unbound_reason"]

DOMAIN = "groupmanagement.kubeedge.io"
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class PolicyLabels(Enum):
    """Two labels of an application: what it requires and what it is bound to."""

    PROPAGATION = "PropagationPolicy"
    OVERRIDE = "OverridePolicy"

    def __init__(self, kind: str) -> None:
        self.required = f"{DOMAIN}/required-{kind.lower()}"
        self.binding = f"{DOMAIN}/binding-{kind.lower()}"


class BindingState(IntEnum):
    """The design's four situations, and the one it does not name: a binding that nobody requires any more."""

    UNBOUND = 1
    REBINDING = 2
    BOUND = 3
    FREE = 4
    STALE = 5


def binding_state(labels: Mapping[str, str], pair: PolicyLabels) -> BindingState:
    """Where an application with these labels stands with its policy of this kind."""
    required, binding = labels.get(pair.required), labels.get(pair.binding)
    if not required:
        return BindingState.STALE if binding else BindingState.FREE
    if not binding:
        return BindingState.UNBOUND
    return BindingState.BOUND if required == binding else BindingState.REBINDING


def unbound_reason(labels: Mapping[str, str], pair: PolicyLabels) -> str | None:
    """Why pods of the application must wait for its policy; None if they need not."""
    stands = binding_state(labels, pair)
    required, binding = labels.get(pair.required, ""), labels.get(pair.binding, "")
    if stands == BindingState.UNBOUND:
        return f"{pair.value} {required} is required and not bound yet"
    if stands == BindingState.REBINDING:
        return f"{pair.value} {required} is required, but {binding} is still bound"
    return None


def hold_reason(labels: Mapping[str, str]) -> str | None:
    """The edge gate: why pods of the application are not sent to edge nodes; None: they are."""
    return unbound_reason(labels, PolicyLabels.PROPAGATION) or unbound_reason(labels, PolicyLabels.OVERRIDE)


def unusable_name(policy: str) -> str | None:
    """Why no application can ask for a policy of that name; None: it can."""
    if _LABEL_VALUE.fullmatch(policy):
        return None
    return "the name is no label value, so no application can ask for it (63 characters)"
