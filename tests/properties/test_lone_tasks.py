"""Single pods with requests of their own land where they would land if every node were asked about each of them."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from builders.manifests import node, pod, queue, state_of
from muster.config.loader import load
from muster.config.types import Config
from muster.cycle.registry import known
from muster.cycle.scheduler import Scheduler
from muster.engine.core import axis
from muster.engine.placement import node_classes
from muster.plugin_checks.choices import SeededChoices
from muster.plugin_checks.shortcuts import with_shortcuts, without_shortcuts
from strategies.clusters import GPU, NOW
from strategies.profiles import examples

RARE = ("example.com/a", "example.com/b")
CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
    arguments: {{leastrequested.weight: {0}, mostrequested.weight: {1}, balancedresource.weight: {2}}}
  - name: binpack
    arguments: {{binpack.weight: {3}, binpack.cpu: {4}, binpack.resources: "{gpu}"}}
"""


def cluster(choices: SeededChoices) -> list[object]:
    """Nodes of a few types, some of which lack memory or GPUs, and pods of which hardly two are equal."""
    offers = [
        {
            "cpu": choices.integer(2, 6), "memory": choices.one_of(["8Gi", "16Gi", "0"]),
            "pods": choices.one_of([3, 110]), "resources": {GPU: 4} if choices.flip() else None,
        }
        for _ in range(3)
    ]  # fmt: skip
    objects: list[object] = [queue(name) for name in ("default", "b")[: choices.integer(1, 2)]]
    for i in range(choices.integer(2, 8)):
        offer = dict(choices.one_of(offers))
        rare = {choices.one_of(RARE): choices.integer(1, 3)} if choices.integer(0, 3) == 0 else {}
        offer["resources"] = {**(offer["resources"] or {}), **rare}
        objects.append(node(f"n{i:02}", **offer, labels={"disk": "ssd"} if choices.flip() else None))
    for i in range(choices.integer(4, 30)):
        requests: dict[str, object] = {"cpu": f"{choices.integer(50, 2000)}m"}
        requests |= {"memory": f"{choices.integer(50, 3000)}Mi"} if choices.integer(0, 5) else {}
        requests |= {GPU: 1} if choices.integer(0, 5) == 0 else {}
        requests |= {choices.one_of(RARE): 1} if choices.integer(0, 7) == 0 else {}
        selector = {"nodeSelector": {"disk": "ssd"}} if choices.integer(0, 7) == 0 else {}
        objects.append(pod(f"p{i:02}", requests=requests, **selector))
    return objects


def config(choices: SeededChoices) -> Config:
    text = CONFIG.format(*[choices.integer(0, 2) for _ in range(5)], gpu=GPU if choices.flip() else "")
    found, findings = load(text, "test", known())
    assert not [each for each in findings if each.severity == "error"], findings
    return found


@given(st.integers(0, 2**32))
@examples(600)
def test_lone_pods_land_where_they_would_if_every_node_were_asked_about(seed: int) -> None:
    choices = SeededChoices(seed)
    objects, chosen = cluster(choices), config(choices)
    with patch.object(axis, "_COMMON", 0):  # resources of few nodes share rows
        # With 2, nodes are grouped again and again.
        with with_shortcuts(), patch.object(node_classes, "MIN_NODES_PER_CLASS", choices.integer(1, 2)):
            fast = Scheduler(chosen).cycle(state_of(*objects), NOW)
        with without_shortcuts():
            slow = Scheduler(chosen).cycle(state_of(*objects), NOW)
    assert fast.binds == slow.binds
    assert fast.reasons.keys() == slow.reasons.keys()
