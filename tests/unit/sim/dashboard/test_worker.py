"""The worker process of the dashboard, a real one: its answers, its time limit, and what happens after it."""

from __future__ import annotations

import asyncio

import pytest

from builders.manifests import node, pod
from fakes.dashboard_site import source_of
from muster.sim.dashboard import worker
from muster.sim.dashboard.worker import Failed, Task, Worker
from muster.sim.inputs import default_config
from muster.sim.sweep.processes import WorkerProcess


def test_it_is_ended_at_its_limit_and_answers_the_next_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "WorkerProcess", WorkerProcess)
    _, given, cycle = source_of([node(), pod("p", cpu=99)]).display.input_at(None)

    async def play() -> None:
        made = Worker()
        try:
            task = Task("explain", default_config(), cycle, "default/p", version=1, input=given)
            made._timeout_s = 0.0
            with pytest.raises(Failed, match="longer than 0 s"):
                await made.run(task)
            made._timeout_s = 60.0
            assert b"Insufficient cpu" in (await made.run(task))["api/explain"].body
            await made.warm_up()
            with pytest.raises(Failed, match="there is no pod default/q"):
                await made.run(Task("explain", default_config(), cycle, "default/q", version=1, input=given))
        finally:
            made.close()

    asyncio.run(play())


def test_too_many_requests_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_WAITING_TASKS", 0)

    async def play() -> None:
        made = Worker()
        with pytest.raises(worker.Busy):
            await made.run(Task("parts", default_config()))
        made.close()

    asyncio.run(play())
