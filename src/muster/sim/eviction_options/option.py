"""An option for a pending pod: who would have to go on a node or domain, and who is protected; its form in JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from muster.actions.victim_pool import Cost
from muster.engine.core.jobs import Task

MAX_OPTIONS = 100  # nodes or domains that are tried
MAX_PROTECTED = 100  # protected pods that an option lists
MAX_EXAMINED = 2000  # pods that are asked about for one option
_WORDS = {
    "budget": "a PodDisruptionBudget", "gang-minimum": "the gang minimum", "not-preemptable": "an annotation or label",
    "not-reclaimable": "a queue that is not reclaimable", "other-queue": "being in another queue",
    "other-scheduler": "belonging to another scheduler", "promise": "a promise", "queue-share": "the queue's share",
    "same-job": "belonging to the same group", "same-queue": "being in the same queue",
}  # fmt: skip
_MAX_NAMED = 3  # pods that a sentence names


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that would have to go."""

    pod: str
    group: str
    queue: str
    priority: int
    node: str


@dataclass(frozen=True, slots=True)
class Protected:
    """A pod that must stay: by which rule, by which plugin ("": a rule of the engine), and the inequality."""

    pod: str
    group: str
    rule: str
    plugin: str
    text: str


@dataclass(frozen=True, slots=True)
class EvictionOption:
    """One node or domain: whether the rules allow enough evictions there, who would go, and who must stay."""

    where: str  # a node, or a set of nodes; "" if the answer is the same for all nodes
    possible: bool
    action: str  # the action that would evict; "" if none can
    victims: list[Victim]
    protected: list[Protected]
    text: str
    cost: Cost = field(default=(), repr=False)  # of the victims, by the measure of the search

    def to_dict(self) -> dict[str, object]:
        plain = asdict(self)
        del plain["cost"]
        return plain


def refused(text: str) -> list[EvictionOption]:
    """Returns the answer that no evictions are possible anywhere."""
    return [EvictionOption("", False, "", [], [], text)]


def counted(protected: Sequence[Protected]) -> str:
    """`5 pods are protected: 3 by the gang minimum, 2 by priority`."""
    counts = sorted(Counter(one.rule for one in protected).items(), key=lambda count: (-count[1], count[0]))
    are = f"{len(protected)} {'pod is' if len(protected) == 1 else 'pods are'} protected"
    parts = [(n, _WORDS.get(rule, rule.replace("-", " "))) for rule, n in counts]
    return f"{are} by {parts[0][1]}" if len(parts) == 1 else f"{are}: " + ", ".join(f"{n} by {by}" for n, by in parts)


def victim_of(task: Task, names: Sequence[str]) -> Victim:
    group, queue = (task.job.shown, task.job.queue_name) if task.job is not None else ("", "")
    return Victim(task.key, group, queue, task.priority, names[task.node])


def some(pods: Sequence[str]) -> str:
    """Returns the first few of the names, and how many more there are."""
    shown = ", ".join(pods[:_MAX_NAMED])
    return shown if len(pods) <= _MAX_NAMED else f"{shown} and {len(pods) - _MAX_NAMED} more"
