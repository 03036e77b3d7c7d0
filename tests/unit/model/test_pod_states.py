"""The states of a pod."""

from __future__ import annotations

import pytest

from muster.model.meta import Condition, ObjectMeta
from muster.model.pod import Pod, PodStatus
from muster.model.pod_states import (
    eviction_annotations,
    is_active,
    is_finished,
    is_healthy,
    is_ready,
    is_terminating,
)


def pod_in_phase(phase: str, *, ready: str = "", terminating: bool = False) -> Pod:
    conditions = [Condition(type="Ready", status=ready)] if ready else []
    meta = ObjectMeta(name="p", deletion_timestamp="2026-01-01T00:00:00Z" if terminating else None)
    return Pod(metadata=meta, status=PodStatus(phase=phase, conditions=conditions))


@pytest.mark.parametrize(
    ("one", "finished", "active", "ready", "healthy"),
    [
        (pod_in_phase("Pending"), False, True, False, False),
        (pod_in_phase("Running"), False, True, True, True),
        (pod_in_phase("Running", ready="True"), False, True, True, True),
        (pod_in_phase("Running", ready="False"), False, True, False, False),
        (pod_in_phase("Running", ready="True", terminating=True), False, False, True, False),
        (pod_in_phase("Succeeded", ready="True"), True, False, False, False),
        (pod_in_phase("Failed"), True, False, False, False),
    ],
)
def test_the_states_of_a_pod(one: Pod, finished: bool, active: bool, ready: bool, healthy: bool) -> None:
    assert (is_finished(one), is_active(one), is_ready(one), is_healthy(one)) == (finished, active, ready, healthy)
    assert is_terminating(one) is (one.metadata.deletion_timestamp is not None)


def test_an_evicted_pod_names_who_evicted_it_and_by_which_action() -> None:
    found = eviction_annotations("d/high", "preempt")
    assert found == {"muster.io/evicted-by": "d/high", "muster.io/evicted-rule": "preempt"}
