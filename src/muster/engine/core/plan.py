"""The decisions of a cycle as plain data; the embedded cluster and the live binder execute them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from muster.engine.core.hooks import Effect


class Eviction(Struct, frozen=True):
    pod: str  # ns/name
    node: str
    by: str  # the pod that it is evicted for, ns/name
    rule: str  # "reclaim" | "preempt"


class PodReason(Struct, frozen=True):
    """Why a pod has no node: a stable code, the text for people, and the line about the gang."""

    code: str
    text: str


class Condition(Struct, frozen=True):
    """A condition of a PodGroup."""

    type: str  # "Unschedulable" | "Scheduled"
    reason: str
    message: str
    pod: str = ""  # the pod of a gang that is the origin of its wait
    why: str = ""  # and why it waits

    @classmethod
    def unschedulable(cls, gang: str, pod: str, why: str) -> Condition:
        """The condition of a group that waits; `gang` is the line about the group."""
        return cls("Unschedulable", "NotEnoughResources", f"{gang} Origin reason is {pod}: {why}", pod, why)


class Plan(Struct):
    binds: dict[str, str] = field(default_factory=dict)  # pod → node
    pipelined: dict[str, str] = field(default_factory=dict)  # pod → the node whose capacity is still being released
    nominated: dict[str, str] = field(default_factory=dict)  # pod → the node that it keeps in the next cycles
    promises_changed: bool = False  # a promise was made or withdrawn: the next cycle may decide otherwise
    evictions: list[Eviction] = field(default_factory=list)
    reasons: dict[str, PodReason] = field(default_factory=dict)  # every pod of ours left without a node
    phases: dict[str, str] = field(default_factory=dict)  # group → its phase after this cycle, where it changed
    conditions: dict[str, Condition] = field(default_factory=dict)  # group → its condition
    effects: dict[str, list[Effect]] = field(default_factory=dict)  # pod → what to write with its binding
    devices: dict[str, list[int]] = field(default_factory=dict)  # pod → device ids
    shares: dict[str, dict[int, int]] = field(default_factory=dict)  # pod → device id → thousandths of it
    warnings: list[str] = field(default_factory=list)
    again_at: float | None = None  # when a cycle may decide otherwise even if nothing changes

    @property
    def empty(self) -> bool:
        """Whether there is nothing to execute: another cycle over the same cluster would decide the same."""
        return not (self.binds or self.evictions or self.phases or self.promises_changed)

    def annotations_of(self, pod: str) -> dict[str, str]:
        """Returns the annotations to write with the pod's binding."""
        effects = [effect for effect in self.effects.get(pod, ()) if effect.kind == "annotations"]
        return {key: value for effect in effects for key, value in effect.values.items()} if effects else {}

    def claims_of(self, pod: str) -> tuple[tuple[str, Mapping[str, str]], ...]:
        """Returns the claims to bind before the pod, each with its volumeName or selectedNode."""
        return tuple([(effect.key, effect.values) for effect in self.effects.get(pod, ()) if effect.kind == "claim"])
