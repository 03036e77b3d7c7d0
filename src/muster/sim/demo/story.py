"""The parts of a demo: chapters of steps, each with a request, the decision, its reasons and the statement of the
design.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.sim.result import Result


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
