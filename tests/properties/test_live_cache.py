"""Whatever happens, in whatever order: the live cache's accounts are those of a cluster read anew.

A small model holds what the cluster shows and what was assumed; after every step the cache must equal a cache that is
loaded from the model, and no assumption may be left once the cluster has shown everything.
"""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from builders.manifests import node, typed
from builders.scheduler_objects import cluster_of, waiting
from muster.engine.core.jobs import Task
from muster.engine.core.plan import Eviction, Plan
from muster.engine.core.reading import PREEMPTABLE, ROLE, TASK_PRIORITY
from muster.model.core import Node, Pod
from muster.model.meta import Condition, timestamp
from muster.scheduler.cache import CONFIRM_TIMEOUT_S, Cache
from muster.scheduler.cluster_metrics import drift
from muster.scheduler.inbox import CallResult, Observed
from strategies.profiles import times

NODES = ("n0", "n1", "n2", "n3")


class World:
    """The cluster, the cache that follows it, and how far it has followed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now = 0.0
        self.cache = Cache(("muster",), lambda: self.now)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.unobserved: list[Observed] = []  # the watch lags behind
        self.calls: list[tuple[str, str, str]] = []  # pod, uid, node ("" = eviction) on their way
        self.made = 0
        self.cache.load(cluster_of().store.everything())
        for name in NODES:
            self.node_comes(name)
        self.catch_up()

    # --- the cluster

    def show(self, key: str) -> None:
        self.unobserved.append(Observed("Pod", key, self.pods.get(key)))

    def node_comes(self, name: str) -> None:
        made = typed(node(name, cpu=str(self.dice.randint(2, 9))))
        assert isinstance(made, Node)
        self.nodes[name] = made
        self.unobserved.append(Observed("Node", name, made))

    def node_goes(self) -> None:
        if self.nodes:
            name = self.dice.choice(sorted(self.nodes))
            del self.nodes[name]
            self.unobserved.append(Observed("Node", name, None))

    def node_returns(self) -> None:
        gone = [name for name in NODES if name not in self.nodes]
        if gone:
            self.node_comes(gone[0])

    def pod_comes(self) -> None:
        self.made += 1
        made = waiting(f"p{self.dice.randint(0, 9)}", cpu=self.dice.choice(("1", "500m", "3")))
        made.metadata.uid = f"uid-{self.made}"
        self.pods[f"d/{made.metadata.name}"] = made
        self.show(f"d/{made.metadata.name}")

    def pod_goes(self) -> None:
        if self.pods:
            key = self.dice.choice(sorted(self.pods))
            del self.pods[key]
            self.show(key)

    def pod_changes(self) -> None:
        if self.pods:
            key = self.dice.choice(sorted(self.pods))
            pod = self.pods[key]
            phase = self.dice.choice(("Running", "Succeeded")) if pod.spec.node_name else "Pending"
            self.pods[key] = replace(pod, status=replace(pod.status, phase=phase))
            self.show(key)

    def pod_field_changes(self) -> None:
        """A field that a task is read from, or one that it is not."""
        if not self.pods:
            return
        key, number = self.dice.choice(sorted(self.pods)), self.dice.randint(0, 2)
        pod = self.pods[key]
        meta, status = pod.metadata, pod.status
        changed = self.dice.choice((
            replace(pod, status=replace(status, conditions=[Condition(type="Ready", status=str(number))])),
            replace(pod, status=replace(status, message=str(number))),
            replace(pod, status=replace(status, start_time=timestamp(float(number)))),
            replace(pod, status=replace(status, nominated_node_name=("", *NODES)[number])),
            replace(pod, metadata=replace(meta, annotations={ROLE: f"role-{number}"})),
            replace(pod, metadata=replace(meta, annotations={PREEMPTABLE: ("false", "true", "")[number]})),
            replace(pod, metadata=replace(meta, annotations={TASK_PRIORITY: str(number)})),
            replace(pod, metadata=replace(meta, labels={"app": str(number)})),
        ))  # fmt: skip
        self.pods[key] = replace(changed, metadata=replace(changed.metadata, resource_version=str(self.made)))
        self.show(key)

    def somebody_else_binds(self) -> None:
        free = [k for k, p in self.pods.items() if not p.spec.node_name]
        if free and self.nodes:
            self._bind(self.dice.choice(sorted(free)), self.dice.choice(sorted(self.nodes)))

    def _bind(self, key: str, to: str) -> None:
        self.pods[key] = replace(self.pods[key], spec=replace(self.pods[key].spec, node_name=to))
        self.show(key)

    # --- the scheduler

    def decide(self) -> None:
        """PodBinding what the cache believes to wait, evict what it believes to run; right or wrong by now."""
        self.cache.apply_messages()
        self.cache.state.refresh()
        names, plan = self.cache.state.nodes.names, Plan()
        for key, task in sorted(self.cache.state.tasks.items()):
            pod = task.pod
            if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Succeeded":
                continue
            if not pod.spec.node_name and names and self.dice.random() < 0.6:
                plan.binds[key] = self.dice.choice(names)
                self.calls.append((key, task.uid, plan.binds[key]))
            elif pod.spec.node_name and task.node >= 0 and self.dice.random() < 0.2:
                plan.evictions.append(Eviction(key, pod.spec.node_name, "", "preempt"))
                self.calls.append((key, task.uid, ""))
        self.cache.assume(plan)

    def call_arrives(self) -> None:
        if not self.calls:
            return
        key, uid, to = self.calls.pop(self.dice.randrange(len(self.calls)))
        pod = self.pods.get(key)
        works = pod is not None and pod.metadata.uid == uid and self.dice.random() < 0.7
        if works and pod is not None and to:
            works = not pod.spec.node_name and pod.metadata.deletion_timestamp is None
            if works:
                self._bind(key, to)
        elif works and pod is not None:
            meta = replace(pod.metadata, deletion_timestamp=timestamp(1.0))
            self.pods[key] = replace(pod, metadata=meta)
            self.show(key)
        self.cache.put(CallResult(key, uid, to, bool(works)))

    # --- the watch

    def hear(self) -> None:
        for _ in range(self.dice.randint(0, len(self.unobserved))):
            self.cache.put(self.unobserved.pop(0))
        self.cache.apply_messages()

    def catch_up(self) -> None:
        while self.unobserved:
            self.cache.put(self.unobserved.pop(0))
        self.cache.apply_messages()

    # --- what must hold

    def assert_consistent(self) -> None:
        self.cache.apply_messages()
        assert drift(self.cache.state) == 0

    def assert_exact(self) -> None:
        """Every call has ended and everything has been reported: the cache is the cluster."""
        while self.calls:
            self.call_arrives()
        self.catch_up()
        self.now += CONFIRM_TIMEOUT_S + 1
        for key in self.cache.overdue(self.now):
            self.cache.put(Observed("Pod", key, self.pods.get(key), polled=True))
        self.cache.apply_messages()
        fresh = Cache(("muster",))
        fresh.load({"Node": dict(self.nodes), "Pod": dict(self.pods)})
        mine, theirs = self.cache.state, fresh.state
        mine.refresh()
        assert self.cache.assumed == {}
        assert {k: _read(t) for k, t in mine.tasks.items()} == {k: _read(t) for k, t in theirs.tasks.items()}
        assert mine.nodes.names == theirs.nodes.names
        assert mine.nodes.releasing.tolist() == theirs.nodes.releasing.tolist()
        for row, name in ((mine.nodes.axis.rows[r], r) for r in ("cpu", "pods")):
            there = theirs.nodes.axis.rows[name]
            assert mine.nodes.rows[row].tolist() == theirs.nodes.rows[there].tolist(), name


def _read(task: Task) -> tuple[object, ...]:
    """Everything that a task has from its pod, and the pod itself."""
    return (
        task.status, task.uid, task.pod, task.role, task.preemptable, task.priority, task.nominated, task.gated,
        task.created, task.serial, task.shape.amounts,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(times(40)))
def test_the_accounts_are_those_of_a_cluster_read_anew(seed: int) -> None:
    world = World(seed)
    steps = (
        world.pod_comes, world.pod_comes, world.pod_goes, world.pod_changes, world.pod_field_changes,
        world.pod_field_changes, world.somebody_else_binds,
        world.node_goes, world.node_returns, world.decide, world.decide, world.call_arrives, world.call_arrives,
        world.hear, world.hear,
    )  # fmt: skip
    for number in range(150):
        world.dice.choice(steps)()
        world.assert_consistent()
        if number % 50 == 49:
            world.assert_exact()
