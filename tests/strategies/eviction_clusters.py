"""Random small clusters for the properties of evictions: running jobs, pending claimers, and a configuration.

A scenario is a function of its seed alone. It consists of plain manifests, so it can be written to files that
`muster simulate` reads. Clusters are small on purpose: `eviction_search` checks them exhaustively.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import yaml

from strategies.eviction_configurations import configuration
from strategies.eviction_manifests import (
    CRITICAL,
    GPU,
    PART,
    PRIORITIES,
    VOLCANO,
    DrawnJob,
    Manifest,
    Own,
    Writer,
    made,
)

RACK = "rack"
HARD = "requiredDuringSchedulingIgnoredDuringExecution"


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


def scenario(seed: int, *, large: bool = False, mixed: bool = False) -> Scenario:
    """`large`: gangs of up to ten pods on up to nine nodes. `mixed`: the pods of a gang differ in more than size."""
    rng = Random(seed)
    config = configuration(rng)
    return Scenario(seed, _Cluster(rng, config, large, mixed).objects(), config)


def _plugins(config: Manifest) -> dict[str, Manifest]:
    return {plugin["name"]: plugin for tier in config["tiers"] for plugin in tier["plugins"]}


class _Cluster:
    def __init__(self, rng: Random, config: Manifest, large: bool, mixed: bool) -> None:
        self.large = large
        self.mixed = mixed
        self.gpus = rng.random() < 0.2
        self.rng = rng
        self.config = config
        self.plugins = _plugins(config)
        self.writer = Writer(rng)
        self.free: dict[str, list[int]] = {}  # node → cpu, GiB, pods
        self.ports: set[tuple[str, int]] = set()
        self.labels: dict[str, dict[str, str]] = {}

    def objects(self) -> list[Manifest]:
        rng = self.rng
        self._classes()
        self._nodes()
        self._queues()
        tight = rng.random() < 0.8
        for i in range(rng.randint(2, 8)):
            self._add_running(f"run{i}", tight)
        for i in range(rng.choice([1, 1, 1, 2, 2, 3, 4, 5])):
            self._add_pending(f"new{i}")
        return self.writer.objects

    # --- the cluster

    def _classes(self) -> None:
        for name, value in PRIORITIES.items():
            self.writer.add(made("scheduling.k8s.io/v1", "PriorityClass", name, value=value))

    def _nodes(self) -> None:
        rng = self.rng
        racks = rng.randint(1, 3)
        memory = rng.choice([64, 64, 64, 8])
        same = rng.choice([None, None, 2, 3, 4])
        for i in range(rng.randint(5, 9) if self.large else rng.randint(1, 6)):
            name, cpu = f"n{i}", same or rng.choice([1, 2, 3, 4, 6])
            pods = rng.choice([110] * 9 + [3])
            labels = {"kubernetes.io/hostname": name, RACK: f"r{i % racks}", "zone": rng.choice("ab")}
            if "nodegroup" in self.plugins:
                labels["volcano.sh/nodegroup-name"] = rng.choice(["g0", "g1"])
            offered = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": str(pods)}
            gpus = rng.randint(0, 4) if self.gpus else 0
            if gpus:
                offered[GPU] = str(gpus)
            ready = [{"type": "Ready", "status": "True"}]
            status = {"allocatable": offered, "capacity": offered, "conditions": ready}
            self.writer.add(made("v1", "Node", name, metadata={"labels": labels}, status=status))
            self.free[name] = [cpu, memory, pods, gpus]
            self.labels[name] = labels
        if "topology" in self.plugins:
            spec = {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]}
            self.writer.add(made("kueue.x-k8s.io/v1alpha1", "Topology", "tree", spec=spec))
            for rack in sorted({labels[RACK] for labels in self.labels.values()}):
                names = [name for name, labels in self.labels.items() if labels[RACK] == rack]
                members = [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]
                spec = {"tier": 1, "members": members}
                self.writer.add(made("topology.volcano.sh/v1alpha1", "HyperNode", rack, spec=spec))

    def _queues(self) -> None:
        rng = self.rng
        total = sum(free[0] for free in self.free.values())
        capacity = self.plugins.get("capacity")
        parents = [""]
        if capacity is not None and capacity.get("enableHierarchy"):
            self.writer.add(made(VOLCANO, "Queue", "root", spec={}))
            parents = ["root", "dept0", "dept1"]
            for name in parents[1:]:
                spec: Manifest = {"parent": "root", "deserved": {"cpu": str(total // 2)}}
                if rng.random() < 0.4:
                    spec["capability"] = {"cpu": str(rng.randint(1, max(total, 1)))}
                self.writer.add(made(VOLCANO, "Queue", name, spec=spec))
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
                if self.gpus and rng.random() < 0.6:
                    spec["deserved"][GPU] = str(rng.randint(0, 6))
            if capacity is not None and capacity.get("enableHierarchy"):
                spec["parent"] = rng.choice(parents)
            if "nodegroup" in self.plugins and rng.random() < 0.5:
                way = rng.choice(["nodeGroupAffinity", "nodeGroupAntiAffinity"])
                spec["affinity"] = {way: {HARD: [rng.choice(["g0", "g1"])]}}
            self.writer.add(made(VOLCANO, "Queue", name, spec=spec))

    # --- jobs

    def _add_running(self, name: str, tight: bool) -> None:
        job = self._job(name, claimer=False)
        placed = []
        for i, (cpu, memory) in enumerate(job.sizes):
            asked = [cpu, memory, 1, job.gpus]
            node = self._node_for(asked, job.ports)
            if node is None:
                break
            self._take(node, asked, job.ports)
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
            job.group.pop("minResources", None)  # it counted pods that do not exist
            if job.minimum is not None and self.rng.random() < 0.92:  # else it runs below its minimum
                job.minimum = min(job.minimum, len(placed))
                job.group.pop("minTaskMember", None)
                job.group.pop("subGroupPolicy", None)
        self._drop_unmet_racks(job, placed)
        self.writer.write(job)
        if self.rng.random() < 0.25:
            self.writer.budget(job)

    def _drop_unmet_racks(self, job: DrawnJob, placed: list[str]) -> None:
        """A running job that does not lie in one rack does not require one."""
        racks = [self.labels[node][RACK] for node in placed]
        if len(set(racks)) > 1:
            job.group_notes = {}
            job.group.pop("networkTopology", None)
        by_part: dict[str, set[str]] = {}
        for part, rack in zip(job.parts, racks, strict=False):
            by_part.setdefault(part, set()).add(rack)
        if any(len(found) > 1 for found in by_part.values()):
            for policy in job.group.get("subGroupPolicy", []):
                policy.pop("networkTopology", None)

    def _add_pending(self, name: str) -> None:
        job = self._job(name, claimer=True)
        job.where = [""] * len(job.sizes)
        self.writer.write(job)

    def _node_for(self, asked: list[int], ports: list[int]) -> str | None:
        fits = [
            name for name, free in self.free.items()
            if all(has >= wants for has, wants in zip(free, asked, strict=True))
            and not any((name, port) in self.ports for port in ports)
        ]  # fmt: skip
        return self.rng.choice(fits) if fits else None

    def _take(self, node: str, asked: list[int], ports: list[int]) -> None:
        self.free[node] = [has - wants for has, wants in zip(self.free[node], asked, strict=True)]
        self.ports |= {(node, port) for port in ports}

    def _job(self, name: str, *, claimer: bool) -> DrawnJob:
        rng = self.rng
        kinds = ["strict", "elastic", "single", "bare", "roles", "parts", "owned", "owned-gang"]
        kind = rng.choices(kinds, [4, 4, 4, 2, 1, 1, 2, 2])[0]
        count = 1 if kind in ("single", "bare") else rng.randint(2, 4 if kind == "parts" else 10 if self.large else 6)
        if kind == "parts":
            count = max(count - count % 2, 2)
        small = rng.choice([1, 1, 2]) if count > 1 else rng.choice([1, 1, 2, 3])
        memory = rng.choice([0, 1, 1, 2])
        sizes = [(small, memory)] * count
        if kind in ("strict", "elastic", "roles") and rng.random() < 0.45:
            sizes = [(rng.randint(1, 3), memory) for _ in range(count)]
        job = DrawnJob(name, sizes, queue=rng.choice(self.queues), gpus=rng.choice([0, 1, 1, 2]) * self.gpus)
        if kind in ("strict", "single", "parts", "owned-gang"):
            job.minimum = count
        elif kind in ("elastic", "roles"):
            job.minimum = rng.randint(1, count) if kind == "roles" or rng.random() < 0.95 else 0
        if kind == "owned-gang" and rng.random() < 0.5:
            job.minimum = rng.randint(1, count)
        if kind in ("owned", "owned-gang"):
            owners = ["ReplicaSet", "StatefulSet", "Job"] + ["Deployment"] * claimer
            job.owner = rng.choice(owners)
        self._priorities(job)
        self._members(job, kind)
        self._rules(job, claimer=claimer)
        if self.mixed and claimer and not job.owner and count > 1:
            self._mix(job)
        return job

    def _priorities(self, job: DrawnJob) -> None:
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

    def _mix(self, job: DrawnJob) -> None:
        """Gives the pods different priorities, GPUs, host ports and zones."""
        rng = self.rng
        if rng.random() < 0.5:
            job.classes = [rng.choice(list(PRIORITIES)) for _ in job.sizes]
        ports, zones = rng.random() < 0.3, rng.random() < 0.25
        for _ in job.sizes:
            gpus = rng.choice([0, 1, 2]) if self.gpus else 0
            zone = rng.choice(["", "", "a", "b"]) if zones else ""
            own = Own(gpus, [8080] if ports and rng.random() < 0.5 else job.ports, {"zone": zone} if zone else {})
            job.own.append(own)
        job.group.pop("minResources", None)

    def _members(self, job: DrawnJob, kind: str) -> None:
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
            if "topology" in self.plugins and self.rng.random() < 0.5:
                policy["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
            job.group["subGroupPolicy"] = [policy]

    def _rules(self, job: DrawnJob, *, claimer: bool) -> None:
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
            if rng.random() < 0.7:
                job.group_notes = {
                    "kai.scheduler/topology": "tree", "kai.scheduler/topology-required-placement": RACK
                }  # fmt: skip
            elif not job.parts:
                job.group["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
        if job.minimum and rng.random() < 0.35:
            least = sorted(job.sizes)[: job.minimum]
            cpu, memory = (sum(amounts) for amounts in zip(*least, strict=True))
            gpus = {GPU: str(job.gpus * job.minimum)} if job.gpus else {}
            job.group["minResources"] = {"cpu": str(cpu), "memory": f"{memory}Gi", **gpus}
        if rng.random() < 0.5:
            job.spec["terminationGracePeriodSeconds"] = rng.choice([0, 5, 30])
