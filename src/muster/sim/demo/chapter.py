"""A chapter of the demo: steps on an embedded cluster with its scheduler, to which they apply manifests.

A step has a request, the decision, its reasons and the statement of the design.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from types import MappingProxyType

from muster.cluster.manifests import Manifests, read
from muster.cycle.configure import configure
from muster.cycle.scheduler import Scheduler
from muster.engine.core.session import Log, silent
from muster.engine.core.state import State
from muster.model.core import Node
from muster.model.meta import Object, key
from muster.sim.explain import Explanation, explain
from muster.sim.group_controllers import open_cluster
from muster.sim.report.nodes import devices
from muster.sim.report.nodes import render as nodes
from muster.sim.result import Result
from muster.sim.simulate import Run


@dataclass(frozen=True, slots=True)
class Check:
    """A sentence of the design, what it means for this example, and what the cluster shows."""

    design: str
    wanted: object
    found: object

    @property
    def holds(self) -> bool:
        return self.wanted == self.found

    def to_dict(self) -> dict[str, object]:
        return {"design": self.design, "wanted": self.wanted, "found": self.found, "holds": self.holds}


@dataclass(frozen=True, slots=True)
class Grid:
    """A table, taken from an answer of the simulator."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def to_dict(self) -> dict[str, object]:
        return {"title": self.title, "rows": [dict(zip(self.head, row, strict=True)) for row in self.rows]}


@dataclass(slots=True)
class Step:
    """One request to the cluster and its result."""

    asks: str
    files: list[str]  # the manifests that are in the cluster by now, as given to `simulate -f`
    config: str
    result: Result | None = None
    picture: str = ""  # the nodes after this step, as HTML; drawn at once, because the cluster changes later
    messages: list[str] = field(default_factory=list)  # lines that the scheduler wrote: reasons, logs, findings
    grids: list[Grid] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def check(self, design: str, wanted: object, found: object) -> None:
        self.checks.append(Check(design, wanted, found))

    def show(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.grids.append(Grid(title, tuple(head), [tuple(row) for row in rows]))

    def pending(self, pod: str) -> str:
        """Returns why the pod has no node; empty if it is not pending."""
        return self.waiting.get(pod, "")

    @property
    def waiting(self) -> dict[str, str]:
        return {} if self.result is None else self.result.pending

    @property
    def devices(self) -> dict[str, list[int]]:
        return {} if self.result is None else self.result.devices

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)

    def to_dict(self) -> dict[str, object]:
        plain: dict[str, object] = {"asks": self.asks, "config": self.config, "files": self.files}
        if self.result is not None:
            decided = self.result.to_dict()
            plain["decided"] = {key: decided[key] for key in ("binds", "evicts", "pending", "devices", "cycles")}
        plain["said"] = self.messages
        plain["shown"] = [grid.to_dict() for grid in self.grids]
        plain["checks"] = [check.to_dict() for check in self.checks]
        return plain


@dataclass(slots=True)
class Chapter:
    """One design."""

    name: str  # the folder of its manifests
    title: str
    about: str
    steps: list[Step] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return bool(self.steps) and all(step.checks and step.holds for step in self.steps)

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "title": self.title,
            "about": self.about,
            "steps": [step.to_dict() for step in self.steps],
            "holds": self.holds,
        }


def in_words(value: object) -> str:
    """Formats the expected or found value of a check."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {in_words(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return f"[{', '.join(in_words(item) for item in value)}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


NAMES = ("muster",)  # schedulerName of the demo's pods
START_S = 1_767_225_600.0  # the clock of every cluster starts here, so that every run of the demo is the same
MANIFESTS = files("muster.sim.demo") / "manifests"


def text_of(path: str) -> str:
    """Reads one of the demo's files."""
    return MANIFESTS.joinpath(*path.split("/")).read_text("utf-8")


def manifests_of(*paths: str) -> Manifests:
    found = read([(path, text_of(path).encode()) for path in paths])
    assert not found.errors, found.errors
    return found


