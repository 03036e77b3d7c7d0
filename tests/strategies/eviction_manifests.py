"""Writes the jobs of the random clusters as manifests: PodGroups, pods, owners that recreate them, and budgets."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

Manifest = dict[str, Any]
GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"
ROLE = "volcano.sh/task-spec"
PART = "part"
PRIORITIES = {"low": 10, "mid": 100, "high": 1000}
CRITICAL = "system-node-critical"
GPU = "nvidia.com/gpu"
VOLCANO = "scheduling.volcano.sh/v1beta1"


def made(version: str, kind: str, name: str, namespace: str = "", **parts: Any) -> Manifest:
    meta: Manifest = {"name": name, **({"namespace": namespace} if namespace else {})}
    meta |= parts.pop("metadata", {})
    return {"apiVersion": version, "kind": kind, "metadata": meta, **parts}


@dataclass
class Own:
    """What one pod of a job has for itself."""

    gpus: int
    ports: list[int]
    selector: dict[str, str]


@dataclass
class DrawnJob:
    """A job to be written: its pods' sizes, and what they share."""

    name: str
    sizes: list[tuple[int, int]]  # cpu, GiB of memory; one per pod
    queue: str = "q0"
    gpus: int = 0  # of each pod
    minimum: int | None = None  # None: no PodGroup
    owner: str = ""
    group_class: str = ""
    classes: list[str] = field(default_factory=list)  # of each pod
    roles: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    spec: Manifest = field(default_factory=dict)  # shared by the pods
    ports: list[int] = field(default_factory=list)
    own: list[Own] = field(default_factory=list)  # of each pod; nothing: all are alike
    notes: dict[str, str] = field(default_factory=dict)
    namespace: str = "d"
    group: Manifest = field(default_factory=dict)  # more of the PodGroup's spec
    group_notes: dict[str, str] = field(default_factory=dict)
    where: list[str] = field(default_factory=list)  # nodes of the running pods, "" = pending


class Writer:
    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.objects: list[Manifest] = []
        self.clock = 0

    def add(self, manifest: Manifest) -> None:
        self.objects.append(manifest)

    def _created(self) -> str:
        self.clock += self.rng.randint(1, 9)
        return f"2024-01-01T00:{self.clock // 60:02}:{self.clock % 60:02}Z"

    def write(self, job: DrawnJob) -> None:
        running = any(job.where)
        if job.minimum is not None:
            phase = "Running" if running else self.rng.choice(["Pending", "Pending", "Inqueue"])
            spec = {"minMember": job.minimum, "queue": job.queue, **job.group}
            if job.group_class:
                spec["priorityClassName"] = job.group_class
            meta = {"annotations": job.group_notes, "creationTimestamp": self._created()}
            self.add(made(VOLCANO, "PodGroup", job.name, "d", metadata=meta, spec=spec, status={"phase": phase}))
            job.notes[GROUP] = job.name
        else:
            job.notes[QUEUE] = job.queue
        if job.owner:
            self._owner(job)
        else:
            for i, node in enumerate(job.where):
                self._pod(job, i, node)

    def _template(self, job: DrawnJob, i: int) -> Manifest:
        cpu, memory = job.sizes[i]
        asked = {"cpu": str(cpu), **({"memory": f"{memory}Gi"} if memory else {})}
        own = job.own[i] if job.own else Own(job.gpus, job.ports, {})
        gpus = {GPU: str(own.gpus)} if own.gpus else {}
        resources = {"requests": {**asked, **gpus}, **({"limits": gpus} if gpus else {})}
        container: Manifest = {"name": "c", "image": "i", "resources": resources}
        if own.ports:
            container["ports"] = [{"containerPort": port, "hostPort": port} for port in own.ports]
        name = job.classes[i]
        priority = {"priorityClassName": name, "priority": PRIORITIES.get(name, 2_000_001_000)}
        spec = {"schedulerName": "volcano", **priority, "containers": [container], **job.spec}
        if own.selector:
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **own.selector}
        labels = {"app": job.name, **({PART: job.parts[i]} if job.parts else {})}
        notes = {**job.notes, **({ROLE: job.roles[i]} if job.roles else {})}
        return {"metadata": {"labels": labels, "annotations": notes}, "spec": spec}

    def _pod(self, job: DrawnJob, i: int, node: str, owned: Manifest | None = None) -> None:
        base = self._template(job, i)
        meta = {**base["metadata"], "creationTimestamp": self._created(), **(owned or {})}
        spec = {**base["spec"], **({"nodeName": node} if node else {})}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]} if node else {}
        status = {"phase": "Running" if node else "Pending", **ready}
        if node and len(job.where) == 1 and self.rng.random() < 0.04:
            meta["deletionTimestamp"] = "2024-01-01T00:59:00Z"
        self.add(made("v1", "Pod", f"{job.name}-{i}", job.namespace, metadata=meta, spec=spec, status=status))

    def _owner(self, job: DrawnJob) -> None:
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
        meta = {"uid": f"uid-{job.name}", "creationTimestamp": self._created()}
        self.add(made(version, job.owner, job.name, "d", metadata=meta, spec=spec))
        if any(job.where):
            by = {"apiVersion": version, "kind": job.owner, "name": job.name, "uid": meta["uid"], "controller": True}
            for i, node in enumerate(job.where):
                self._pod(job, i, node, {"ownerReferences": [by]})

    def budget(self, job: DrawnJob) -> None:
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
        self.add(made("policy/v1", "PodDisruptionBudget", job.name, job.namespace, **parts))
