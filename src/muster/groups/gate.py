"""The labels by which an application asks for a policy and a controller grants it, and what each situation means.

An application asks with a required label and gets a binding label of the same value once the policy is found good.
The extender looks at the propagation pair, the edge gate at both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, IntEnum

__all__ = ["DOMAIN", "Pair", "Situation", "held", "situation", "unaskable", "waiting"]

DOMAIN = "groupmanagement.kubeedge.io"
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class Pair(Enum):
    """Two labels of an application: what it requires and what it is bound to."""

    PROPAGATION = "PropagationPolicy"
    OVERRIDE = "OverridePolicy"

    def __init__(self, kind: str) -> None:
        self.required = f"{DOMAIN}/required-{kind.lower()}"
        self.binding = f"{DOMAIN}/binding-{kind.lower()}"


class Situation(IntEnum):
    """The design's four situations, and the one it does not name: a binding that nobody requires any more."""

    UNBOUND = 1
    REBINDING = 2
    BOUND = 3
    FREE = 4
    STALE = 5


def situation(labels: Mapping[str, str], pair: Pair) -> Situation:
    """Where an application with these labels stands with its policy of this kind."""
    required, binding = labels.get(pair.required), labels.get(pair.binding)
    if not required:
        return Situation.STALE if binding else Situation.FREE
    if not binding:
        return Situation.UNBOUND
    return Situation.BOUND if required == binding else Situation.REBINDING


def waiting(labels: Mapping[str, str], pair: Pair) -> str | None:
    """Why pods of the application must wait for its policy; None if they need not."""
    stands = situation(labels, pair)
    required, binding = labels.get(pair.required, ""), labels.get(pair.binding, "")
    if stands == Situation.UNBOUND:
        return f"{pair.value} {required} is required and not bound yet"
    if stands == Situation.REBINDING:
        return f"{pair.value} {required} is required, but {binding} is still bound"
    return None


def held(labels: Mapping[str, str]) -> str | None:
    """The edge gate: why pods of the application are not sent to edge nodes; None: they are."""
    return waiting(labels, Pair.PROPAGATION) or waiting(labels, Pair.OVERRIDE)


def unaskable(policy: str) -> str | None:
    """Why no application can ask for a policy of that name; None: it can."""
    if _LABEL_VALUE.fullmatch(policy):
        return None
    return "the name is no label value, so no application can ask for it (63 characters)"
