"""Predicts what the controllers of node group management would do to a cluster, by simulation.

The simulation starts with the cluster as it is and the changes applied to it. Replacements of evicted pods are created
and placed, so that evictions that wait for one another all appear in the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.cluster.embedded import EmbeddedCluster
from muster.cycle.scheduler import Scheduler
from muster.engine.core.session import silent
from muster.engine.core.state import State
from muster.groupctl.controllers.dry_run import Write
from muster.model.core import Pod
from muster.model.meta import Object
from muster.sim.group_controllers import GroupControllers
from muster.sim.simulate import Run

# The writes that matter to users; statuses and annotations are left out.
SHOWN = ("evict", "images", "patch", "delete")


@dataclass(slots=True)
class ControllerPlan:
    """The predicted writes in order, and the state at the end."""

    began: float
    steps: list[Write] = field(default_factory=list)
    pending: dict[str, str] = field(default_factory=dict)
    settled: bool = False
    warnings: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        return {
            "steps": [
                {
                    "at": round(step.at - self.began, 3), "verb": step.verb, "kind": step.kind, "object": step.key,
                    "text": step.text,
                }
                for step in self.steps
            ],
            "counts": dict(sorted(Counter(step.verb for step in self.steps).items())),
            "pending": self.pending,
            "settled": self.settled,
        }  # fmt: skip


def plan(
    scheduler: Scheduler, objects: Mapping[str, Mapping[str, Object]], now: float, *, webhook: bool = False
) -> ControllerPlan:
    """Simulates until the cluster is settled. `webhook`: a webhook is alive that creates pods in their edition."""
    found = ControllerPlan(now)

    def on_write(written: Write) -> None:
        if written.verb in SHOWN:
            found.steps.append(written)

    cluster = EmbeddedCluster(objects, now)
    cluster.join(GroupControllers(cluster, on_write, webhook=webhook))
    state = State(_scheduler_names(objects))
    cluster.follow(state)
    run = Run(scheduler, cluster, state, silent)
    run.until_settled(None)
    result = run.finish()
    found.pending = dict(result.pending)
    found.settled = result.summary.settled
    found.warnings = list(result.summary.warnings)
    return found


def _scheduler_names(objects: Mapping[str, Mapping[str, Object]]) -> Iterable[str]:
    """Returns the names of all schedulers in the cluster: the simulation decides for each of them."""
    named = {pod.spec.scheduler_name for pod in objects.get("Pod", {}).values() if isinstance(pod, Pod)}
    return sorted({"default-scheduler", "muster", "volcano", *named})
