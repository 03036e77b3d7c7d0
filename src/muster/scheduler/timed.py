"""Measures actions and the opening and closing of plugins for the scheduler's metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from muster.engine.core.session import ACTION, Measure
from muster.scheduler.metrics import Metrics


def measured(metrics: Metrics) -> Measure:
    """The engine reads no clock: it names the step, and the time is taken here."""

    @contextmanager
    def measure(part: str, step: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        milliseconds = (time.perf_counter() - begin) * 1000
        if step == ACTION:
            metrics.action_ms.labels(part).observe(milliseconds)
        else:
            metrics.plugin_ms.labels(part, step).observe(milliseconds)

    return measure