def scheduler_of(path: str) -> Scheduler:
    config, findings = configure(text_of(path), path)
    assert not any(finding.severity == "error" for finding in findings), findings
    return Scheduler(config)


class DemoCluster:
    """The cluster of a chapter. `ask` and `take_away` add a step to the chapter."""

    def __init__(self, chapter: Chapter, config: str, *nodes: str) -> None:
        self.chapter = chapter
        self.config = f"{chapter.name}/{config}"
        self.scheduler = scheduler_of(self.config)
        self.files = [f"{chapter.name}/{file}" for file in nodes]
        self.cluster, self.state = open_cluster(manifests_of(*self.files).objects, START_S, NAMES)

    def ask(self, asks: str, *manifests: str, why: str = "", plugin: str = "", log: Log = silent) -> Step:
        """Applies manifests and runs the cluster until it is settled. `why`: a pod to explain before it is placed."""
        for file in manifests:
            path = f"{self.chapter.name}/{file}"
            for obj in manifests_of(path):
                self._apply(obj)
            self.files.append(path)
        self.cluster.step()
        explanation = self.explained(why) if why else None
        step = self._settle(asks, log)
        if explanation is not None:
            scores_grid(step, explanation, plugin)
        return step

    def take_away(self, asks: str, manifest: str) -> Step:
        """Deletes a manifest's objects and runs the cluster until it is settled."""
        path = f"{self.chapter.name}/{manifest}"
        for obj in manifests_of(path):
            self.cluster.store.delete(type(obj), key(obj))
        self.files.remove(path)
        return self._settle(asks, silent)

    def explained(self, pod: str, sets: bool = False) -> Explanation:
        """Explains a pending pod in the cluster as it is."""
        objects, now = self.cluster.store.everything(), self.cluster.clock.now()
        return explain(self.scheduler, objects, now, NAMES, pod, sets=sets, before=True)

    def _apply(self, obj: Object) -> None:
        store = self.cluster.store
        if key(obj) in store.of(type(obj)):
            store.update(obj)
        else:
            store.create(obj)

    def _settle(self, asks: str, log: Log) -> Step:
        self.cluster.step()
        self.cluster.follow(self.state)
        run = Run(self.scheduler, self.cluster, self.state, log)
        run.until_settled(None)
        result = run.finish()
        step = Step(asks, list(self.files), self.config, result, nodes(result) + devices(result))
        self.chapter.steps.append(step)
        return step


def nodes_grid(step: Step, nodes: Iterable[Node], labels: Mapping[str, str] = MappingProxyType({})) -> None:
    """Shows the nodes with their resources, and labels under the given names."""
    rows = []
    for node in nodes:
        offered = ", ".join(f"{name} {n}" for name, n in sorted(node.status.allocatable.items()) if name != "pods")
        rows.append((node.metadata.name, *(node.metadata.labels.get(key, "–") for key in labels), offered))
    step.grids.insert(0, Grid("The cluster", ("node", *labels.values(), "offers"), rows))


def on_nodes(state: State, prefix: str) -> dict[str, int]:
    """Returns node → the number of its pods whose key has this prefix."""
    counts: dict[str, int] = {}
    names = state.nodes.names
    for pod, task in sorted(state.tasks.items()):
        if pod.startswith(prefix) and task.node >= 0:
            counts[names[task.node]] = counts.get(names[task.node], 0) + 1
    return dict(sorted(counts.items()))


def scores_grid(step: Step, explanation: Explanation, plugin: str) -> None:
    """Shows each node for a pod: its scores by one plugin, or why it is refused."""
    rows = []
    ranked = sorted(explanation.nodes.items(), key=lambda entry: (not entry[1].feasible, -entry[1].total, entry[0]))
    for name, trace in ranked:
        why = "; ".join(text for _, _, text in trace.reasons)
        rows.append((name, "fits" if trace.feasible else "no", f"{trace.scores.get(plugin, 0):,.6g}", why or "–"))
    step.show(f"Why: {explanation.pod} before it was placed", ("node", "", plugin, "why not"), rows)
