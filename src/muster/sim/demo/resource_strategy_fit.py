"""Design 2, resource-strategy-fit: pack or spread per resource, and leave scarce resources to those who need them."""

from __future__ import annotations

from muster.model.core import Node
from muster.sim.demo.stage import Stage, nodes_grid, on_nodes
from muster.sim.demo.story import Chapter

PLUGIN = "resource-strategy-fit"
# The design's table: task → its score on node1, node2 and node3.
RETENTION: dict[str, dict[str, float]] = {
    "cpu-task-0": {"node1": 200, "node2": 100, "node3": 0},
    "gpu-task-0": {"node1": 0, "node2": 100, "node3": 0},
    "gpu-task-1": {"node1": 0, "node2": 0, "node3": 0},
}


def chapter() -> Chapter:
    about = "Each resource has a strategy of its own, and pods that need no GPU keep off the nodes that have them."
    chapter = Chapter(PLUGIN, "Pack, spread, and keep what is scarce (design 2)", about)
    _retention(chapter)
    _proportional(chapter)
    _training(chapter)
    return chapter


def _retention(chapter: Chapter) -> None:
    """The design's nine scores, read off the term `retention` of each pod's explanation."""
    stage = Stage(chapter, "scheduler-retention.yaml", "scarce.yaml", "tasks.yaml")
    found: dict[str, dict[str, float]] = {}
    for task in RETENTION:
        nodes = stage.explained(f"demo/{task}").nodes
        found[task] = {name: nodes[name].terms[PLUGIN]["retention"] for name in sorted(nodes)}
    asks = "Three tasks are scored by the retention policy: one without GPU, one with t4, one with t4 and a10."
    step = stage.ask(asks)
    nodes_grid(step, stage.cluster.store.list(Node).items)
    columns = sorted(RETENTION["cpu-task-0"])
    rows = [(task, *(f"{found[task][node]:g}" for node in columns)) for task in found]
    step.show("Why: the retention score of each task on each node", ("task", *columns), rows)
    step.check("the retention table of the design, nine scores", RETENTION, found)


def _proportional(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler-proportional.yaml", "gpu-node.yaml")
    asks = "A node has 74 cores and 8 idle GPUs that keep 8 cores each. A pod without GPU asks for 8 cores."
    step = stage.ask(asks, "first.yaml")
    nodes_grid(step, stage.cluster.store.list(Node).items)
    step.check("single-1000-0 is scheduled: 66 cores are left, 64 are kept", {"node-c0-0": 1},
               on_nodes(stage.state, "demo/single"))  # fmt: skip
    step = stage.ask("A second pod like it comes.", "second.yaml", why="demo/single-1000-1", plugin=PLUGIN)
    step.check("58 cores would be left for 8 GPUs: the node is removed for single-1000-1", ["demo/single-1000-1"],
               sorted(step.waiting))  # fmt: skip


def _training(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler-ai.yaml", "ai-nodes.yaml")
    asks = "Three masters without GPU and a gang of four workers with two GPUs each, in the design's AI configuration."
    step = stage.ask(asks, "training.yaml", why="demo/master-0", plugin=PLUGIN)
    nodes_grid(step, stage.cluster.store.list(Node).items)
    masters, workers = (on_nodes(stage.state, f"demo/{role}-") for role in ("master", "worker"))
    step.check("CPU tasks are dispersed and kept off GPU nodes", {"cpu-1": 1, "cpu-2": 1, "cpu-3": 1}, masters)
    step.check("GPU tasks are gathered", {"gpu-1": 4}, workers)
