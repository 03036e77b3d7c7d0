"""The filters on the node itself: its pod count, cordon, labels, taints and host ports."""

from __future__ import annotations

import numpy as np

from muster.engine.core.hooks import Batch, NodeFilter, Reason, Scope, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.node_hooks import OneNodeFilter
from muster.engine.core.nodes import MoveKind, Nodes, NodeView
from muster.engine.core.resources import PODS
from muster.engine.core.static import columns
from muster.engine.pod_rules.node_selectors import Required
from muster.engine.pod_rules.ports import HostPorts
from muster.engine.pod_rules.taints import Tolerations

_PIPELINE = MoveKind.PIPELINE  # looked up for every node
TOO_MANY_PODS = Reason("pod-count", "node(s) pod number exceeded")
CORDONED = Reason("unschedulable", "node(s) were unschedulable", resolvable=False)
NOT_SELECTED = Reason("node-affinity", "node(s) didn't match Pod's node affinity/selector", resolvable=False)
PORTS_TAKEN = Reason("host-ports", "node(s) didn't have free ports for the requested pod ports")
CLAIMS = Reason(
    "resource-claims", "node(s) cannot serve spec.resourceClaims: muster does not allocate them", resolvable=False
)


class PodCount(NodeFilter):
    """Refuses nodes at their pod limit. Pipelined pods count; terminating pods count only for a pod placed at once.

    Volcano's backfill binds a pod that requests nothing while an evicted pod still terminates; kubelet would refuse it.
    """

    term = "pods"
    scope = Scope.NODE
    columns_only = True
    capacity = True

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        if nodes.kind == MoveKind.PIPELINE:
            return Verdict.of(nodes.future_idle[PODS] < 1, TOO_MANY_PODS)
        full = (nodes.load[PODS] >= nodes.alloc[PODS]) | (nodes.used[PODS] >= nodes.alloc[PODS])
        return Verdict.of(full, TOO_MANY_PODS)

    def one_node_filter(self, task: Task, nodes: Nodes) -> OneNodeFilter:
        size = nodes.axis.size

        def passes(node: int, rows: list[int], alloc: list[int], kind: MoveKind) -> bool:
            if kind is _PIPELINE:
                return rows[size + PODS] >= 1
            return rows[3 * size + PODS] < alloc[PODS] and rows[2 * size + PODS] < alloc[PODS]

        return passes


class NodeUnschedulable(NodeFilter):
    term = "unschedulable"
    scope = Scope.STATIC
    constraints_only = True

    def __init__(self, tolerations: Tolerations) -> None:
        self._tolerations = tolerations

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        result = self._tolerations.of(task.shape, nodes.nodes)
        if not result.any_cordoned:
            return Verdict(np.zeros(len(nodes), np.uint16))
        return Verdict.of(columns(result.cordoned, nodes), CORDONED)


class NodeAffinity(NodeFilter):
    """Filters by spec.nodeSelector and the required node affinity."""

    term = "nodeaffinity"
    scope = Scope.STATIC
    constraints_only = True

    def __init__(self) -> None:
        self._required = Required()

    def batch(self, task: Task) -> Batch:
        return Batch.COLUMNS if Required.concerns(task.shape.spec) else Batch.SKIP

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        return Verdict.of(~columns(self._required.of(task.shape, nodes.nodes), nodes), NOT_SELECTED)


class TaintToleration(NodeFilter):
    term = "tainttoleration"
    scope = Scope.STATIC
    constraints_only = True

    def __init__(self, tolerations: Tolerations) -> None:
        self._tolerations = tolerations

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        result = self._tolerations.of(task.shape, nodes.nodes)
        return Verdict(columns(result.refused, nodes), result.reasons)


class NodePorts(NodeFilter):
    term = "nodeports"
    scope = Scope.NODE

    def __init__(self, ports: HostPorts) -> None:
        self._ports = ports

    def batch(self, task: Task) -> Batch:
        return Batch.ONCE if self._ports.wanted(task.shape) else Batch.SKIP

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        return Verdict.of(self._ports.taken(task.shape, nodes.kind)[nodes.index], PORTS_TAKEN)


class ResourceClaims(NodeFilter):
    """Refuses pods with devices by dynamic resource allocation: muster does not allocate them."""

    term = "resourceclaims"
    scope = Scope.STATIC
    constraints_only = True

    def batch(self, task: Task) -> Batch:
        return Batch.COLUMNS if task.shape.spec.resource_claims else Batch.SKIP

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        return Verdict.of(np.full(len(nodes), bool(task.shape.spec.resource_claims)), CLAIMS)
