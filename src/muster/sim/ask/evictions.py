"""The evictions that the rules would allow if the configuration had the actions preempt or reclaim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.plan import Eviction
from muster.sim.ask.answer import EVICTIONS, Proposal
from muster.sim.ask.trial import Asked, Trial

__all__ = ["evictions", "for_the_job", "named", "with_victims"]

_ADDED = (("preempt",), ("reclaim",), ("preempt", "reclaim"))
MAX_NAMES = 5


def evictions(asked: Asked) -> Iterator[Proposal]:
    """Yields the action that lets the job run by evictions, if the configuration lacks it."""
    config = asked.scheduler.config
    for added in _ADDED:
        if set(added) & set(config.actions):
            continue
        actions = _with(config, added)
        tried = replace(asked, scheduler=Scheduler(replace(config, actions=actions)))
        trial = tried.try_until_settled()
        victims = for_the_job(trial)
        if trial.runs and victims:
            word = "action" if len(added) == 1 else "actions"
            text = (
                f"Add the {word} {' and '.join(added)} to the configuration of the scheduler (for all jobs): "
                f"{len(victims)} pod{'s'[: len(victims) != 1]} would be evicted for it: {named(victims)}."
            )
            change = {"actions": list(actions), "add": list(added)}
            yield Proposal(EVICTIONS, text, change, ({"actions": ", ".join(actions)},), tuple(victims))
            return


def _with(config: Config, added: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the actions with others after allocate, as in Volcano's examples."""
    actions = list(config.actions)
    at = actions.index("allocate") + 1 if "allocate" in actions else len(actions)
    return (*actions[:at], *added, *actions[at:])


def for_the_job(trial: Trial) -> list[Eviction]:
    """Returns the evictions for pods of the job."""
    ours = {task.key for task in trial.tasks}
    return [eviction for eviction in trial.result.evictions if eviction.by in ours]


def with_victims(proposal: Proposal, trial: Trial) -> Proposal:
    """Returns the proposal with the evictions that its simulation made for the job."""
    victims = for_the_job(trial)
    if not victims:
        return proposal
    count = f"{len(victims)} pod{'s'[: len(victims) != 1]}"
    return replace(proposal, text=f"{proposal.text} Then {count} would be evicted for it: {named(victims)}.",
                   evictions=tuple(victims))  # fmt: skip


def named(victims: list[Eviction]) -> str:
    """Returns the victims with their nodes, the first few."""
    shown = ", ".join(f"{victim.pod} on {victim.node}" for victim in victims[:MAX_NAMES])
    more = len(victims) - MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown
