"""The result of a simulation, the comparison of two, and their form in JSON (a contract: the keys are stable)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar, cast

from msgspec import Struct

from muster.cluster.embedded import EmbeddedCluster
from muster.engine.core.hooks import Picture
from muster.engine.core.plan import Eviction
from muster.engine.core.state import State
from muster.model.finding import Finding
from muster.model.meta import Object
from muster.sim.inputs import LoadedConfig
from muster.sim.summary import Amounts, Summary

T = TypeVar("T", bound=Object)
Pair = tuple[str | None, str | None]


class CycleRecord(Struct):
    """What one cycle of a run did. Evictions by controllers belong to the cycle after which they happened."""

    number: int  # 1 is the first
    time: float  # of the virtual clock
    binds: dict[str, str]  # pod → node
    evictions: list[Eviction]
    pending: int  # pods of ours without a node after the cycle
    seconds: float  # how long the cycle took; differs from run to run, so no result may show it


@dataclass(slots=True)
class Result:
    """The decisions of a simulation, and the cluster at its end."""

    cluster: EmbeddedCluster = field(repr=False)
    state: State = field(repr=False)
    binds: dict[str, str] = field(default_factory=dict)  # placements of this run that exist at its end
    pipelined: dict[str, str] = field(default_factory=dict)
    evictions: list[Eviction] = field(default_factory=list)  # all, in order
    pending: dict[str, str] = field(default_factory=dict)  # every pod of ours without a node → why
    devices: dict[str, list[int]] = field(default_factory=dict)
    shares: dict[str, dict[int, int]] = field(default_factory=dict)  # pod → device → thousandths of it
    cycles: int = 0
    history: list[CycleRecord] = field(default_factory=list, repr=False)  # one per cycle
    summary: Summary = field(default_factory=Summary)
    pictures: dict[str, list[Picture]] = field(default_factory=dict, repr=False)  # node → its devices, for the report
    configuration: LoadedConfig | None = field(default=None, repr=False)
    findings: list[Finding] = field(default_factory=list)  # in the manifests and in the configuration

    def of(self, kind: type[T]) -> Mapping[str, T]:
        """Returns the objects of a kind (neither pods nor nodes) at the end, by key. A live cluster has them, too."""
        return cast("Mapping[str, T]", self.state.objects[kind.__name__])

    def to_dict(self) -> dict[str, object]:
        """Returns what `muster simulate -o json` prints."""
        summary = self.summary.to_dict()
        if self.configuration is not None:
            summary["configuration"] = self.configuration.to_dict()
        return {**self.decisions(), "summary": summary}

    def devices_of(self, pod: str) -> str:
        """Returns the pod's devices for people: `0, 1`, or `2 (460/1000)` for a part of a device."""
        shares = self.shares.get(pod, {})
        whole = (f"{i} ({shares[i]}/1000)" if shares.get(i, 1000) < 1000 else str(i) for i in self.devices.get(pod, ()))
        return ", ".join(whole)

    def decisions(self) -> dict[str, object]:
        """Returns the decisions and the figures, without the configuration that led to them."""
        return {
            "binds": dict(sorted(self.binds.items())),
            "pipelined": dict(sorted(self.pipelined.items())),
            "evicts": [eviction.pod for eviction in self.evictions],
            "evictions": [plain_eviction(eviction) for eviction in self.evictions],
            "pending": dict(sorted(self.pending.items())),
            "devices": dict(sorted(self.devices.items())),
            "shares": {
                pod: {str(i): parts for i, parts in sorted(of.items())} for pod, of in sorted(self.shares.items())
            },
            "cycles": self.cycles,
            "summary": self.summary.to_dict(),
        }


class Comparison(Struct, frozen=True):
    """Compares two simulations: placements, fragmentation, shares of queues, pending pods.

    They have different configurations or different inputs.
    """

    names: tuple[str, str]  # of the configurations or of the inputs
    first: Result
    second: Result

    @property
    def placements(self) -> dict[str, Pair]:
        """Returns the pods that are on different nodes at the end: their node in each run, or None."""
        return _differing(self.first.binds, self.second.binds)

    @property
    def pending(self) -> dict[str, Pair]:
        """Returns the pods that are pending in one run only, or for different reasons."""
        return _differing(self.first.pending, self.second.pending)

    @property
    def evicts(self) -> tuple[list[str], list[str]]:
        """Returns the evictions of only the first run and those of only the second."""
        one, two = ([e.pod for e in run.evictions] for run in (self.first, self.second))
        return [pod for pod in one if pod not in set(two)], [pod for pod in two if pod not in set(one)]

    @property
    def fragmentation(self) -> dict[str, tuple[float | None, float | None]]:
        one, two = self.first.summary.fragmentation, self.second.summary.fragmentation
        return {name: (one.get(name), two.get(name)) for name in sorted({*one, *two})}

    @property
    def allocated(self) -> dict[str, tuple[Amounts, Amounts]]:
        """Returns what each queue has allocated at the end of each run."""
        one, two = self.first.summary.queues, self.second.summary.queues
        return {name: (one[name].allocated, two[name].allocated) for name in sorted({*one} & {*two})}

    def to_dict(self, by_group: Mapping[str, object] = MappingProxyType({})) -> dict[str, object]:
        """Returns the first run's decisions, the other's under `other`, and where they differ: [first, second].

        `by_group` is `plain_groups` of the difference by group.
        """
        one, two = self.first.decisions(), self.second.decisions()
        shares = [run.summary.queues for run in (self.first, self.second)]
        pair = [run.configuration for run in (self.first, self.second)]
        used = [one.to_dict() for one in pair if one is not None]
        return {
            **one,
            "other": two,
            "differences": {
                "configurations": list(self.names),
                "placements": {pod: list(pair) for pod, pair in self.placements.items()},
                "pending": {pod: list(pair) for pod, pair in self.pending.items()},
                "evicts": list(self.evicts),
                "fragmentation": {
                    name: [None if x is None else round(x, 6) for x in pair]
                    for name, pair in self.fragmentation.items()
                },
                "queues": {name: [share[name].to_dict()["allocated"] for share in shares] for name in self.allocated},
                **by_group,
            },
            **({"configurations": used} if used else {}),
        }


def _differing(one: dict[str, str], two: dict[str, str]) -> dict[str, Pair]:
    return {pod: (one.get(pod), two.get(pod)) for pod in sorted({*one, *two}) if one.get(pod) != two.get(pod)}


def plain_eviction(eviction: Eviction) -> dict[str, str]:
    """Returns an eviction as every command prints it with -o json."""
    return {"pod": eviction.pod, "node": eviction.node, "for": eviction.by, "by": eviction.rule}
