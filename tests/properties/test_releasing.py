"""A claim is evaluated with its victims removed: asked about what comes free (PIPELINE), every filter answers as if
pods that are being released did not exist, evicted in this cycle or terminating in the cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders.ascend import RESOURCE as CHIPS
from builders.ascend import names as chip_names
from builders.node_groups import BINDING, REQUIRED, TEMPLATE
from builders.node_groups import GROUP as MANAGED
from builders.queued_jobs import made
from builders.small_cluster import LABEL
from muster.config.loader import load
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import Batch
from muster.engine.core.jobs import Status, Task
from muster.engine.core.nodes import MoveKind
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model.meta import Object
from oracles.inter_pod import HOST, ZONE, affinity, near, spread
from strategies.clusters import GPU, GROUP, NOW, state_of
from strategies.profiles import examples

CONFIG = """
actions: "allocate"
tiers:
- plugins:
  - name: predicates
  - name: nodegroup
  - name: topology910
    arguments: {topology910.eachPod: true}
  - name: resource-strategy-fit
    arguments:
      sra.policy: proportional
      sra.resources: nvidia.com/gpu
      sra.proportional.nvidia.com/gpu.cpu: 2
      sra.proportional.nvidia.com/gpu.memory: 1
  - name: propagation
"""
SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"asks": {"cpu": 3, "memory": "2Gi"}},
    {"asks": {"cpu": 1, GPU: 1}},
    {"asks": {"cpu": 1, CHIPS: 2}},
    {"asks": {"cpu": 1, CHIPS: 4}},
    {"ports": [{"containerPort": 80, "hostPort": 8080}]},
    {"affinity": affinity(required=[near("x")])},
    {"affinity": affinity(anti=[near("x", HOST)])},
    {"affinity": affinity(anti=[near("y")])},
    {"topologySpreadConstraints": [spread("x")]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "once"}}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "first"}}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "second"}}]},
    {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "disk"}}]},
)
# kube-scheduler calls pod affinity unresolvable, though a pod that matches its own terms may go anywhere once the
# others are gone. The pods that fill a group's number are the application's own: its owner would make them anew.
_ON_PURPOSE = {"pod-affinity", "group-full"}


@dataclass(frozen=True)
class World:
    """Pods as (shape, app, owned by the ReplicaSet, node or -1); of chips each running pod has its own."""

    nodes: int
    pods: tuple[tuple[int, str, bool, int], ...]

    def state(self, without: Collection[int] = (), terminating: Collection[int] = ()) -> State:
        present = [i for i in range(len(self.pods)) if i not in without]
        jobs = [o for i in present for o in self._job(i, terminating)]
        return state_of([*_storage(), *_propagated(), *self._nodes(present), *jobs])

    def running(self) -> list[int]:
        return [i for i, (_, _, _, node) in enumerate(self.pods) if node >= 0]

    def chips(self, i: int) -> list[int]:
        """The chips of a running pod: those after what the pods before it on the same node have."""
        taken = 0
        for j, (shape, _, _, node) in enumerate(self.pods):
            count = SHAPES[shape].get("asks", {}).get(CHIPS, 0)
            if j == i:
                return list(range(taken, taken + count))
            if node == self.pods[i][3]:
                taken += count
        return []

    def _nodes(self, present: Iterable[int]) -> list[Object]:
        held: dict[int, list[int]] = {}
        for i in present:
            held.setdefault(self.pods[i][3], []).extend(self.chips(i))
        made_: list[Object] = []
        for n in range(self.nodes):
            labels = {HOST: f"n{n}", ZONE: "ab"[n % 2], LABEL: f"g{n % 2}", "accelerator-type": "module-910b-8"}
            offered = {"cpu": 6, "memory": "8Gi", "pods": 4, GPU: 2, CHIPS: 8}
            free = chip_names([c for c in range(8) if c not in held.get(n, [])])
            meta = {"name": f"n{n}", "labels": labels, "annotations": {CHIPS: free}}
            made_.append(made("v1", "Node", meta, status={"allocatable": offered}))
            drivers = [{"name": "csi", "nodeID": f"n{n}", "allocatable": {"count": 1}}]
            made_.append(made("storage.k8s.io/v1", "CSINode", {"name": f"n{n}"}, spec={"drivers": drivers}))
        return made_

    def _job(self, i: int, terminating: Collection[int]) -> list[Object]:
        shape, app, owned, node = self.pods[i]
        parts = dict(SHAPES[shape])
        main = {"name": "main", "resources": {"requests": parts.pop("asks", {"cpu": 1})}}
        main["ports"] = parts.pop("ports", [])
        notes = {GROUP: f"p{i}", **({CHIPS: chip_names(self.chips(i))} if node >= 0 and self.chips(i) else {})}
        meta: dict[str, Any] = {"name": f"p{i}", "namespace": "d", "labels": {"app": app}, "annotations": notes}
        if owned:
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
            meta["ownerReferences"] = [owner]
        if i in terminating:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        spec = {"containers": [main], **parts, "nodeName": f"n{node}" if node >= 0 else ""}
        status = {"phase": "Running" if node >= 0 else "Pending"}
        group = {"queue": "q", "minMember": 1}
        return [
            made("scheduling.volcano.sh/v1beta1", "PodGroup", {"name": f"p{i}", "namespace": "d"}, spec=group),
            made("v1", "Pod", meta, spec=spec, status=status),
        ]


def _storage() -> list[Object]:
    """Claims bound to volumes: `once` for one pod only; `first` and `second` are attached by a driver with a limit."""
    objects: list[Object] = []
    for name, modes in (("once", ["ReadWriteOncePod"]), ("first", ["ReadWriteMany"]), ("second", ["ReadWriteMany"])):
        body: dict[str, Any] = {"accessModes": modes, "storageClassName": "s"}
        ref = {"namespace": "d", "name": name}
        source = {"csi": {"driver": "csi" if name != "once" else "other", "volumeHandle": name}}
        volume = {**body, "capacity": {"storage": "1Gi"}, "claimRef": ref, **source}
        claim = {**body, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": f"v-{name}"}
        bound = {"phase": "Bound"}
        objects.append(made("v1", "PersistentVolume", {"name": f"v-{name}"}, spec=volume, status=bound))
        meta = {"name": name, "namespace": "d"}
        objects.append(made("v1", "PersistentVolumeClaim", meta, spec=claim, status=bound))
    limits = {"volcano.sh/nodegroup-resource-limits": '{"g0": {"cpu": 4}}'}
    objects.append(made("scheduling.volcano.sh/v1beta1", "Queue", {"name": "q", "annotations": limits}, spec={}))
    return objects


def _propagated() -> list[Object]:
    """A ReplicaSet of which each node group takes one or two pods."""
    labels = {REQUIRED: "pp", BINDING: "pp"}
    meta = {"name": "rs", "namespace": "d", "uid": "rs", "labels": labels}
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
    entries = [{"nodeGroupNames": ["a"], "min": 0, "max": 1}, {"nodeGroupNames": ["b"], "min": 0, "max": 2}]
    policy = {"propagationStrategy": "NumberRange", "numberRangeList": entries}
    return [
        made("apps/v1", "ReplicaSet", meta, spec=spec),
        made(f"{MANAGED}/v1alpha1", "PropagationPolicy", {"name": "pp", "namespace": "d"}, spec=policy),
        *(made(f"{MANAGED}/v1alpha1", "NodeGroup", {"name": z}, spec={"matchLabels": {ZONE: z}}) for z in "ab"),
    ]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    nodes = draw(st.integers(1, 3))
    left = [{"cpu": 6, "pods": 4, GPU: 2, CHIPS: 8, "memory": 8} for _ in range(nodes)]
    pods = []
    few = draw(st.lists(st.integers(0, len(SHAPES) - 1), min_size=1, max_size=3))  # so that pods compete
    for _ in range(draw(st.integers(1, 7))):
        shape, app = draw(st.sampled_from(few)), draw(st.sampled_from("xy"))
        node = draw(st.integers(-1, nodes - 1))
        asked = {"pods": 1, **SHAPES[shape].get("asks", {"cpu": 1}), "memory": 2}
        if node >= 0 and any(left[node][name] < n for name, n in asked.items()):
            node = -1
        if node >= 0:
            for name, n in asked.items():
                left[node][name] -= n
        pods.append((shape, app, draw(st.booleans()), node))
    return World(nodes, tuple(pods))


def opened(state: State) -> Session:
    config, findings = load(CONFIG, "scheduler.yaml", known())
    assert not findings
    return Scheduler(config).session(state, NOW)


def answers(session: Session, kind: MoveKind) -> dict[tuple[str, str], list[str]]:
    """Per waiting pod and filter: each node's refusal, "" where it fits; under "fits" all filters and the resources."""
    view = session.state.nodes.everything()
    view.kind = kind
    found = {}
    for task in waiting(session):
        for plugin, term in session.placement.filters:
            if term.batch(task) != Batch.SKIP:
                verdict = term.filter(task, view)
                reasons = [f"{verdict.reasons[code - 1].code}" if code else "" for code in verdict.code.tolist()]
            else:
                reasons = [""] * len(view)
            found[task.key, f"{plugin} {term.term}"] = reasons
        found[task.key, "fits"] = ["" if fits else "no" for fits in session.placement.fits(task, kind).tolist()]
    return found


