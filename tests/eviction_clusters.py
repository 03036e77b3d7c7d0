"""Random small clusters for the properties of evictions: running jobs, pending claimers, and a configuration.

A scenario is a function of its seed alone. It consists of plain manifests, so it can be written to files that
`muster simulate` reads. Clusters are small on purpose: `eviction_search` checks them exhaustively.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml

from eviction_configurations import configuration

Manifest = dict[str, Any]
GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"
ROLE = "volcano.sh/task-spec"
PART = "part"
RACK = "rack"
PRIORITIES = {"low": 10, "mid": 100, "high": 1000}
CRITICAL = "system-node-critical"
HARD = "requiredDuringSchedulingIgnoredDuringExecution"
VOLCANO = "scheduling.volcano.sh/v1beta1"


@dataclass
class Scenario:
    seed: int
    objects: list[Manifest]
    config: Manifest

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Files for `muster simulate -f CLUSTER -c CONFIGURATION`."""
        folder.mkdir(parents=True, exist_ok=True)
        cluster, config = folder / f"{self.seed}-cluster.yaml", folder / f"{self.seed}-scheduler.yaml"
        cluster.write_text(yaml.safe_dump_all(self.objects, sort_keys=False))
        config.write_text(yaml.safe_dump(self.config, sort_keys=False))
        return cluster, config


def scenario(seed: int) -> Scenario:
    rng = Random(seed)
    config = configuration(rng)
    return Scenario(seed, _Cluster(rng, config).objects(), config)


def _object(version: str, kind: str, name: str, namespace: str = "", **parts: Any) -> Manifest:
    meta: Manifest = {"name": name, **({"namespace": namespace} if namespace else {})}
    meta |= parts.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": meta, **parts}


def _plugins(config: Manifest) -> dict[str, Manifest]:
    return {plugin["name"]: plugin for tier in config["tiers"] for plugin in tier["plugins"]}


@dataclass
class _Job:
    """A job to be written: its pods' sizes, and what they share."""

    name: str
    sizes: list[tuple[int, int]]  # cpu, GiB of memory; one per pod
    queue: str = "q0"
    minimum: int | None = None  # None: no PodGroup
    owner: str = ""
    group_class: str = ""
    classes: list[str] = field(default_factory=list)  # of each pod
    roles: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    spec: Manifest = field(default_factory=dict)  # shared by the pods
    ports: list[int] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    namespace: str = "d"
    group: Manifest = field(default_factory=dict)  # more of the PodGroup's spec
    group_notes: dict[str, str] = field(default_factory=dict)
    where: list[str] = field(default_factory=list)  # nodes of the running pods, "" = pending


