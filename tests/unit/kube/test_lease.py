"""Leader election: on a clock of the test's own, one lease, several who want it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from aiohttp import web

from fakes.faulty_api import FaultyApi, run
from fakes.lease_simulation import PATH, LeaseServer, LeaseSimulation, play
from muster.kube import Election


def test_the_first_to_come_leads_and_writes_once_anybody_else_would_have_noticed() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a = simulation.candidate("a")
        await simulation.step(a)
        assert a.leading() and a.elected.is_set() and not a.may_write()
        await simulation.step(a, seconds=2)
        assert not a.may_write()
        await simulation.step(a, seconds=1)
        assert a.may_write()

    play(story)


def test_a_lease_that_is_deleted_under_a_leader_never_lets_two_write() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a = simulation.candidate("a")
        for _ in range(5):
            await simulation.step(a, seconds=2)
        simulation.server.lease = None
        fresh = simulation.candidate("b")
        await simulation.step(fresh)
        assert a.may_write() and fresh.leading() and not fresh.may_write()
        await simulation.step(a, seconds=2.4)  # the longest that a leader lets pass between renewals
        assert not a.leading() and not fresh.may_write()
        await simulation.step(fresh, a, seconds=0.6)
        assert fresh.may_write() and not a.leading()

    play(story)


def test_who_knew_a_leader_waits_a_lease_duration_when_its_lease_is_gone() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a, b = simulation.candidate("a"), simulation.candidate("b")
        await simulation.step(a, b)
        simulation.server.lease = None
        await simulation.step(b)
        for _ in range(7):
            await simulation.step(b, seconds=2)
        assert b.leading() and not b.may_write()
        await simulation.step(b, seconds=1)
        assert b.may_write()

    play(story)


def test_a_process_started_again_under_its_name_takes_its_lease_up() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        crashed = simulation.candidate("pod_uid")
        for _ in range(5):
            await simulation.step(crashed, seconds=2)
        again, other = simulation.candidate("pod_uid"), simulation.candidate("other_uid")
        await simulation.step(again, other)
        assert again.leading() and not again.may_write() and again.term == crashed.term + 1
        await simulation.step(again, other, seconds=3)
        assert again.may_write() and not other.leading()

    play(story)


def test_two_that_go_by_one_name_do_not_take_the_lease_from_each_other() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        one = simulation.candidate("same")
        for _ in range(5):
            await simulation.step(one, seconds=2)
        other = simulation.candidate("same")
        await simulation.step(other)
        writers = []
        for _ in range(40):
            await simulation.step(one, seconds=1)
            await simulation.step(other, seconds=1)
            writers.append((one.may_write(), other.may_write()))
        assert set(writers) <= {(False, False), (False, True)} and writers[-1] == (False, True)

    play(story)


def test_a_lease_is_not_given_back_while_calls_are_on_their_way() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a, b = simulation.candidate("a"), simulation.candidate("b")
        for _ in range(5):
            await simulation.step(a, b, seconds=2)
        a.unfinished = True
        await a.release()
        assert not a.leading() and simulation.server.spec["holderIdentity"] == "a"
        await simulation.step(b, seconds=2)
        assert not b.leading()

    play(story)


def test_a_second_one_waits_as_long_as_the_first_renews() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a, b = simulation.candidate("a"), simulation.candidate("b")
        for _ in range(30):
            await simulation.step(a, b, seconds=2)
        assert a.may_write() and not b.leading()
        assert simulation.server.spec["holderIdentity"] == "a"

    play(story)


def test_a_leader_that_cannot_renew_stops_before_another_may_begin() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a, b = simulation.candidate("a"), simulation.candidate("b")
        for _ in range(10):
            await simulation.step(a, b, seconds=2)
        assert a.may_write()
        writers: list[tuple[bool, bool]] = []
        led_at = 0.0
        for _ in range(80):
            await simulation.step(b, seconds=0.5)  # a is cut off: it takes no steps at all
            writers.append((a.may_write(), b.may_write()))
            if b.leading() and not led_at:
                led_at = simulation.clock.now
        assert (True, True) not in writers
        assert writers[0] == (True, False) and writers[-1] == (False, True)
        assert writers.index((False, False)) * 0.5 <= 10.0
        assert b.term == a.term + 1
        # Between the last possible write of the one and the first of the other lies more than a lease duration.
        assert writers.count((False, False)) * 0.5 >= 15.0

    play(story)


def test_without_settling_another_leads_and_writes_when_the_lease_runs_out_and_knows_that_it_took_over() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a, b = (
            simulation.candidate("a"),
            Election(simulation.client, "ns/muster", "b", settle=False, clock=simulation.clock),
        )
        for _ in range(10):
            await simulation.step(a, b, seconds=2)
        assert a.may_write() and not a.taken_over
        for seconds in (9.9, 0.2, 4.8):  # a is cut off; its renew deadline passes, then the lease
            assert not b.leading()
            await simulation.step(b, seconds=seconds)
        assert not a.may_write() and not b.may_write()
        await simulation.step(b, seconds=0.1)
        assert b.may_write() and b.taken_over and not a.may_write()
        await b.release()
        c = simulation.candidate("c")
        await simulation.step(c)
        assert c.may_write() and not c.taken_over

    play(story)


def test_who_stands_by_sees_a_renewal_soon_and_is_there_when_the_lease_runs_out() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a, b = simulation.candidate("a"), simulation.candidate("b")
        await simulation.step(a, b)
        assert b._next_step(simulation.clock.now) <= simulation.clock.now + 0.5
        await simulation.step(b, seconds=14.9)
        assert b._next_step(simulation.clock.now) == pytest.approx(simulation.clock.now + 0.1)
        assert a._next_step(simulation.clock.now) >= simulation.clock.now + 2.0

    play(story)


def test_the_deadline_counts_from_when_the_renewal_was_sent() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a = simulation.candidate("a")
        for _ in range(10):
            await simulation.step(a, seconds=2)
        put = simulation.server._put

        async def slow(request: web.Request) -> web.StreamResponse:
            simulation.clock.now += 9.0  # the answer takes that long
            return await put(request)

        simulation.server.api.plan("PUT", PATH, slow)
        await simulation.step(a)
        assert a.may_write()
        simulation.clock.now += 1.0
        assert not a.may_write()

    play(story)


def test_after_an_outage_the_old_leader_takes_its_own_lease_back_at_once() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a = simulation.candidate("a")
        for _ in range(10):
            await simulation.step(a, seconds=2)
        term = a.term
        simulation.server.away = True
        for _ in range(6):
            await simulation.step(a, seconds=2)
        assert not a.leading() and a.lost.is_set()
        simulation.server.away = False
        await simulation.step(a, seconds=2)
        assert a.may_write() and a.term == term

    play(story)


def test_a_wait_that_was_cut_short_is_waited_to_its_end() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a = simulation.candidate("a")
        b = simulation.candidate("b")
        await simulation.step(b, a)
        await simulation.step(a, seconds=15)  # b has vanished
        simulation.server.away = True
        simulation.clock.now += 11
        await simulation.step(a)
        simulation.server.away = False
        await simulation.step(a)
        assert a.leading() and not a.may_write()
        await simulation.step(a, seconds=4)
        assert a.may_write()

    play(story)


def test_a_lease_given_back_needs_no_waiting() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a, b = simulation.candidate("a"), simulation.candidate("b")
        for _ in range(10):
            await simulation.step(a, b, seconds=2)
        await a.release()
        assert not a.may_write() and simulation.server.spec["holderIdentity"] == ""
        await simulation.step(b)
        assert b.may_write() and b.term == a.term + 1

    play(story)


def test_a_lease_taken_by_another_is_lost_at_the_next_renewal() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a = simulation.candidate("a")
        await simulation.step(a)
        assert simulation.server.lease is not None
        stolen = {**simulation.server.lease, "spec": {**simulation.server.spec, "holderIdentity": "thief"}}
        simulation.server._store(stolen)
        await simulation.step(a, seconds=2)
        assert not a.leading() and not a.elected.is_set() and a.lost.is_set()

    play(story)


def test_a_foreign_label_on_the_lease_does_not_end_a_lead() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a = simulation.candidate("a")
        await simulation.step(a)
        assert simulation.server.lease is not None
        simulation.server._store(simulation.server.lease)  # only the resourceVersion is another
        await simulation.step(a, seconds=2)
        assert a.leading()
        await simulation.step(a, seconds=2)
        for _ in range(5):
            await simulation.step(a, seconds=2)
        assert a.leading()

    play(story)


def test_a_lease_that_was_deleted_is_lost() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a = simulation.candidate("a")
        await simulation.step(a)
        simulation.server.lease = None
        await simulation.step(a, seconds=2)
        assert not a.leading()

    play(story)


def test_of_two_that_come_at_once_one_leads() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        a, b = simulation.candidate("a"), simulation.candidate("b")
        await asyncio.gather(a.step(), b.step())
        assert [a.leading(), b.leading()].count(True) == 1

    play(story)


def test_times_are_written_with_microseconds_as_the_api_wants_them() -> None:
    async def story(simulation: LeaseSimulation) -> None:
        await simulation.step(simulation.candidate("a"))
        assert len(simulation.server.spec["renewTime"]) == len("2026-01-01T00:00:00.000000Z")
        assert simulation.server.spec["leaseDurationSeconds"] == 15

    play(story)


def test_a_deadline_longer_than_the_lease_is_refused() -> None:
    async def story(api: FaultyApi) -> None:
        with pytest.raises(ValueError, match="renew deadline"):
            Election(api.client(), "ns/muster", duration=5, renew_deadline=10)

    run(story)


def test_the_loop_renews_by_itself() -> None:
    async def story(api: FaultyApi) -> None:
        server = LeaseServer(api)
        async with api.client(tries=1) as client:
            election = Election(client, "ns/muster", "a", duration=1.0, renew_deadline=0.6, retry=0.1)
            task = asyncio.create_task(election.run())
            await asyncio.wait_for(election.writable(), 5)
            await asyncio.sleep(0.5)
            assert election.may_write() and server.version > 3
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task  # a renewal may be on its way; the lease is given back after it
            await election.release()
            assert server.spec["holderIdentity"] == ""

    run(story)
