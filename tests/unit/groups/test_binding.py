"""The situations of an application's labels."""

from __future__ import annotations

import pytest

from builders.node_groups import BINDING, BINDING_OVERRIDE, REQUIRED, REQUIRED_OVERRIDE
from muster.groups.binding import BindingState, PolicyLabels, binding_state, hold_reason, unbound_reason


@pytest.mark.parametrize(
    ("labels", "stands"),
    [
        ({REQUIRED: "a"}, BindingState.UNBOUND),
        ({REQUIRED: "a", BINDING: "b"}, BindingState.REBINDING),
        ({REQUIRED: "a", BINDING: "a"}, BindingState.BOUND),
        ({}, BindingState.FREE),
        ({BINDING: "a"}, BindingState.STALE),
    ],
)
def test_the_two_labels_make_five_situations(labels: dict[str, str], stands: BindingState) -> None:
    assert binding_state(labels, PolicyLabels.PROPAGATION) == stands
    assert binding_state(labels, PolicyLabels.OVERRIDE) == BindingState.FREE
    assert (unbound_reason(labels, PolicyLabels.PROPAGATION) is not None) == (stands <= BindingState.REBINDING)


def test_the_edge_gate_holds_what_waits_for_either_policy() -> None:
    assert hold_reason({}) is None
    assert hold_reason({REQUIRED: "a", BINDING: "a", BINDING_OVERRIDE: "old"}) is None
    assert hold_reason({REQUIRED: "a"}) == "PropagationPolicy a is required and not bound yet"
    both = {REQUIRED: "a", BINDING: "a", REQUIRED_OVERRIDE: "x", BINDING_OVERRIDE: "y"}
    assert hold_reason(both) == "OverridePolicy x is required, but y is still bound"