class _Cluster:
    def __init__(self, rng: Random, config: Manifest) -> None:
        self.rng = rng
        self.config = config
        self.plugins = _plugins(config)
        self.out: list[Manifest] = []
        self.free: dict[str, list[int]] = {}  # node → cpu, GiB, pods
        self.ports: set[tuple[str, int]] = set()
        self.labels: dict[str, dict[str, str]] = {}
        self.clock = 0

    def objects(self) -> list[Manifest]:
        rng = self.rng
        self._classes()
        self._nodes()
        self._queues()
        tight = rng.random() < 0.8
        for i in range(rng.randint(2, 8)):
            self._add_running(f"run{i}", tight)
        for i in range(rng.choice([1, 1, 1, 2, 2, 3])):
            self._add_pending(f"new{i}")
        return self.out

    # --- the cluster

    def _classes(self) -> None:
        for name, value in PRIORITIES.items():
            self.out.append(_object("scheduling.k8s.io/v1", "PriorityClass", name, value=value))

    def _nodes(self) -> None:
        rng = self.rng
        racks = rng.randint(1, 3)
        memory = rng.choice([64, 64, 64, 8])
        same = rng.choice([None, None, 2, 3, 4])
        for i in range(rng.randint(1, 6)):
            name, cpu = f"n{i}", same or rng.choice([1, 2, 3, 4, 6])
            pods = rng.choice([110] * 9 + [3])
            labels = {"kubernetes.io/hostname": name, RACK: f"r{i % racks}", "zone": rng.choice("ab")}
            if "nodegroup" in self.plugins:
                labels["volcano.sh/nodegroup-name"] = rng.choice(["g0", "g1"])
            offered = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": str(pods)}
            ready = [{"type": "Ready", "status": "True"}]
            status = {"allocatable": offered, "capacity": offered, "conditions": ready}
            self.out.append(_object("v1", "Node", name, metadata={"labels": labels}, status=status))
            self.free[name] = [cpu, memory, pods]
            self.labels[name] = labels
        if "topology" in self.plugins:
            spec = {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]}
            self.out.append(_object("kueue.x-k8s.io/v1alpha1", "Topology", "tree", spec=spec))

    def _queues(self) -> None:
        rng = self.rng
        total = sum(free[0] for free in self.free.values())
        capacity = self.plugins.get("capacity")
        parents = [""]
        if capacity is not None and capacity.get("enableHierarchy"):
            self.out.append(_object(VOLCANO, "Queue", "root", spec={}))
            parents = ["root", "dept0", "dept1"]
            for name in parents[1:]:
                spec: Manifest = {"parent": "root", "deserved": {"cpu": str(total // 2)}}
                if rng.random() < 0.4:
                    spec["capability"] = {"cpu": str(rng.randint(1, max(total, 1)))}
                self.out.append(_object(VOLCANO, "Queue", name, spec=spec))
        self.queues = [f"q{i}" for i in range(rng.choice([1, 2, 2, 2, 3, 4]))]
        left = total
        for name in self.queues:
            spec = {"weight": rng.choice([1, 1, 1, 2, 3])}
            if rng.random() < 0.15:
                spec["reclaimable"] = False
            if rng.random() < 0.2:
                spec["capability"] = {"cpu": str(rng.randint(1, max(total, 1)))}
            if rng.random() < 0.15 and left > 0:
                spec["guarantee"] = {"resource": {"cpu": str(rng.randint(1, max(left // 3, 1)))}}
                left -= int(spec["guarantee"]["resource"]["cpu"])
            if rng.random() < 0.1:
                spec["priority"] = rng.randint(1, 3)
            if capacity is not None and rng.random() < 0.85:
                spec["deserved"] = {"cpu": str(rng.randint(0, max(total * 2 // 3, 1)))}
                if rng.random() < 0.3:
                    spec["deserved"]["memory"] = f"{rng.randint(1, 64)}Gi"
            if capacity is not None and capacity.get("enableHierarchy"):
                spec["parent"] = rng.choice(parents)
            if "nodegroup" in self.plugins and rng.random() < 0.5:
                way = rng.choice(["nodeGroupAffinity", "nodeGroupAntiAffinity"])
                spec["affinity"] = {way: {HARD: [rng.choice(["g0", "g1"])]}}
            self.out.append(_object(VOLCANO, "Queue", name, spec=spec))

    # --- jobs

    def _add_running(self, name: str, tight: bool) -> None:
        job = self._job(name, claimer=False)
        placed = []
        for i, (cpu, memory) in enumerate(job.sizes):
            node = self._node_for(cpu, memory, job.ports)
            if node is None:
                break
            self._take(node, cpu, memory, job.ports)
            placed.append(node)
            if not tight and i >= 1:
                break
        if not placed:
            return
        job.where = list(placed)
        if len(placed) < len(job.sizes):
            if not job.owner and self.rng.random() < 0.7:  # sometimes the rest of the job is pending
                job.sizes = job.sizes[: len(placed)]
            job.where += [""] * (len(job.sizes) - len(placed))
            if job.minimum is not None:
                job.minimum = min(job.minimum, len(placed))
                job.group.pop("minTaskMember", None)
                job.group.pop("subGroupPolicy", None)
        if len({self.labels[node][RACK] for node in placed}) > 1:
            job.group_notes = {}  # it does not lie in one rack, so it does not ask for one
        self._write(job)
        if self.rng.random() < 0.25:
            self._budget(job)

    def _add_pending(self, name: str) -> None:
        job = self._job(name, claimer=True)
        job.where = [""] * len(job.sizes)
        self._write(job)

    def _node_for(self, cpu: int, memory: int, ports: list[int]) -> str | None:
        fits = [
            name for name, free in self.free.items()
            if free[0] >= cpu and free[1] >= memory and free[2] >= 1
            and not any((name, port) in self.ports for port in ports)
        ]  # fmt: skip
        return self.rng.choice(fits) if fits else None

    def _take(self, node: str, cpu: int, memory: int, ports: list[int]) -> None:
        free = self.free[node]
        free[0], free[1], free[2] = free[0] - cpu, free[1] - memory, free[2] - 1
        self.ports |= {(node, port) for port in ports}

    def _job(self, name: str, *, claimer: bool) -> _Job:
        rng = self.rng
        kinds = ["strict", "elastic", "single", "bare", "roles", "parts", "owned", "owned-gang"]
        kind = rng.choices(kinds, [4, 4, 4, 2, 1, 1, 2, 2])[0]
        count = 1 if kind in ("single", "bare") else rng.randint(2, 6 if kind != "parts" else 4)
        if kind == "parts":
            count = max(count - count % 2, 2)
        small = rng.choice([1, 1, 2]) if count > 1 else rng.choice([1, 1, 2, 3])
        memory = rng.choice([0, 1, 1, 2])
        sizes = [(small, memory)] * count
        if kind in ("strict", "elastic", "roles") and rng.random() < 0.35:
            sizes = [(rng.randint(1, 3), memory) for _ in range(count)]
        job = _Job(name, sizes, queue=rng.choice(self.queues))
        if kind in ("strict", "single", "parts", "owned-gang"):
            job.minimum = count
        elif kind in ("elastic", "roles"):
            job.minimum = rng.randint(1, count)
        if kind == "owned-gang" and rng.random() < 0.5:
            job.minimum = rng.randint(1, count)
        if kind in ("owned", "owned-gang"):
            owners = ["ReplicaSet", "StatefulSet", "Job"] + ["Deployment"] * claimer
            job.owner = rng.choice(owners)
        self._priorities(job)
        self._members(job, kind)
        self._rules(job, claimer=claimer)
        return job

    def _priorities(self, job: _Job) -> None:
        rng = self.rng
        names = list(PRIORITIES)
        weights = [1, 3, 5] if job.name.startswith("new") else [5, 3, 1]
        chosen = rng.choices(names, weights)[0]
        job.group_class = chosen if rng.random() < 0.8 else ""
        job.classes = [chosen] * len(job.sizes)
        if not job.owner and len(job.sizes) > 1 and rng.random() < 0.1:
            job.classes = [rng.choice(names) for _ in job.sizes]
        if job.minimum is None and not job.owner and rng.random() < 0.1:
            job.classes = [CRITICAL]
        if rng.random() < 0.06:
            job.notes["volcano.sh/preemptable"] = "false"

    def _members(self, job: _Job, kind: str) -> None:
        count = len(job.sizes)
        if kind == "roles":
            job.roles = ["main" if i == 0 else "work" for i in range(count)]
            workers = max((job.minimum or 1) - 1, 0)
            job.minimum = workers + 1
            job.group["minTaskMember"] = {"main": 1, **({"work": workers} if workers else {})}
        if kind == "parts":
            size = count // 2
            job.parts = [f"p{i // size}" for i in range(count)]
            least = self.rng.choice([1, 2])
            job.minimum = size * least
            policy = {"name": "parts", "subGroupSize": size, "minSubGroups": least, "matchLabelKeys": [PART]}
            job.group["subGroupPolicy"] = [policy]

    def _rules(self, job: _Job, *, claimer: bool) -> None:
        rng = self.rng
        if rng.random() < 0.08:
            job.ports = [8080]
        if claimer and rng.random() < 0.12:
            term = {"labelSelector": {"matchLabels": {"app": job.name}}, "topologyKey": "kubernetes.io/hostname"}
            job.spec["affinity"] = {"podAntiAffinity": {HARD: [term]}}
        if claimer and rng.random() < 0.12:
            label = rng.choice(["zone", RACK])
            values = sorted({labels[label] for labels in self.labels.values()})
            job.spec["nodeSelector"] = {label: rng.choice(values)}
        if claimer and rng.random() < 0.04:
            job.spec["preemptionPolicy"] = "Never"
        if job.minimum is not None and "topology" in self.plugins and rng.random() < 0.3:
            job.group_notes = {
                "kai.scheduler/topology": "tree", "kai.scheduler/topology-required-placement": RACK
            }  # fmt: skip
        if job.minimum is not None and rng.random() < 0.35:
            least = sorted(job.sizes)[: job.minimum]
            cpu, memory = (sum(amounts) for amounts in zip(*least, strict=True))
            job.group["minResources"] = {"cpu": str(cpu), "memory": f"{memory}Gi"}
        if rng.random() < 0.5:
            job.spec["terminationGracePeriodSeconds"] = rng.choice([0, 5, 30])

    # --- manifests

    def _stamp(self) -> str:
        self.clock += self.rng.randint(1, 9)
        return f"2024-01-01T00:{self.clock // 60:02}:{self.clock % 60:02}Z"

    def _write(self, job: _Job) -> None:
        running = any(job.where)
        if job.minimum is not None:
            phase = "Running" if running else self.rng.choice(["Pending", "Pending", "Inqueue"])
            spec = {"minMember": job.minimum, "queue": job.queue, **job.group}
            if job.group_class:
                spec["priorityClassName"] = job.group_class
            meta = {"annotations": job.group_notes, "creationTimestamp": self._stamp()}
            self.out.append(
                _object(VOLCANO, "PodGroup", job.name, "d", metadata=meta, spec=spec, status={"phase": phase})
            )
            job.notes[GROUP] = job.name
        else:
            job.notes[QUEUE] = job.queue
        if job.owner:
            self._owner(job)
        else:
            for i, node in enumerate(job.where):
                self._pod(job, i, node)

    def _template(self, job: _Job, i: int) -> Manifest:
        cpu, memory = job.sizes[i]
        asked = {"cpu": str(cpu), **({"memory": f"{memory}Gi"} if memory else {})}
        container: Manifest = {"name": "c", "image": "i", "resources": {"requests": asked}}
        if job.ports:
            container["ports"] = [{"containerPort": port, "hostPort": port} for port in job.ports]
        name = job.classes[i]
        priority = {"priorityClassName": name, "priority": PRIORITIES.get(name, 2_000_001_000)}
        spec = {"schedulerName": "volcano", **priority, "containers": [container], **job.spec}
        labels = {"app": job.name, **({PART: job.parts[i]} if job.parts else {})}
        notes = {**job.notes, **({ROLE: job.roles[i]} if job.roles else {})}
        return {"metadata": {"labels": labels, "annotations": notes}, "spec": spec}

    def _pod(self, job: _Job, i: int, node: str, owned: Manifest | None = None) -> None:
        made = self._template(job, i)
        meta = {**made["metadata"], "creationTimestamp": self._stamp(), **(owned or {})}
        spec = {**made["spec"], **({"nodeName": node} if node else {})}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]} if node else {}
        status = {"phase": "Running" if node else "Pending", **ready}
        self.out.append(_object("v1", "Pod", f"{job.name}-{i}", job.namespace, metadata=meta, spec=spec, status=status))

    def _owner(self, job: _Job) -> None:
        template = self._template(job, 0)
        if job.owner == "Job":
            template["spec"]["restartPolicy"] = "Never"
        count = len(job.where)
        selector = {"matchLabels": {"app": job.name}}
        if job.owner == "Job":
            version, spec = "batch/v1", {"parallelism": count, "completions": count, "template": template}
        else:
            version, spec = "apps/v1", {"replicas": count, "selector": selector, "template": template}
            if job.owner == "StatefulSet":
                spec |= {"serviceName": job.name, "podManagementPolicy": "Parallel"}
        meta = {"uid": f"uid-{job.name}", "creationTimestamp": self._stamp()}
        self.out.append(_object(version, job.owner, job.name, "d", metadata=meta, spec=spec))
        if any(job.where):
            by = {"apiVersion": version, "kind": job.owner, "name": job.name, "uid": meta["uid"], "controller": True}
            for i, node in enumerate(job.where):
                self._pod(job, i, node, {"ownerReferences": [by]})

    def _budget(self, job: _Job) -> None:
        rng = self.rng
        count = sum(map(bool, job.where))
        spec: Manifest = {"selector": {"matchLabels": {"app": job.name}}}
        if job.owner and rng.random() < 0.5:
            spec["maxUnavailable"] = rng.randint(0, 2)
            allowed = max(count - len(job.where) + spec["maxUnavailable"], 0)
        else:
            spec["minAvailable"] = rng.randint(0, count)
            allowed = count - spec["minAvailable"]
        parts: Manifest = {"spec": spec}
        if rng.random() < 0.4:
            parts["status"] = {"disruptionsAllowed": allowed}
        self.out.append(_object("policy/v1", "PodDisruptionBudget", job.name, job.namespace, **parts))
