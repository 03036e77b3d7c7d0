"""The chapters of designs 1 to 4, which are plugins of the scheduler."""

from __future__ import annotations

from muster.engine.core.session import Message
from muster.model.core import Node
from muster.sim.demo.chapter import NAMES, Chapter, DemoCluster, Step, manifests_of, nodes_grid, on_nodes, scheduler_of
from muster.sim.explain import Explanation
from muster.sim.validate import validate_cluster

GROUP = {"volcano.sh/nodegroup-name": "node group"}
ONLY_OWN = "queue recommend requires node group nodegroup2, node is in nodegroup1"
ONLY_PRIVATE = "queue tts requires node group private, node is in public"
STRATEGY_FIT = "resource-strategy-fit"
# The design's table: task → its score on node1, node2 and node3.
RETENTION: dict[str, dict[str, float]] = {
    "cpu-task-0": {"node1": 200, "node2": 100, "node3": 0},
    "gpu-task-0": {"node1": 0, "node2": 100, "node3": 0},
    "gpu-task-1": {"node1": 0, "node2": 0, "node3": 0},
}
RACKS = {"example.com/rack": "rack"}
# The design's example of two plugins: P divides all nodes, R divides each of P's sets.
LAYERS = ["p1-r1", "p1-r2", "p2-r1", "p2-r2", "p2-r3", "p3-r1", "p3-r2"]
TOPOLOGY910 = "topology910"


def nodegroup() -> Chapter:
    """Plays design 1: queues that must, may or prefer to use some groups of nodes."""
    about = "Queues are tied to groups of nodes: hard rules filter nodes, soft rules score them."
    chapter = Chapter("nodegroup", "Queues and node groups (design 1)", about)
    _departments(chapter)
    _clouds(chapter)
    _risk(chapter)
    return chapter


