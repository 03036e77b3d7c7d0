"""Design 1, nodegroup: queues that must, may or would rather use some groups of nodes."""

from __future__ import annotations

from muster.model.core import Node
from muster.sim.demo.stage import NAMES, Stage, manifests_of, nodes_grid, on_nodes, scheduler_of
from muster.sim.demo.story import Chapter, Step
from muster.sim.validate import validate_cluster

GROUP = {"volcano.sh/nodegroup-name": "node group"}
ONLY_OWN = "queue recommend requires node group nodegroup2, node is in nodegroup1"
ONLY_PRIVATE = "queue tts requires node group private, node is in public"


def chapter() -> Chapter:
    about = "Queues are tied to groups of nodes: hard rules filter nodes, soft rules score them."
    chapter = Chapter("nodegroup", "Queues and node groups (design 1)", about)
    _departments(chapter)
    _clouds(chapter)
    _risk(chapter)
    return chapter


def _departments(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler.yaml", "departments.yaml")
    asks = "The queue nlp asks for five pods of one core, at least four of them together; four fit on a node."
    step = stage.ask(asks, "nlp.yaml", why="demo/nlp-0", plugin="nodegroup")
    nodes_grid(step, stage.cluster.store.list(Node).items, GROUP)
    found = on_nodes(stage.state, "demo/nlp-")
    step.check("nlp uses nodegroup1 first, and nodegroup2 when resources are insufficient", {"a1": 4, "b1": 1}, found)

    asks = "The queue recommend asks for five pods of one core."
    step = stage.ask(asks, "recommend.yaml", why="demo/recommend-0", plugin="nodegroup")
    step.check("recommend can only use nodegroup2", {"b1": 3}, on_nodes(stage.state, "demo/recommend-"))

    step = stage.take_away("The job of nlp ends; node a1 of nodegroup1 is empty now.", "nlp.yaml")
    step.check("recommend can only use nodegroup2", {"b1": 4}, on_nodes(stage.state, "demo/recommend-"))
    why = step.pending("demo/recommend-4")
    step.check("a hard rule is not bent for an empty node, and the reason names the rule", True, ONLY_OWN in why)


def _clouds(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler.yaml", "clouds.yaml")
    asks = "The queue tts, whose tasks take long, asks for five pods of one core."
    step = stage.ask(asks, "tts.yaml", why="demo/tts-0", plugin="nodegroup")
    nodes_grid(step, stage.cluster.store.list(Node).items, GROUP)
    step.check("tts can only use private cloud nodes", {"private-1": 4}, on_nodes(stage.state, "demo/tts-"))
    step.check("the reason names the rule", True, ONLY_PRIVATE in step.pending("demo/tts-4"))

    step = stage.ask("The queue recommend asks for five pods of one core.", "recommend.yaml")
    found = on_nodes(stage.state, "demo/recommend-")
    step.check("recommend can use private cloud nodes or public cloud nodes", {"public-1": 5}, found)


def _risk(chapter: Chapter) -> None:
    config, file = f"{chapter.name}/scheduler.yaml", f"{chapter.name}/risk.yaml"
    findings = validate_cluster(scheduler_of(config), manifests_of(file), NAMES)
    step = Step("validate looks at a queue that may hold more than its node group has.", [file], config)
    step.said = [str(finding) for finding in findings]
    chapter.steps.append(step)
    found = [(finding.object, finding.code) for finding in findings]
    design = "a capability of 1024G where the node group has 512G lets tasks in that find no node"
    step.check(design, [("Queue nlp", "nodegroup-capability")], found)
