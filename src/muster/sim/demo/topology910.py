"""Design 4, topology910: the chips of a pod lie in one ring, the one that wastes least, and no chip is given twice."""

from __future__ import annotations

from muster.sim.demo.stage import Stage, on_nodes
from muster.sim.demo.story import Chapter, Step

PLUGIN = "topology910"


def chapter() -> Chapter:
    about = "A node has eight Ascend 910 chips in two rings of four; chips of different rings do not reach each other."
    chapter = Chapter(PLUGIN, "Ascend 910 rings (design 4)", about)
    _groups(chapter)
    _rings(chapter)
    _faults(chapter)
    _several(chapter)
    _once(chapter)
    return chapter


def _groups(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler.yaml", "boards.yaml", "one-chip.yaml")
    nodes = stage.explained("demo/one-chip").nodes
    ranked = sorted(nodes, key=lambda name: -nodes[name].total)
    step = stage.ask("A job asks for one chip. The nodes have one, three, two and four chips left in a ring.")
    _standing(step, {name: nodes[name].notes[PLUGIN] for name in ranked})
    wanted = ["one-left", "three-left", "two-left", "four-left"]
    step.check("for one chip the best is one remaining, then three, two and four", wanted, ranked)
    step.check("the chip is the one that was left", {"demo/one-chip": [0]}, step.devices)


def _rings(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler.yaml", "apart.yaml")
    asks = "A job asks for two chips; the node has two free, one in each ring."
    step = stage.ask(asks, "two-chips.yaml", why="demo/two-chips", plugin=PLUGIN)
    step.check("the node meets the quantity but not the affinity: it is excluded", ["demo/two-chips"],
               sorted(step.waiting))  # fmt: skip
    why = "rings 1+1 free, 2 needed in one ring" in step.pending("demo/two-chips")
    step.check("the reason names the rings", True, why)
    step = stage.ask("A job asks for six chips.", "six-chips.yaml")
    step.check("only 1, 2, 4, 8 or 8 x N chips may be asked for", True, "demo/six-chips" in step.waiting)


def _faults(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler.yaml", "worn.yaml", "one-chip.yaml")
    nodes = stage.explained("demo/one-chip").nodes
    asks = "One chip again: a node with a faulty chip has the better ring, a healthy node has all its chips left."
    step = stage.ask(asks)
    _standing(step, {name: nodes[name].notes[PLUGIN] for name in sorted(nodes)})
    found = on_nodes(stage.state, "demo/one-chip")
    step.check("a node of capacity 7 is used only when there is none of capacity 8", {"whole": 1}, found)


def _several(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler.yaml", "empty-boards.yaml")
    step = stage.ask("A job asks for sixteen chips, as two pods of eight.", "sixteen-chips.yaml")
    found = on_nodes(stage.state, "demo/sixteen-")
    step.check("more than eight chips: each pod has a whole node", [1, 1], list(found.values()))
    whole = list(range(8))
    step.check("all the eight chips are used", [whole, whole], [sorted(ids) for ids in step.devices.values()])


def _once(chapter: Chapter) -> None:
    stage = Stage(chapter, "scheduler.yaml", "boards.yaml", "empty-boards.yaml")
    step = stage.ask("Six jobs of one and two chips come at once and are placed in one cycle.", "burst.yaml")
    assert step.result is not None
    handed = [(step.result.binds[pod], chip) for pod, chips in step.devices.items() for chip in chips]
    step.check("no chip is allocated twice", len(handed), len(set(handed)))
    step.check("every job has its chips", 8, len(handed))
    rings = [{chip // 4 for chip in chips} for chips in step.devices.values()]
    step.check("the chips of a pod are in one ring", [1] * len(rings), [len(ring) for ring in rings])


def _standing(step: Step, notes: dict[str, str]) -> None:
    step.show("Why: the nodes in their order for the job", ("node", "standing"), list(notes.items()))
