"""What is kept while another replica leads, and when a term begins with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from muster.process.logs import Log
from muster.scheduler.standby import Standby


class Prepared:
    """Counts what is prepared and ended; `keep_up` is what the loop does while another leads."""

    def __init__(self, keep_up: Callable[[object], Any]) -> None:
        self.made = self.ended = self.faults = 0
        self._keep_up = keep_up
        self.standby = Standby(self._prepare, Log(-1), self._fault)

    def _fault(self) -> None:
        self.faults += 1

    @asynccontextmanager
    async def _prepare(self, client: object) -> AsyncIterator[Any]:
        self.made += 1
        try:
            yield SimpleNamespace(number=self.made, loop=SimpleNamespace(keep_up=self._keep_up), stream=None)
        finally:
            self.ended += 1

    async def led(self, *, warm: bool) -> int:
        """Stand by, then lead: the number of what the term begins with."""
        async with self.standby.while_another_leads(None):  # type: ignore[arg-type]
            for _ in range(5):
                await asyncio.sleep(0)
        async with self.standby.for_term(None, warm=warm) as ready:  # type: ignore[arg-type]
            number: int = ready.number  # type: ignore[attr-defined]
            assert self.made - self.ended == 1, "only one of them follows the cluster"
        assert self.made == self.ended
        return number


async def for_ever(stream: object) -> None:
    await asyncio.Event().wait()


async def breaks(stream: object) -> None:
    raise RuntimeError("a fault of ours")


def test_a_term_after_a_dead_leader_uses_the_caches_of_the_standby() -> None:
    prepared = Prepared(for_ever)
    assert asyncio.run(prepared.led(warm=True)) == 1
    assert (prepared.made, prepared.faults) == (1, 0)


def test_any_other_term_reads_the_cluster_again() -> None:
    assert asyncio.run(Prepared(for_ever).led(warm=False)) == 2


def test_a_standby_that_failed_is_not_used() -> None:
    prepared = Prepared(breaks)
    assert asyncio.run(prepared.led(warm=True)) == 2
    assert prepared.faults == 1


def test_every_term_of_a_process_has_its_own_scheduler() -> None:
    async def terms(prepared: Prepared) -> list[int]:
        return [await prepared.led(warm=True) for _ in range(3)]

    assert asyncio.run(terms(Prepared(for_ever))) == [1, 2, 3]
