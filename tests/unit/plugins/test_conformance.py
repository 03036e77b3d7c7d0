"""conformance: critical pods and kube-system are never victims."""

from __future__ import annotations

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import opened, task, tasks
from muster.plugins.conformance import Conformance


def test_critical_classes_and_kube_system_are_never_victims() -> None:
    state = state_of(
        node(cpu=10), queue("q"), group("a", "q", phase="Inqueue"),
        group("s", "q", phase="Inqueue", namespace="kube-system"),
        pod("new", "a"), pod("plain", "a", "n1"),
        pod("cluster", "a", "n1", priorityClassName="system-cluster-critical"),
        pod("node", "a", "n1", priorityClassName="system-node-critical"),
        pod("dns", "s", "n1", namespace="kube-system"),
    )  # fmt: skip
    _, plugin = opened(Conformance, state)
    victims = tasks(state, "plain", "cluster", "node", "kube-system/dns")
    assert plugin.preemptable(task(state, "new"), victims) == [True, False, False, False]
    assert plugin.reclaimable(task(state, "new"), victims) == [True, False, False, False]
