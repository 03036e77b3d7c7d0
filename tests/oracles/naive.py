"""A plain reading of the rules: one pod and one node at a time, sums made anew for every question, nothing kept.

It knows priority, gang, conformance, drf, proportion, predicates (pod count, cordon, node selector and affinity,
taints, ports, required rules about other pods: `naive_neighbours`), nodeorder's resource terms and binpack
(`naive_scores`). `naive_actions` has the loops, `naive_victims` who may go for whom. It follows the specification, not
the engine. What is kept is which pods are on which node, and what never changes: the nodes' sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Any

from muster.config.types import Config
from muster.model.core import Node, Pod, PriorityClass, Taint
from muster.model.meta import Object, seconds
from muster.model.requests import amounts, requests
from muster.model.scheduling import PodGroup, Queue
from muster.model.selectors import asks_for, tolerates
from oracles.naive_neighbours import neighbours_allow

Amounts = dict[str, float]
HELD = ("Allocated", "Bound", "Running")  # statuses that count as allocated
CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_TASK_FORMS = 3  # a name of so many parts has a number at its end


@dataclass(eq=False)
class Task:
    pod: Pod
    job: Job
    status: str
    priority: int
    request: dict[str, int]
    residents: dict[str, dict[str, Task]]  # node → the pods on it, by name
    evicted: bool = False  # in this cycle
    bound: bool = False  # in this cycle
    _node: str = ""

    @property
    def node(self) -> str:
        return self._node

    @node.setter
    def node(self, node: str) -> None:
        if node != self._node:
            self.residents.get(self._node, {}).pop(self.key, None)
            self.residents.setdefault(node, {})[self.key] = self
            self._node = node

    @property
    def key(self) -> str:
        return f"{self.pod.metadata.namespace}/{self.pod.metadata.name}"

    @property
    def best_effort(self) -> bool:
        return not any(v for name, v in self.request.items() if name != "pods")

    @property
    def serial(self) -> int | None:
        parts = self.pod.metadata.name.split("-")
        return int(parts[-1]) if len(parts) >= _TASK_FORMS and parts[-1].isdigit() else None

    @property
    def ports(self) -> set[int]:
        return {p.host_port for c in self.pod.spec.containers for p in c.ports if p.host_port}

    @property
    def nonzero(self) -> tuple[int, int]:
        """kube-scheduler: a container without a request counts as 100m and 200Mi in scores."""
        return self.request.get("cpu") or 100, self.request.get("memory") or 200 << 20


@dataclass(eq=False)
class Job:
    key: str
    group: PodGroup
    priority: int
    phase: str
    tasks: list[Task] = field(default_factory=list)

    @property
    def least(self) -> int:
        return self.group.spec.min_member

    def count(self, *statuses: str) -> int:
        return sum(t.status in statuses for t in self.tasks)

    @property
    def ready(self) -> int:
        return self.count(*HELD, "Succeeded")

    @property
    def best_effort_pending(self) -> int:
        return sum(t.status == "Pending" and t.best_effort for t in self.tasks)

    def allocated(self, *more: str) -> Amounts:
        return total(t.request for t in self.tasks if t.status in (*HELD, *more))


def total(several: Iterable[dict[str, Any]]) -> Amounts:
    found: Amounts = {}
    for one in several:
        for name, amount in one.items():
            found[name] = found.get(name, 0) + amount
    return found


def at_most(left: Amounts, right: Amounts) -> bool:
    return all(v <= right.get(k, 0) or v - right.get(k, 0) < 0.1 for k, v in left.items())


def asked(request: dict[str, Any]) -> list[str]:
    return [name for name, amount in request.items() if amount > 0 and name != "pods"]


class World:
    """The cluster and the configuration, and every question the actions ask."""

    def __init__(self, objects: Iterable[Object], config: Config) -> None:
        every = list(objects)
        self.config = config
        self.nodes = {o.metadata.name: o for o in sorted(every, key=lambda o: o.metadata.name) if isinstance(o, Node)}
        self.queues = {o.metadata.name: o for o in sorted(every, key=lambda o: o.metadata.name) if isinstance(o, Queue)}
        classes = {o.metadata.name: o.value for o in every if isinstance(o, PriorityClass)}
        self.jobs: dict[str, Job] = {}
        self.residents: dict[str, dict[str, Task]] = {}
        for o in sorted(every, key=lambda o: o.metadata.name):
            if isinstance(o, PodGroup):
                key = f"{o.metadata.namespace}/{o.metadata.name}"
                self.jobs[key] = Job(key, o, classes.get(o.spec.priority_class_name, 0), o.status.phase)
        for o in every:
            if isinstance(o, Pod):
                group = o.metadata.annotations["scheduling.k8s.io/group-name"]
                job = self.jobs[f"{o.metadata.namespace}/{group}"]
                priority = o.spec.priority
                if priority is None:
                    priority = classes.get(o.spec.priority_class_name, 1)
                task = Task(o, job, _status(o), priority, requests(o.spec), self.residents)
                task.node = o.spec.node_name
                job.tasks.append(task)
        self.tasks = [t for job in self.jobs.values() for t in job.tasks]
        self.offered = {name: amounts(n.status.allocatable) for name, n in self.nodes.items()}
        self.whole = total(self.offered.values())
        rules = [o.spec.affinity for o in every if isinstance(o, Pod) and o.spec.affinity is not None]
        self.anti_affinity = any(one.pod_anti_affinity is not None for one in rules)
        self.evictions: list[str] = []
        self.deserved = self._deserved() if self.has("proportion") else {}

    def has(self, plugin: str) -> bool:
        return self.config.plugin(plugin) is not None

    def plugins(self) -> list[str]:
        return [option.name for option in self.config.plugins()]

    def argument(self, plugin: str, name: str, default: int) -> int:
        option = self.config.plugin(plugin)
        return option.arguments.int(name, default) if option is not None else default

    # --- nodes

    def on(self, node: str) -> list[Task]:
        return list(self.residents.get(node, {}).values())

    def idle(self, node: str) -> Amounts:
        held = total(t.request for t in self.on(node) if t.status in (*HELD, "Releasing"))
        return {name: self.offered[node].get(name, 0) - held.get(name, 0) for name in {*self.offered[node], *held}}

    def future_idle(self, node: str) -> Amounts:
        held = total(t.request for t in self.on(node) if t.status in (*HELD, "Pipelined"))
        return {name: self.offered[node].get(name, 0) - held.get(name, 0) for name in {*self.offered[node], *held}}

    @staticmethod
    def fits(request: dict[str, int], free: Amounts) -> bool:
        return all(amount <= free.get(name, 0) for name, amount in request.items() if amount)

    def load(self, node: str) -> list[Task]:
        """Pipelined pods count, pods evicted in this cycle do not."""
        return [t for t in self.on(node) if t.status in (*HELD, "Pipelined", "Releasing") and not t.evicted]

    def never(self, task: Task, node: str) -> bool:
        """Refused for a reason that no eviction cures."""
        if not self.has("predicates"):
            return False
        spec, wants = self.nodes[node].spec, task.pod.spec
        taints = [taint for taint in spec.taints if taint.effect != "PreferNoSchedule"]
        if spec.unschedulable:
            taints.append(CORDONED)
        return not asks_for(wants, node, self.nodes[node].metadata.labels) or not all(
            any(tolerates(one, taint) for one in wants.tolerations) for taint in taints
        )

    def passes(self, task: Task, node: str) -> bool:
        """All filters once the pods that are terminating are gone; capacity is not one of them."""
        if not self.has("predicates"):
            return True
        there = [t for t in self.on(node) if t.status in (*HELD, "Pipelined")]
        if len(there) >= self.offered[node]["pods"] or self.never(task, node):
            return False
        return not any(t.ports & task.ports for t in there) and neighbours_allow(self, task, node)

    def starts(self, task: Task, node: str) -> bool:
        """The same now: pods that are terminating still count."""
        if not self.has("predicates"):
            return True
        there = [t for t in self.on(node) if t.status in (*HELD, "Releasing")]
        if max(len(there), len(self.load(node))) >= self.offered[node]["pods"]:
            return False
        terminating = [t for t in there if t.status == "Releasing"]
        return self.passes(task, node) and not any(t.ports & task.ports for t in terminating)

    # --- orders

    def share(self, job: Job, request: Amounts) -> float:
        return max((v / self.whole[k] for k, v in request.items() if self.whole.get(k)), default=0.0)

    def job_key(self, job: Job) -> list[float]:
        keys: list[float] = []
        for plugin in self.plugins():
            if plugin == "priority":
                keys.append(-job.priority)
            elif plugin == "gang":
                keys.append(job.ready + job.best_effort_pending >= job.least)
            elif plugin == "drf":
                keys.append(self.share(job, job.allocated("Pipelined")))
        return keys

    def full_job_key(self, job: Job) -> tuple[Any, ...]:
        return (self.job_key(job), seconds(job.group.metadata.creation_timestamp), job.key)

    def task_cmp(self, a: Task, b: Task) -> int:
        if self.has("priority") and a.priority != b.priority:
            return -1 if a.priority > b.priority else 1
        if a.serial is not None and b.serial is not None and a.serial != b.serial:
            return -1 if a.serial < b.serial else 1
        left, right = ((seconds(t.pod.metadata.creation_timestamp), t.key) for t in (a, b))
        return (left > right) - (left < right)

    def in_order(self, tasks: Iterable[Task]) -> list[Task]:
        return sorted(tasks, key=cmp_to_key(self.task_cmp))

    def queue_cmp(self, a: str, b: str) -> int:
        if self.has("proportion"):
            first, second = self.queues[a].spec.priority, self.queues[b].spec.priority
            if first != second:
                return -1 if first > second else 1
            left, right = self.queue_share(a), self.queue_share(b)
            if left != right:
                return -1 if left < right else 1
        ages = [(seconds(self.queues[q].metadata.creation_timestamp), q) for q in (a, b)]
        return -1 if ages[0] < ages[1] else 1

    # --- gang

    def valid(self, job: Job) -> bool:
        return not self.has("gang") or job.ready + job.count("Pipelined", "Pending") >= job.least

    def ready(self, job: Job) -> bool:
        return not self.has("gang") or job.ready + job.best_effort_pending >= job.least

    def pipelined(self, job: Job) -> bool:
        waiting = job.count("Pipelined")
        return not self.has("gang") or waiting + job.ready + job.best_effort_pending >= job.least

    def starving(self, job: Job) -> bool:
        """The first tier that has an opinion: everybody in it must agree."""
        met = job.ready + job.count("Pipelined")
        for tier in self.config.tiers:
            opinions = {"priority": met < len(job.tasks), "gang": met < job.least}
            message = [opinions[o.name] for o in tier.plugins if o.name in opinions]
            if message:
                return all(message)
        return False

    # --- queues

    def members(self, queue: str) -> list[Job]:
        return [j for j in self.jobs.values() if (j.group.spec.queue or "default") == queue]

    def held(self, queue: str) -> Amounts:
        return total(j.allocated("Pipelined") for j in self.members(queue))

    def real_capability(self, queue: str) -> Amounts:
        def promised(name: str) -> dict[str, int]:
            guarantee = self.queues[name].spec.guarantee
            return amounts(guarantee.resource) if guarantee else {}

        everybody = total(promised(q) for q in self.queues)
        real = {k: max(v - everybody.get(k, 0), 0) for k, v in total(self.offered.values()).items()}
        real = total([real, promised(queue)])
        for name, limit in amounts(self.queues[queue].spec.capability).items():
            if name in real and (limit > 0 or name not in ("cpu", "memory")):
                real[name] = min(real[name], limit)
        return real

    def _deserved(self) -> dict[str, Amounts]:
        """Rounds: what remains by weight to the queues that want more, at most what they want and may have."""
        remaining: Amounts = {k: float(v) for k, v in total(self.offered.values()).items()}
        wants = {q: total(t.request for j in self.members(q) for t in j.tasks if t.status in (*HELD, "Pending"))
                 for q in self.queues if self.members(q)}  # fmt: skip
        found: dict[str, Amounts] = {q: {} for q in wants}
        unmet = list(wants)
        while unmet:
            before, weights, still = dict(remaining), sum(max(self.queues[q].spec.weight, 1) for q in unmet), []
            growth: Amounts = {}
            for q in unmet:
                old, new = found[q], dict(found[q])
                real, guarantee = self.real_capability(q), self.queues[q].spec.guarantee
                for name, amount in before.items():
                    new[name] = new.get(name, 0.0) + amount * (max(self.queues[q].spec.weight, 1) / weights)
                for name in new:
                    if name in real or name in ("cpu", "memory"):
                        new[name] = min(new[name], real.get(name, 0))
                    new[name] = min(new[name], wants[q].get(name, 0))
                for name, least in (amounts(guarantee.resource) if guarantee else {}).items():
                    new[name] = max(new.get(name, 0.0), least)
                if not at_most(wants[q], new) and new != old:
                    still.append(q)
                for name in new:
                    growth[name] = growth.get(name, 0.0) + new[name] - old.get(name, 0.0)
                found[q] = new
            for name in remaining:
                remaining[name] = max(before[name] - growth.get(name, 0.0), 0.0)
            if all(v < 0.1 for k, v in remaining.items() if k != "pods") or remaining == before:
                break
            unmet = still
        return found

    def queue_share(self, queue: str) -> float:
        held = self.held(queue)
        return max((held.get(k, 0) / v for k, v in self.deserved.get(queue, {}).items() if v >= 0.1), default=0.0)

    def overused(self, queue: str) -> bool:
        return self.has("proportion") and at_most(self.deserved[queue], self.held(queue))

    def admits(self, queue: str, task: Task) -> bool:
        if not self.has("proportion"):
            return True
        held = self.held(queue)
        return self.queues[queue].status.state in ("", "Open") and all(
            held.get(name, 0) + task.request[name] <= self.deserved[queue].get(name, 0) for name in asked(task.request)
        )


def _status(pod: Pod) -> str:
    if pod.metadata.deletion_timestamp is not None:
        return "Releasing"
    if pod.status.phase == "Running":
        return "Running"
    return "Bound" if pod.spec.node_name else "Pending"