def waiting(session: Session) -> list[Task]:
    return [task for task in session.state.tasks.values() if task.status == Status.PENDING]


def evict(session: Session, pods: Iterable[int]) -> None:
    statement = session.statement()
    for i in pods:
        statement.evict(session.state.tasks[f"d/p{i}"], None, "preempt")


@given(worlds(), st.data())
@examples(400)
def test_filters_asked_for_what_comes_free_do_not_see_pods_that_are_released(world: World, data: st.DataObject) -> None:
    running = world.running()
    released = data.draw(st.sets(st.sampled_from(running), min_size=1, max_size=3)) if running else set()
    evicted = {i for i in sorted(released) if data.draw(st.booleans())}
    session = opened(world.state(terminating=released - evicted))
    if data.draw(st.booleans()):
        answers(session, MoveKind.PIPELINE)  # answers that are remembered must change with the eviction
    evict(session, sorted(evicted))
    assert answers(session, MoveKind.PIPELINE) == answers(opened(world.state(without=released)), MoveKind.PIPELINE)


@given(worlds(), st.data())
@examples(200)
def test_what_no_eviction_can_resolve_stays_refused_whoever_is_evicted(world: World, data: st.DataObject) -> None:
    session = opened(world.state())
    view = session.state.nodes.everything()
    asked = [
        (task, term, term.filter(task, view))
        for task in waiting(session)
        for _, term in session.placement.filters
        if term.batch(task) != Batch.SKIP
    ]
    evict(session, [i for i in world.running() if data.draw(st.integers(0, 3))])
    view = session.state.nodes.everything()
    view.kind = MoveKind.PIPELINE
    for task, term, before in asked:
        after = term.filter(task, view)
        for node in np.flatnonzero(before.code).tolist():
            reason = before.reasons[int(before.code[node]) - 1]
            if not reason.resolvable and reason.code not in _ON_PURPOSE:
                assert after.code[node], f"{reason.code} of {task.key} on node {node} is cured"
