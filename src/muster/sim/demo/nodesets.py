"""Design 3, NodeSets: plugins divide the nodes, and a gang is tried on each set until one holds all of it."""

from __future__ import annotations

from muster.engine.core.session import Message
from muster.model.core import Node
from muster.sim.demo.stage import Stage, nodes_grid, on_nodes
from muster.sim.demo.story import Chapter, Step
from muster.sim.explain import Explanation

RACKS = {"example.com/rack": "rack"}
# The design's example of two plugins: P divides all nodes, R divides each of P's sets.
LAYERS = ["p1-r1", "p1-r2", "p2-r1", "p2-r2", "p2-r3", "p3-r1", "p3-r2"]


def chapter() -> Chapter:
    about = "A plugin cannot know every rule, so its first choice may fail; the gang is then tried on the next set."
    chapter = Chapter("nodesets", "Node sets and topology (design 3)", about)
    _next_set(chapter)
    _no_set(chapter)
    _layers(chapter)
    return chapter


def _next_set(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler.yaml", "racks.yaml", "pair.yaml")
    tried = stage.explained("demo/pair-0", sets=True)
    lines: list[str] = []

    def log(level: int, message: Message) -> None:
        line = f"V{level}: {message if isinstance(message, str) else message()}"
        if "topology logic" in line and line not in lines:
            lines.append(line)

    asks = "A gang of two must share a rack but no node. Each rack has GPUs enough; two have them in one node."
    step = stage.ask(asks, log=log)
    nodes_grid(step, stage.cluster.store.list(Node).items, RACKS)
    _sets(step, tried)
    step.said = lines
    wanted = [
        "V4: Performing topology logic",
        "V4: Result of topology logic is 3 subsets",
        "V7: Result of topology logic is [node1, node2], [node3, node6], [node4, node5, node7]",
    ]
    step.check("the log says what each plugin made of the nodes", wanted, lines)
    held = [one.holds for one in tried.sets or ()]
    step.check("each set is tried until one holds the workload", [False, False, True], held)
    step.check("the workload is scheduled on that set", {"node4": 1, "node5": 1}, on_nodes(stage.state, "demo/pair-"))


def _no_set(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler.yaml", "racks.yaml")
    step = stage.ask("A gang of four, a whole node each, must share a rack; no rack has four nodes.", "quartet.yaml")
    why = step.pending("demo/quartet-0")
    step.check("the user sees 'unschedulable on cluster'", True, why.startswith("unschedulable on cluster: 0/7 nodes"))
    step.check("node sets are not shown to the user", True, "rack-" not in why and "set" not in why.split())


def _layers(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler.yaml", "layers.yaml", "layered-pair.yaml")
    tried = stage.explained("demo/pair-0", sets=True)
    step = stage.ask("Two plugins divide: nodegroup makes three sets, topology divides each of them by rack.")
    _sets(step, tried)
    found = [one.nodes[0].rpartition("-")[0] for one in tried.sets or ()]
    step.check("P1R1, P1R2, P2R1, P2R2, P2R3, P3R1, P3R2: order kept, depth first", LAYERS, found)
    found_on = on_nodes(stage.state, "demo/pair-")
    step.check("the first set that holds the gang is the last one", {"p3-r2-a": 1, "p3-r2-b": 1}, found_on)


def _sets(step: Step, explanation: Explanation) -> None:
    rows = [
        (one.label, ", ".join(one.nodes), "yes" if one.holds else "no", f"{one.placed} of {one.wanted}", one.reason)
        for one in explanation.sets or ()
    ]
    step.show("Why: the sets in the order of trial", ("set", "nodes", "holds it", "placed", "why not"), rows)
