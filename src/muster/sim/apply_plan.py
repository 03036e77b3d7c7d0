"""What changes if manifests are applied to a cluster: the objects, and the scheduler's decisions by group.

Two simulations are compared: of the cluster as it is, and of the cluster with the manifests.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from muster.sim.applied import ObjectChange
from muster.sim.difference import Difference

__all__ = ["ApplyPlan"]


@dataclass(slots=True)
class ApplyPlan:
    """The objects that are created or changed, and what the scheduler decides otherwise because of them."""

    changes: list[ObjectChange]
    difference: Difference
    unchanged: int = 0  # objects of the manifests that are in the cluster as they are
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        """Returns what `muster plan -o json` prints."""
        plain: dict[str, object] = {
            "objects": [change.to_dict() for change in self.changes],
            "unchanged": self.unchanged,
            **self.difference.to_dict(),
            "warnings": self.warnings,
        }
        configuration = self.difference.second.configuration
        return plain if configuration is None else {**plain, "configuration": configuration.to_dict()}
