"""On random clusters every proposal runs in a simulation of its own, and one pod more or one node less does not."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from builders.files import manifests
from builders.manifests import Manifest, group, node, pod, queue
from muster import ask

QUEUE = "scheduling.volcano.sh/queue-name"


def cluster(draw: random.Random) -> list[Manifest]:
    queues = [queue(f"q{i}", **_capability(draw), weight=draw.randint(1, 3)) for i in range(draw.randint(1, 3))]
    nodes = [node(f"n{i}", cpu=draw.choice([4, 8])) for i in range(draw.randint(1, 3))]
    running = [pod(f"r{i}", on=draw.choice(nodes)["metadata"]["name"], annotations={QUEUE: "q0"}) for i in range(3)]
    waiting = [pod(f"w{i}", cpu=draw.randint(1, 4), annotations={QUEUE: "q0"}) for i in range(draw.randint(0, 2))]
    return [*queues, *nodes, *running, *waiting]


def _capability(draw: random.Random) -> dict[str, Any]:
    return {"capability": {"cpu": str(draw.randint(2, 12))}} if draw.random() < 0.5 else {}


def job(size: int, name: str = "q0") -> list[Manifest]:
    return [group("g", name, minMember=size), *(pod(f"g-{i}", "g", cpu=2) for i in range(size))]


def runs(new: list[Manifest], there: list[Manifest]) -> bool:
    return ask(manifests(*new), manifests(*there)).runs_now


def with_nodes(there: list[Manifest], like: str, count: int) -> list[Manifest]:
    (template,) = (one for one in there if one["kind"] == "Node" and one["metadata"]["name"] == like)
    copies = [copy.deepcopy(template) for _ in range(count)]
    for i, one in enumerate(copies):
        one["metadata"]["name"] = f"new-{i}"
    return [*there, *copies]


@pytest.mark.parametrize("seed", range(12))
def test_every_proposal_runs_and_is_the_smallest(seed: int) -> None:
    draw = random.Random(seed)
    there, size = cluster(draw), draw.randint(3, 8)
    for proposal in ask(manifests(*job(size)), manifests(*there)).proposals:
        change = proposal.change
        match proposal.code:
            case "fewer-pods":
                assert runs(job(change["to"]), there) and not runs(job(change["to"] + 1), there)
            case "other-queue":
                assert runs(job(size, change["to"]), there)
            case "more-nodes":
                assert runs(job(size), with_nodes(there, change["like"], change["nodes"]))
                assert not runs(job(size), with_nodes(there, change["like"], change["nodes"] - 1))
