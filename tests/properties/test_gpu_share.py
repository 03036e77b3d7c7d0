"""What holds for gpu-share over any stream of jobs, ends and terminations, with gangs, victims and promises."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import manifests
from builders.manifests import state_of, typed
from muster.config.loader import load
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core.nodes import MoveKind
from muster.engine.core.plan import Plan
from muster.engine.core.state import State
from muster.model.core import Node, Pod
from muster.model.meta import Object
from muster.plugins.gpu_share import GpuShare
from muster.plugins.gpu_share.requests import GpuRequest
from muster.testing import check_plugin
from strategies.profiles import examples, times

CONFIG = """
actions: "allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
- plugins:
  - name: predicates
  - name: gpu-share
    arguments: {gpu-share.score: SCORE}
"""
GPUS = {"n0": 2, "n1": 3, "n2": 1}
CYCLE: tuple[object, ...] = ("cycle",)
# (GPUs, thousandths) or MiB of one GPU by annotation; Volcano's requests by memory or number
kinds = st.sampled_from([
    ("gpu", 1), ("gpu", 2), ("fraction", 0.5), ("fraction", 0.5), ("fraction", 0.3), ("fraction", 0.7),
    ("fraction", 0.334), ("memory", 4000), ("memory", 9000), ("volcano-memory", 6000), ("volcano-number", 1),
    ("both", 0.4), ("none", 0),
])  # fmt: skip
jobs = st.tuples(st.just("job"), st.lists(kinds, min_size=1, max_size=3), st.integers(0, 2), st.booleans())
others = st.tuples(st.sampled_from(["end", "terminate", "remove", "forget", "relabel"]), st.integers(0, 30))
events = st.lists(
    st.tuples(st.lists(jobs, max_size=4), st.lists(others, max_size=3)).map(lambda both: [*both[0], *both[1], CYCLE]),
    min_size=1,
    max_size=7,
).map(lambda rounds: [event for events in rounds for event in events])


def gpu_node(name: str, gpus: int, memory: int = 16000) -> Node:
    volcano = {"volcano.sh/gpu-number": gpus, "volcano.sh/gpu-memory": gpus * 16000}
    labels = {"nvidia.com/gpu.memory": str(memory)}
    return typed(manifests.node(name, cpu=16, resources={"nvidia.com/gpu": gpus, **volcano}, labels=labels))


def gpu_pod(name: str, kind: tuple[str, float], group: str = "", priority: int = 0) -> Pod:
    how, amount = kind
    asked: dict[str, object] = {"cpu": 1}
    notes: dict[str, str] = {}
    if how == "gpu":
        asked["nvidia.com/gpu"] = int(amount)
    elif how in ("fraction", "both"):
        notes["gpu-fraction"] = str(amount)
        if how == "both":
            notes["gpu-fraction-num-devices"] = "2"
    elif how == "memory":
        notes["gpu-memory"] = str(int(amount))
    elif how == "volcano-memory":
        asked["volcano.sh/gpu-memory"] = int(amount)
    elif how == "volcano-number":
        asked["volcano.sh/gpu-number"] = int(amount)
    more = {"priority": 100 * priority, "schedulerName": "muster"}
    return typed(manifests.pod(name, group, namespace="d", requests=asked, annotations=notes, **more))


@dataclass
class World:
    scheduler: Scheduler
    state: State
    jobs: int = 0
    now: float = 1000.0

    @property
    def plugin(self) -> GpuShare:
        (found,) = (p for tier in self.scheduler.tiers for p in tier if isinstance(p, GpuShare))
        return found

    @property
    def pods(self) -> list[Pod]:
        return [task.pod for task in self.state.tasks.values() if task.pod.spec.node_name]

    def happen(self, event: tuple[Any, ...]) -> None:
        match event:
            case ("job", list() as sizes, int() as priority, bool() as gang):
                name, self.jobs = f"j{self.jobs}", self.jobs + 1
                spec = {"minMember": len(sizes) if gang else 1, "priorityClassName": f"p{priority}"}
                group = manifests.group(name, namespace="d", phase="Inqueue", **spec)
                self.state.upsert("PodGroup", f"d/{name}", typed(group))
                for i, kind in enumerate(sizes):
                    self.put(gpu_pod(f"{name}-{i}", kind, name, priority))
            case ("relabel", int() as which):
                name = list(GPUS)[which % len(GPUS)]
                self.state.upsert("Node", name, gpu_node(name, GPUS[name], 16000 + 8000 * (which % 2)))
            case (str() as how, int() as which) if self.pods:
                self.finish(how, sorted(self.pods, key=lambda p: p.metadata.name)[which % len(self.pods)])
            case ("cycle",):
                self.cycle()

    def put(self, made: Pod) -> None:
        self.state.upsert("Pod", f"d/{made.metadata.name}", made)

    def finish(self, how: str, old: Pod) -> None:
        meta = old.metadata
        if how == "remove":
            self.state.remove("Pod", f"d/{meta.name}")
        elif how == "end":
            self.put(replace(old, status=replace(old.status, phase="Succeeded")))
        elif how == "forget":  # as if another scheduler had bound it
            notes = {key: value for key, value in meta.annotations.items() if not key.endswith("gpu-index")}
            self.put(replace(old, metadata=replace(meta, annotations=notes)))
        else:
            self.put(replace(old, metadata=replace(meta, deletion_timestamp="2026-01-01T00:00:00Z")))

    def cycle(self) -> None:
        self.now += 1
        self.scheduler.session(self.state, self.now).close()
        before = columns(self.plugin)
        plan = self.scheduler.cycle(self.state, self.now)
        assert columns(self.plugin) == before, "what is undone has never been"
        assert before == self.read_afresh(), "columns that were followed are those that are read afresh"
        self.check(plan)
        for key, node in plan.binds.items():
            old = self.state.tasks[key].pod
            notes = {**old.metadata.annotations, **plan.annotations_of(key)}
            bound = replace(old, metadata=replace(old.metadata, annotations=notes))
            self.put(replace(bound, spec=replace(old.spec, node_name=node)))
        for eviction in plan.evictions:
            self.finish("terminate", self.state.tasks[eviction.pod].pod)

    def read_afresh(self) -> list[object]:
        pods = {key: task.pod for key, task in self.state.tasks.items()}
        nodes = dict(zip(self.state.nodes.names, self.state.nodes.objects, strict=True))
        fresh = State()
        fresh.load({**self.state.objects, "Node": nodes, "Pod": dict(reversed(pods.items()))})
        other = World(scheduler(self.plugin.scores.rule), fresh)
        other.scheduler.session(fresh, self.now).close()
        return columns(other.plugin)

    def check(self, plan: Plan) -> None:
        gpus, state = self.plugin.gpus, self.state
        self.scheduler.session(state, self.now).close()
        # A pod that names no GPU may overcommit one that pods share; nothing else does.
        held = {name: Counter[int]() for name in GPUS}
        for node, name in enumerate(state.nodes.names):
            here = gpus.at(node)
            assert here is not None
            for of in here.of_pods.values():
                held[name].update(dict.fromkeys(of.ids, of.parts))
        for key, node_name in plan.binds.items():
            request = self.plugin.request(state.tasks[key])
            shares = plan.shares.get(key, {})
            assert (list(shares) or None) == plan.devices.get(key)
            assert len(shares) == request.gpus
            card = int(gpus.card[state.nodes.rank[node_name]])
            for gpu, parts in shares.items():
                assert 0 <= gpu < GPUS[node_name]
                assert parts == request.parts(card)
                assert parts < 1000 or not held[node_name][gpu], "a whole GPU is one that nobody uses"
                held[node_name][gpu] += parts
                assert held[node_name][gpu] <= 1000, "a GPU has a thousand parts"
        assert not plan.shares.keys() - plan.binds.keys()


KINDS = (MoveKind.ALLOCATE, MoveKind.PIPELINE)


def columns(plugin: GpuShare) -> list[object]:
    gpus = plugin.gpus
    held = [gpus.at(node) for node in range(len(gpus.nodes))]
    derived = [gpus.fits(request, np.arange(len(gpus.nodes)), kind).tolist() for request in REQUESTS for kind in KINDS]
    return [gpus.idle.tolist(), gpus.future.tolist(), gpus.card.tolist(), dict(gpus.of_pods), held, derived]


def scheduler(score: str) -> Scheduler:
    config, findings = load(CONFIG.replace("SCORE", score), "scheduler.yaml", known())
    assert not findings
    return Scheduler(config)


def world(score: str) -> World:
    classes = [manifests.priority_class(f"p{i}", 100 * i) for i in range(3)]
    return World(scheduler(score), state_of(*(gpu_node(name, gpus) for name, gpus in GPUS.items()), *classes))


REQUESTS = [GpuRequest(1, 500), GpuRequest(1, 1), GpuRequest(1, 1000), GpuRequest(2, 400), GpuRequest(1, 0, 9000)]


@examples(150)
@given(events, st.sampled_from(["pack", "spread", "fgd"]))
def test_no_gpu_has_more_than_its_parts_and_undoing_is_exact(stream: list[tuple[object, ...]], score: str) -> None:
    here = world(score)
    for event in stream:
        here.happen(event)


def with_shares(rng: random.Random, objects: list[Object]) -> None:
    """Lets pods of random clusters request parts of GPUs."""
    for at, one in enumerate(objects):
        if isinstance(one, Node) and rng.random() < 0.7:
            offered = {**one.status.allocatable, "nvidia.com/gpu": str(rng.choice([1, 2, 4]))}
            labels = {**one.metadata.labels, "nvidia.com/gpu.memory": rng.choice(["16000", "0", "x"])}
            meta = replace(one.metadata, labels=labels)
            objects[at] = replace(one, metadata=meta, status=replace(one.status, allocatable=offered))
        elif isinstance(one, Pod) and rng.random() < 0.6:
            notes = rng.choice([{"gpu-fraction": rng.choice(["0.5", "0.2", "1", "2"])}, {"gpu-memory": "6000"}])
            if rng.random() < 0.2:
                notes["gpu-fraction-num-devices"] = "2"
            if one.spec.node_name and rng.random() < 0.5:
                notes["muster.io/gpu-index"] = rng.choice(["0", "1", "0,1", "9", "x"])
            meta = replace(one.metadata, annotations={**one.metadata.annotations, **notes})
            objects[at] = replace(one, metadata=meta)


def test_the_plugin_keeps_the_promises_of_the_interface() -> None:
    for score in ("pack", "spread", "fgd"):
        check_plugin(GpuShare, {"gpu-share.score": score}, change=with_shares, clusters=times(60))
