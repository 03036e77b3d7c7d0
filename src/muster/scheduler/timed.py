"""A scheduler whose actions and plugins are timed: the pure rooms read no clock, so it is done from outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from muster.cycle.scheduler import Scheduler
from muster.engine.core.session import Session
from muster.scheduler.metrics import Metrics

Step = Callable[[Session], None]
S = TypeVar("S", bound=Session)


def timed(scheduler: Scheduler, metrics: Metrics) -> Scheduler:
    """Times every action and every plugin's opening and closing. The scheduler is changed: time it once."""
    scheduler.actions = [(name, _timed(run, metrics.action_ms.labels(name).observe)) for name, run in scheduler.actions]
    for plugin in (plugin for tier in scheduler.tiers for plugin in tier):
        for event, method in (("OnSessionOpen", "open"), ("OnSessionClose", "close")):
            observe = metrics.plugin_ms.labels(plugin.name, event).observe
            setattr(plugin, method, _timed(getattr(plugin, method), observe))
    return scheduler


def _timed(step: Step, observe: Callable[[float], None]) -> Step:
    def measured(session: Session) -> None:
        begin = time.perf_counter()
        step(session)
        observe((time.perf_counter() - begin) * 1000)

    return measured