def _departments(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler.yaml", "departments.yaml")
    asks = "The queue nlp requests five pods of one core, at least four of them together; four fit on a node."
    step = demo.ask(asks, "nlp.yaml", why="demo/nlp-0", plugin="nodegroup")
    nodes_grid(step, demo.cluster.store.list(Node).items, GROUP)
    found = on_nodes(demo.state, "demo/nlp-")
    step.check("nlp uses nodegroup1 first, and nodegroup2 when resources are insufficient", {"a1": 4, "b1": 1}, found)

    asks = "The queue recommend requests five pods of one core."
    step = demo.ask(asks, "recommend.yaml", why="demo/recommend-0", plugin="nodegroup")
    step.check("recommend can only use nodegroup2", {"b1": 3}, on_nodes(demo.state, "demo/recommend-"))

    step = demo.take_away("The job of nlp ends; node a1 of nodegroup1 is empty now.", "nlp.yaml")
    step.check("recommend can only use nodegroup2", {"b1": 4}, on_nodes(demo.state, "demo/recommend-"))
    why = step.pending("demo/recommend-4")
    step.check("a hard rule is not bent for an empty node, and the reason names the rule", True, ONLY_OWN in why)


def _clouds(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler.yaml", "clouds.yaml")
    asks = "The queue tts, whose tasks take long, requests five pods of one core."
    step = demo.ask(asks, "tts.yaml", why="demo/tts-0", plugin="nodegroup")
    nodes_grid(step, demo.cluster.store.list(Node).items, GROUP)
    step.check("tts can only use private cloud nodes", {"private-1": 4}, on_nodes(demo.state, "demo/tts-"))
    step.check("the reason names the rule", True, ONLY_PRIVATE in step.pending("demo/tts-4"))

    step = demo.ask("The queue recommend requests five pods of one core.", "recommend.yaml")
    found = on_nodes(demo.state, "demo/recommend-")
    step.check("recommend can use private cloud nodes or public cloud nodes", {"public-1": 5}, found)


def _risk(chapter: Chapter) -> None:
    config, file = f"{chapter.name}/scheduler.yaml", f"{chapter.name}/risk.yaml"
    findings = validate_cluster(scheduler_of(config), manifests_of(file), NAMES)
    step = Step("validate checks a queue that may use more than its node group has.", [file], config)
    step.messages = [str(finding) for finding in findings]
    chapter.steps.append(step)
    found = [(finding.object, finding.code) for finding in findings]
    design = "a capability of 1024G where the node group has 512G lets tasks in that find no node"
    step.check(design, [("Queue nlp", "nodegroup-capability")], found)


def resource_strategy_fit() -> Chapter:
    """Plays design 2: pack or spread per resource, and leave scarce resources to the pods that need them."""
    about = "Each resource has its own strategy, and pods that need no GPU are kept off the nodes that have GPUs."
    chapter = Chapter(STRATEGY_FIT, "Pack, spread, and keep what is scarce (design 2)", about)
    _retention(chapter)
    _proportional(chapter)
    _training(chapter)
    return chapter


def _retention(chapter: Chapter) -> None:
    """The design's nine scores, read off the term `retention` of each pod's explanation."""
    demo = DemoCluster(chapter, "scheduler-retention.yaml", "scarce.yaml", "tasks.yaml")
    found: dict[str, dict[str, float]] = {}
    for task in RETENTION:
        nodes = demo.explained(f"demo/{task}").nodes
        found[task] = {name: nodes[name].terms[STRATEGY_FIT]["retention"] for name in sorted(nodes)}
    asks = "Three tasks are scored by the retention policy: one without GPU, one with t4, one with t4 and a10."
    step = demo.ask(asks)
    nodes_grid(step, demo.cluster.store.list(Node).items)
    columns = sorted(RETENTION["cpu-task-0"])
    rows = [(task, *(f"{found[task][node]:g}" for node in columns)) for task in found]
    step.show("Why: the retention score of each task on each node", ("task", *columns), rows)
    step.check("the retention table of the design, nine scores", RETENTION, found)


def _proportional(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler-proportional.yaml", "gpu-node.yaml")
    asks = "A node has 74 cores and 8 idle GPUs that keep 8 cores each. A pod without GPU requests 8 cores."
    step = demo.ask(asks, "first.yaml")
    nodes_grid(step, demo.cluster.store.list(Node).items)
    step.check("single-1000-0 is scheduled: 66 cores are left, 64 are kept", {"node-c0-0": 1},
               on_nodes(demo.state, "demo/single"))  # fmt: skip
    step = demo.ask("A second, equal pod is created.", "second.yaml", why="demo/single-1000-1", plugin=STRATEGY_FIT)
    step.check("58 cores would be left for 8 GPUs: the node is removed for single-1000-1", ["demo/single-1000-1"],
               sorted(step.waiting))  # fmt: skip


def _training(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler-ai.yaml", "ai-nodes.yaml")
    asks = "Three masters without GPU and a gang of four workers with two GPUs each, in the design's AI configuration."
    step = demo.ask(asks, "training.yaml", why="demo/master-0", plugin=STRATEGY_FIT)
    nodes_grid(step, demo.cluster.store.list(Node).items)
    masters, workers = (on_nodes(demo.state, f"demo/{role}-") for role in ("master", "worker"))
    step.check("CPU tasks are dispersed and kept off GPU nodes", {"cpu-1": 1, "cpu-2": 1, "cpu-3": 1}, masters)
    step.check("GPU tasks are gathered", {"gpu-1": 4}, workers)


def nodesets() -> Chapter:
    """Plays design 3: plugins divide the nodes, and a gang is tried on each set until one has capacity for all of it.
    """
    about = "A plugin cannot know every rule, so its first choice may fail; the gang is then tried on the next set."
    chapter = Chapter("nodesets", "Node sets and topology (design 3)", about)
    _next_set(chapter)
    _no_set(chapter)
    _layers(chapter)
    return chapter


def _next_set(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler.yaml", "racks.yaml", "pair.yaml")
    tried = demo.explained("demo/pair-0", sets=True)
    lines: list[str] = []

    def log(level: int, message: Message) -> None:
        line = f"V{level}: {message if isinstance(message, str) else message()}"
        if "topology logic" in line and line not in lines:
            lines.append(line)

    asks = "A gang of two must share a rack but no node. Each rack has GPUs enough; two have them in one node."
    step = demo.ask(asks, log=log)
    nodes_grid(step, demo.cluster.store.list(Node).items, RACKS)
    _sets(step, tried)
    step.messages = lines
    wanted = [
        "V4: Performing topology logic",
        "V4: Result of topology logic is 3 subsets",
        "V7: Result of topology logic is [node1, node2], [node3, node6], [node4, node5, node7]",
    ]
    step.check("the log says what each plugin made of the nodes", wanted, lines)
    held = [one.holds for one in tried.sets or ()]
    step.check("each set is tried until one holds the workload", [False, False, True], held)
    step.check("the workload is scheduled on that set", {"node4": 1, "node5": 1}, on_nodes(demo.state, "demo/pair-"))


def _no_set(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler.yaml", "racks.yaml")
    step = demo.ask("A gang of four, a whole node each, must share a rack; no rack has four nodes.", "quartet.yaml")
    why = step.pending("demo/quartet-0")
    step.check("the user sees 'unschedulable on cluster'", True, why.startswith("unschedulable on cluster: 0/7 nodes"))
    step.check("node sets are not shown to the user", True, "rack-" not in why and "set" not in why.split())


def _layers(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler.yaml", "layers.yaml", "layered-pair.yaml")
    tried = demo.explained("demo/pair-0", sets=True)
    step = demo.ask("Two plugins divide: nodegroup makes three sets, topology divides each of them by rack.")
    _sets(step, tried)
    found = [one.nodes[0].rpartition("-")[0] for one in tried.sets or ()]
    step.check("P1R1, P1R2, P2R1, P2R2, P2R3, P3R1, P3R2: order kept, depth first", LAYERS, found)
    found_on = on_nodes(demo.state, "demo/pair-")
    step.check("the first set that holds the gang is the last one", {"p3-r2-a": 1, "p3-r2-b": 1}, found_on)


def _sets(step: Step, explanation: Explanation) -> None:
    rows = [
        (one.label, ", ".join(one.nodes), "yes" if one.holds else "no", f"{one.placed} of {one.wanted}", one.reason)
        for one in explanation.sets or ()
    ]
    step.show("Why: the sets in the order of trial", ("set", "nodes", "holds it", "placed", "why not"), rows)


def topology910() -> Chapter:
    """Plays design 4: the chips of a pod lie in one ring, the ring that wastes least, and no chip is given twice."""
    about = "A node has eight Ascend 910 chips in two rings of four; chips of different rings do not reach each other."
    chapter = Chapter(TOPOLOGY910, "Ascend 910 rings (design 4)", about)
    _groups(chapter)
    _rings(chapter)
    _faults(chapter)
    _several(chapter)
    _once(chapter)
    return chapter


def _groups(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler.yaml", "boards.yaml", "one-chip.yaml")
    nodes = demo.explained("demo/one-chip").nodes
    ranked = sorted(nodes, key=lambda name: -nodes[name].total)
    step = demo.ask("A job requests one chip. The nodes have one, three, two and four chips left in a ring.")
    _show_ranking(step, {name: nodes[name].notes[TOPOLOGY910] for name in ranked})
    wanted = ["one-left", "three-left", "two-left", "four-left"]
    step.check("for one chip the best is one remaining, then three, two and four", wanted, ranked)
    step.check("the chip is the one that was left", {"demo/one-chip": [0]}, step.devices)


def _rings(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler.yaml", "apart.yaml")
    asks = "A job requests two chips; the node has two free, one in each ring."
    step = demo.ask(asks, "two-chips.yaml", why="demo/two-chips", plugin=TOPOLOGY910)
    step.check("the node meets the quantity but not the affinity: it is excluded", ["demo/two-chips"],
               sorted(step.waiting))  # fmt: skip
    why = "rings 1+1 free, 2 needed in one ring" in step.pending("demo/two-chips")
    step.check("the reason names the rings", True, why)
    step = demo.ask("A job requests six chips.", "six-chips.yaml")
    step.check("only 1, 2, 4, 8 or 8 x N chips may be requested", True, "demo/six-chips" in step.waiting)


def _faults(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler.yaml", "worn.yaml", "one-chip.yaml")
    nodes = demo.explained("demo/one-chip").nodes
    asks = "One chip again: a node with a faulty chip has the better ring, a healthy node has all its chips left."
    step = demo.ask(asks)
    _show_ranking(step, {name: nodes[name].notes[TOPOLOGY910] for name in sorted(nodes)})
    found = on_nodes(demo.state, "demo/one-chip")
    step.check("a node of capacity 7 is used only when there is none of capacity 8", {"whole": 1}, found)


def _several(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler.yaml", "empty-boards.yaml")
    step = demo.ask("A job requests sixteen chips, as two pods of eight.", "sixteen-chips.yaml")
    found = on_nodes(demo.state, "demo/sixteen-")
    step.check("more than eight chips: each pod has a whole node", [1, 1], list(found.values()))
    whole = list(range(8))
    step.check("all the eight chips are used", [whole, whole], [sorted(ids) for ids in step.devices.values()])


def _once(chapter: Chapter) -> None:
    demo = DemoCluster(chapter, "scheduler.yaml", "boards.yaml", "empty-boards.yaml")
    step = demo.ask("Six jobs of one and two chips come at once and are placed in one cycle.", "burst.yaml")
    assert step.result is not None
    handed = [(step.result.binds[pod], chip) for pod, chips in step.devices.items() for chip in chips]
    step.check("no chip is allocated twice", len(handed), len(set(handed)))
    step.check("every job has its chips", 8, len(handed))
    rings = [{chip // 4 for chip in chips} for chips in step.devices.values()]
    step.check("the chips of a pod are in one ring", [1] * len(rings), [len(ring) for ring in rings])


def _show_ranking(step: Step, notes: dict[str, str]) -> None:
    step.show("Why: the nodes in their order for the job", ("node", "state"), list(notes.items()))
