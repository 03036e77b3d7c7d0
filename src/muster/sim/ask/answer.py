"""The answer of `muster ask` and its form in JSON (a contract: the codes and keys are stable)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.engine.core.plan import Eviction
from muster.model.kinds import plain
from muster.model.meta import Object, timestamp
from muster.model.yamltext import dump_all
from muster.sim.inputs import LoadedConfig
from muster.sim.result import plain_eviction

__all__ = ["Answer", "FirstAnswer", "Proposal", "Start", "patch_of"]

RUNS_NOW = "runs-now"  # every pod is bound in the next cycles
RUNS_PARTLY = "runs-partly"  # every group has its minimum, but not all pods
RUNS_AFTER_EVICTIONS = "runs-after-evictions"  # the scheduler evicts other pods for it
RUNS_AFTER_RELEASES = "runs-after-releases"  # the capacity of terminating pods is promised to it
WAITS = "waits"  # not now; there may be proposals
NEVER = "never"  # not now, and no change that was tried lets it run

FEWER_PODS = "fewer-pods"
OTHER_QUEUE = "other-queue"
MORE_QUOTA = "more-quota"
EVICTIONS = "evictions"
MORE_NODES = "more-nodes"
MORE_QUOTA_AND_NODES = "more-quota-and-nodes"


@dataclass(frozen=True, slots=True)
class JobGroup:
    """A group of the job, as the simulation left it."""

    name: str
    queue: str
    pods: int
    minimum: int
    bound: int


@dataclass(slots=True)
class FirstAnswer:
    """Whether the job runs now."""

    code: str
    text: str
    groups: list[JobGroup]
    binds: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # pod without a node → why
    evictions: list[Eviction] = field(default_factory=list)  # of the pods of other jobs, for this job

    def to_dict(self) -> dict[str, object]:
        return {
            "code": self.code,
            "text": self.text,
            "groups": [
                {"group": g.name, "queue": g.queue, "pods": g.pods, "minimum": g.minimum, "bound": g.bound}
                for g in self.groups
            ],
            "binds": dict(sorted(self.binds.items())),
            "reasons": dict(sorted(self.reasons.items())),
            "evictions": [plain_eviction(eviction) for eviction in self.evictions],
        }


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that lets the job run: a simulation with it bound all pods of the job."""

    code: str
    text: str
    change: Mapping[str, Any]
    patches: tuple[Mapping[str, Any], ...] = ()  # objects to apply, with only the fields that change
    evictions: tuple[Eviction, ...] = ()
    verified: bool = True

    @property
    def yaml(self) -> str:
        """The change as YAML documents."""
        return dump_all([dict(patch) for patch in self.patches]) if self.patches else ""

    def to_dict(self) -> dict[str, object]:
        return {
            "code": self.code,
            "text": self.text,
            "change": dict(self.change),
            "yaml": self.yaml,
            "evictions": [plain_eviction(eviction) for eviction in self.evictions],
            "verified": self.verified,
        }


@dataclass(frozen=True, slots=True)
class Start:
    """When the job is expected to run, from the known durations of the pods that run."""

    at: float | None  # None: it does not run before all pods with a known duration have ended
    after: float | None  # seconds from now
    unknown: int  # running pods without a known duration
    text: str

    def to_dict(self) -> dict[str, object]:
        at = None if self.at is None else timestamp(self.at)
        return {"at": at, "seconds": self.after, "pods_without_duration": self.unknown, "text": self.text}


@dataclass(slots=True)
class Answer:
    """The first answer, the proposals (the smallest change of each kind), and the expected start if asked for."""

    first: FirstAnswer
    proposals: list[Proposal] = field(default_factory=list)
    start: Start | None = None
    notes: list[str] = field(default_factory=list)  # what was not tried, and why
    warnings: list[str] = field(default_factory=list)
    configuration: LoadedConfig | None = field(default=None, repr=False)

    @property
    def runs_now(self) -> bool:
        return self.first.code == RUNS_NOW

    def to_dict(self) -> dict[str, object]:
        """Returns what `muster ask -o json` prints."""
        plain: dict[str, object] = {
            "answer": self.first.to_dict(),
            "proposals": [proposal.to_dict() for proposal in self.proposals],
            "notes": self.notes,
            "warnings": self.warnings,
        }
        if self.start is not None:
            plain["start"] = self.start.to_dict()
        return plain if self.configuration is None else {**plain, "configuration": self.configuration.to_dict()}


def patch_of(old: Object, new: Object) -> dict[str, Any]:
    """Returns the identity of the object and the fields of `new` that differ from `old`."""
    before, after = plain(old), plain(new)
    meta = {name: after["metadata"][name] for name in ("name", "namespace") if name in after["metadata"]}
    changed = _changed(before, after)
    changed.pop("apiVersion", None)
    changed.pop("kind", None)
    changed["metadata"] = {**meta, **changed.get("metadata", {})}
    order = ["metadata", *(name for name in changed if name != "metadata")]
    return {"apiVersion": after["apiVersion"], "kind": after["kind"], **{name: changed[name] for name in order}}


def _changed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted({*before, *after}):
        one, two = before.get(name), after.get(name)
        if one == two:
            continue
        if isinstance(one, dict) and isinstance(two, dict):
            found[name] = _changed(one, two)
        elif isinstance(one, list) and isinstance(two, list) and _named(one) and _named(two):
            # Lists of named items are merged by name, as kubectl's strategic merge patch does it.
            known = {item["name"]: item for item in one}
            found[name] = [
                {"name": item["name"], **_changed(known.get(item["name"], {}), item)}
                for item in two if item != known.get(item["name"])
            ]  # fmt: skip
        else:
            found[name] = two
    return found


def _named(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) and "name" in item for item in items)
