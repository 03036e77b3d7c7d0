"""The result that shows a cluster as it is: its state, and the decisions of a cycle that is not applied."""

from __future__ import annotations

from collections.abc import Iterable

from muster.cluster.embedded import EmbeddedCluster
from muster.cycle.requirements import warnings
from muster.engine.core.jobs import Task
from muster.engine.core.plan import Eviction, Plan
from muster.engine.core.session import silent
from muster.engine.core.state import State
from muster.sim.inputs import LoadedConfig
from muster.sim.result import CycleRecord, Result
from muster.sim.simulate import fill_summary

MAX_EVICTIONS = 1000
COMPUTED = "(computed now: the scheduler has not written a reason yet)"


def observed(
    config: LoadedConfig, state: State, now: float, history: Iterable[CycleRecord] = (), *, written: bool = False
) -> Result:
    """Returns the cluster as it is. `history` are the cycles that led to it.

    With `written`, a pod waits for the reason that the running scheduler wrote on it, if there is one.
    """
    plan = config.scheduler.cycle(state, now)
    result = Result(EmbeddedCluster({}, now), state)
    result.configuration = config
    result.findings = list(config.findings)
    result.history = list(history)
    result.cycles = result.history[-1].number if result.history else 0
    result.evictions = [eviction for record in result.history for eviction in record.evictions][-MAX_EVICTIONS:]
    victims: dict[str, list[Eviction]] = {}
    for eviction in plan.evictions:
        victims.setdefault(eviction.by, []).append(eviction)
    for key, task in state.tasks.items():
        if state.needs_node(task):
            message = _written(task) if written else ""
            text = message or _planned(key, plan, victims.get(key, []))
            result.pending[key] = f"{text} {COMPUTED}" if written and not message else text
    result.pipelined = {key: node for key, node in plan.pipelined.items() if key in result.pending}
    fill_summary(result, config.scheduler, now)
    result.summary.settled = plan.empty
    found = [*warnings(config.scheduler.config, state, silent), *plan.warnings, *config.warnings]
    result.summary.warnings = list(dict.fromkeys(found))
    return result


def _written(task: Task) -> str:
    """Returns the message of the pod's condition PodScheduled, which its scheduler writes; empty if there is none."""
    for condition in task.pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False" and condition.reason != "SchedulingGated":
            return condition.message
    return ""


def _planned(key: str, plan: Plan, victims: list[Eviction]) -> str:
    if (node := plan.binds.get(key)) is not None:
        return f"the next cycle binds it to {node}"
    if victims:
        pods = ", ".join(victim.pod for victim in victims[:3]) + (" …" if len(victims) > 3 else "")
        return f"the next cycle evicts {len(victims)} pods for it by {victims[0].rule}: {pods}"
    reason = plan.reasons.get(key)
    return reason.text if reason is not None else "waits for its first cycle"
