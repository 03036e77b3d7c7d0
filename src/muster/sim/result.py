"""The result of a simulation, and its form in JSON (a contract: the keys are stable)."""

from __future__ import annotations

from dataclasses import dataclass, field

from muster.cluster.embedded import EmbeddedCluster
from muster.engine.core.hooks import Picture
from muster.engine.core.plan import Eviction
from muster.engine.core.state import State
from muster.model.finding import Finding
from muster.sim.inputs import LoadedConfig
from muster.sim.summary import Summary


@dataclass(slots=True)
class Result:
    """The decisions of a simulation, and the cluster at its end."""

    cluster: EmbeddedCluster = field(repr=False)
    state: State = field(repr=False)
    binds: dict[str, str] = field(default_factory=dict)  # placements made by this run that stand at its end
    pipelined: dict[str, str] = field(default_factory=dict)
    evictions: list[Eviction] = field(default_factory=list)  # all, in order
    pending: dict[str, str] = field(default_factory=dict)  # every pod of ours without a node → why
    devices: dict[str, list[int]] = field(default_factory=dict)
    cycles: int = 0
    summary: Summary = field(default_factory=Summary)
    pictures: dict[str, list[Picture]] = field(default_factory=dict, repr=False)  # node → its devices, for the report
    configuration: LoadedConfig | None = field(default=None, repr=False)
    findings: list[Finding] = field(default_factory=list)  # in the manifests and in the configuration

    def to_dict(self) -> dict[str, object]:
        """Returns what `muster simulate -o json` prints."""
        summary = self.summary.to_dict()
        if self.configuration is not None:
            summary["configuration"] = self.configuration.to_dict()
        return {**self.decisions(), "summary": summary}

    def decisions(self) -> dict[str, object]:
        """Returns the decisions and the figures, without the configuration that led to them."""
        return {
            "binds": dict(sorted(self.binds.items())),
            "pipelined": dict(sorted(self.pipelined.items())),
            "evicts": [eviction.pod for eviction in self.evictions],
            "evictions": [{"pod": e.pod, "node": e.node, "for": e.by, "by": e.rule} for e in self.evictions],
            "pending": dict(sorted(self.pending.items())),
            "devices": dict(sorted(self.devices.items())),
            "cycles": self.cycles,
            "summary": self.summary.to_dict(),
        }
