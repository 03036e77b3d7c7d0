"""The situations of an application's labels."""

from __future__ import annotations

import pytest

from builders.node_groups import BINDING, BINDING_OVERRIDE, REQUIRED, REQUIRED_OVERRIDE
from muster.groups.gate import Pair, Situation, held, situation, waiting


@pytest.mark.parametrize(
    ("labels", "stands"),
    [
        ({REQUIRED: "a"}, Situation.UNBOUND),
        ({REQUIRED: "a", BINDING: "b"}, Situation.REBINDING),
        ({REQUIRED: "a", BINDING: "a"}, Situation.BOUND),
        ({}, Situation.FREE),
        ({BINDING: "a"}, Situation.STALE),
    ],
)
def test_the_two_labels_make_five_situations(labels: dict[str, str], stands: Situation) -> None:
    assert situation(labels, Pair.PROPAGATION) == stands
    assert situation(labels, Pair.OVERRIDE) == Situation.FREE
    assert (waiting(labels, Pair.PROPAGATION) is not None) == (stands <= Situation.REBINDING)


def test_the_edge_gate_holds_what_waits_for_either_policy() -> None:
    assert held({}) is None
    assert held({REQUIRED: "a", BINDING: "a", BINDING_OVERRIDE: "old"}) is None
    assert held({REQUIRED: "a"}) == "PropagationPolicy a is required and not bound yet"
    both = {REQUIRED: "a", BINDING: "a", REQUIRED_OVERRIDE: "x", BINDING_OVERRIDE: "y"}
    assert held(both) == "OverridePolicy x is required, but y is still bound"
