"""The answer of `muster explain`, and its form in JSON (a contract: the keys are stable)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from muster.engine.devices.fragmentation import Fragmentation
from muster.engine.placement.trace import NodeTrace
from muster.engine.placement.turns import TurnKind
from muster.model.finding import Finding
from muster.sim.eviction_options import EvictionOption
from muster.sim.explain.node_sets import SetTrace
from muster.sim.inputs import LoadedConfig

_SCORE_TOLERANCE = 1e-9  # scores that differ by less are sums of the same terms in another order


@dataclass(frozen=True, slots=True)
class Decision:
    """What the cycle did with the pod: its node, or the node whose capacity it waits for, or why it has none."""

    node: str | None
    pipelined: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class TermDifference:
    """A term whose scores of two nodes differ."""

    plugin: str
    term: str | None  # None: the plugin has only one
    node: float
    runner_up: float
    difference: float


@dataclass(frozen=True, slots=True)
class Deciding:
    """The scores that decided between the chosen node and the runner-up, the largest difference first."""

    node: str
    runner_up: str
    difference: float
    terms: list[TermDifference]


@dataclass(frozen=True, slots=True)
class FailingPod:
    """The pod on which its gang fails."""

    pod: str
    role: str
    reason: str


@dataclass(frozen=True, slots=True)
class Gang:
    """A group with a minimum of more than one pod, after the cycle."""

    name: str
    minimum: int
    pods: int
    placed: int  # pods with a node
    failing: FailingPod | None


@dataclass(slots=True)
class Explanation:
    """Whether each node takes the pod, why not, how each plugin scores it, and what the cycle decided."""

    pod: str
    job: str
    queue: str
    nodes: dict[str, NodeTrace]
    decision: Decision
    warnings: list[str] = field(default_factory=list)
    gpu_fragmentation: Fragmentation | None = None  # None: no pod shares a GPU
    sets: list[SetTrace] | None = None  # None: not asked for, or nothing divides the nodes for this pod's job
    cycle: int = 0  # 0: the state before the first cycle
    placed_before: int = 0  # pods that were placed in the cycle before this pod's turn
    turn_kind: TurnKind | None = None  # how the decision was made at that moment; None: before the first cycle
    set_order: str = ""  # the order in which `sets` are tried
    node_set: str = ""  # the node set in which the node was chosen
    tried: frozenset[str] | None = None  # the nodes that were compared; None: all
    deciding: Deciding | None = None  # None: no node was chosen by its score, or there was only one
    gang: Gang | None = None
    evictions: list[EvictionOption] = field(default_factory=list)  # what evictions could do for the pod
    evicted: dict[str, object] | None = None  # for a pod that the run evicted: for whom, by which rule, and why it
    notes: list[str] = field(default_factory=list)
    configuration: LoadedConfig | None = field(default=None, repr=False)
    findings: list[Finding] = field(default_factory=list)  # in the manifests and in the configuration

    def to_dict(self) -> dict[str, object]:
        """Returns what `muster explain -o json` prints."""
        plain: dict[str, object] = {
            "pod": self.pod,
            "group": self.job,
            "queue": self.queue,
            "cycle": self.cycle,
            "placed_before": self.placed_before,
            "decision": asdict(self.decision),
            "deciding": None if self.deciding is None else asdict(self.deciding),
            "notes": self.notes,
            "warnings": self.warnings,
            "nodes": {name: _node(trace) for name, trace in self.nodes.items()},
        }
        plain["evictions"] = [option.to_dict() for option in self.evictions]
        if self.evicted is not None:
            plain["evicted"] = self.evicted
        if self.gang is not None:
            plain["gang"] = asdict(self.gang)
        if self.gpu_fragmentation is not None:
            plain["gpu_fragmentation"] = self.gpu_fragmentation.to_dict()
        if self.sets is not None:
            plain["sets"] = [tried.to_dict() for tried in self.sets]
            plain["sets_order"] = self.set_order
        if self.configuration is not None:
            plain["configuration"] = self.configuration.to_dict()
        return plain


def _node(trace: NodeTrace) -> dict[str, object]:
    plain: dict[str, object] = {
        "feasible": trace.feasible,
        "reasons": [
            {"plugin": plugin, "code": reason.code, "text": text, "resolvable": reason.resolvable}
            for plugin, reason, text in trace.reasons
        ],
        "scores": trace.scores,
        "terms": trace.terms,
        "total": trace.total,
        "candidate": trace.candidate,
    }
    if trace.notes:
        plain["notes"] = trace.notes
    return plain


def deciding(nodes: Mapping[str, NodeTrace], node: str | None) -> Deciding | None:
    """Returns which scores decided for the node; None if it had no competitor."""
    others = [name for name, trace in nodes.items() if trace.candidate and name != node]
    if node is None or not nodes[node].candidate or not others:
        return None
    second = max(others, key=lambda name: nodes[name].total)  # of equal nodes the first, as in the decision
    best, other = nodes[node], nodes[second]
    terms = []
    for plugin, parts in best.terms.items():
        for term, value in parts.items():
            against = other.terms[plugin][term]
            if abs(value - against) > _SCORE_TOLERANCE:
                alone = list(parts) == [plugin]
                terms.append(TermDifference(plugin, None if alone else term, value, against, value - against))
    terms.sort(key=lambda t: (-abs(t.difference), t.plugin, t.term or ""))
    difference = best.total - other.total
    return Deciding(node, second, 0.0 if abs(difference) <= _SCORE_TOLERANCE else difference, terms)
