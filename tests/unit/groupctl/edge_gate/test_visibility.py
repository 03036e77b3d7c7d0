"""Which pods count as sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.groupctl.edge_gate.visibility import SentPods, has_started


@pytest.mark.parametrize(
    ("status", "started"),
    [
        (None, False), ({}, False), ({"phase": "Pending"}, False), ({"phase": ""}, False),
        ({"phase": "Pending", "containerStatuses": []}, False),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}, False),
        ({"phase": "Running"}, True), ({"phase": "Failed"}, True), ({"phase": "UnknownCaller"}, True),
        ({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}, True),
        ({"phase": "Pending", "containerStatuses": [{"name": "c"}]}, True),
        ({"phase": "Pending", "initContainerStatuses": [{"name": "c"}]}, True),
    ],
)  # fmt: skip
def test_a_pod_that_a_kubelet_has_accepted_was_sent(status: dict[str, Any] | None, started: bool) -> None:
    pod: dict[str, Any] = {"metadata": {"uid": "u"}, "spec": {"containers": []}, "status": status}
    assert has_started(json.dumps(pod).encode(), "u") == started
    assert not has_started(json.dumps(pod).encode(), "another pod of that name")


def test_the_oldest_are_forgotten() -> None:
    sent = SentPods(limit=2)
    for uid in ("a", "b", "a", "c"):
        sent.add(uid)
    assert [uid in sent for uid in "abc"] == [True, False, True]
    assert not SentPods().is_unstarted("a", "")
    sent.record_unstarted("d", "7")
    assert sent.is_unstarted("d", "7") and not sent.is_unstarted("d", "8")
    sent.add("d")
    assert not sent.is_unstarted("d", "7")
