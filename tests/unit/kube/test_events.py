"""Events: counted together, held back, never in anybody's way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fakes.faulty_api import FaultyApi, hang_up, refuse, reply, run, stall, until
from muster.kube import Recorder
from muster.model.core import Node, Pod
from muster.model.meta import ObjectMeta
from muster.store import Severity

PATH = "/api/v1/namespaces/ns/events"
POD = Pod(metadata=ObjectMeta(name="a", namespace="ns", uid="u"))


def record(story: Any, **settings: Any) -> Any:
    async def play(api: FaultyApi) -> Any:
        now = [1_700_000_000.0]
        async with api.client(tries=1) as client:
            recorder = Recorder(client, "muster", "muster-0", clock=lambda: now[0], **settings)
            task = asyncio.create_task(recorder.run())
            answer = await story(api, recorder, now)
            task.cancel()
            return answer

    return run(play)


def say(recorder: Recorder, message: str = "no room", obj: Any = POD) -> None:
    recorder.record(obj, Severity.WARNING, "FailedScheduling", message)


def test_an_event_says_what_about_whom() -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", PATH, reply({}, 201))
        say(recorder)
        await until(lambda: recorder.sent == 1)
        return api.asked[0].body

    body = record(story)
    assert body["involvedObject"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "a", "uid": "u"}
    assert (body["type"], body["reason"], body["message"]) == ("Warning", "FailedScheduling", "no room")
    assert (body["count"], body["source"]) == (1, {"component": "muster"})
    assert body["metadata"]["name"].startswith("a.")


def test_an_equal_event_is_counted_once_more() -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", PATH, reply({}, 201))
        say(recorder)
        await until(lambda: recorder.sent == 1)
        place = f"{PATH}/{api.asked[0].body['metadata']['name']}"
        api.plan("PATCH", place, reply({}))
        say(recorder)
        say(recorder)
        await until(lambda: recorder.sent == 2)
        return [(one.method, one.body["count"]) for one in api.asked]

    assert record(story) == [("POST", 1), ("PATCH", 3)]


def test_an_event_the_cluster_has_forgotten_is_made_anew() -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", PATH, reply({}, 201))
        for n in (1, 2):
            say(recorder)
            await until(lambda n=n: recorder.sent == n)
        return [one.method for one in api.asked]

    assert record(story) == ["POST", "PATCH", "POST"]


def test_an_event_of_long_ago_is_another_one() -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", PATH, reply({}, 201))
        say(recorder)
        await until(lambda: recorder.sent == 1)
        now[0] += 3600
        say(recorder)
        await until(lambda: recorder.sent == 2)
        return [one.method for one in api.asked]

    assert record(story) == ["POST", "POST"]


def test_events_of_a_busy_object_are_limited_and_those_of_others_are_not() -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", PATH, reply({}, 201))
        for n in range(100):
            say(recorder, f"message {n}")
        say(recorder, obj=Pod(metadata=ObjectMeta(name="b", namespace="ns", uid="v")))
        await until(lambda: recorder.sent == 26)
        held_back = recorder.dropped
        now[0] += 300
        say(recorder, "message later")
        await until(lambda: recorder.sent == 27)
        return held_back

    assert record(story) == 75


def test_nobody_waits_and_nothing_grows_while_the_server_does_not_answer() -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", PATH, stall(30))
        for n in range(1000):
            say(recorder, obj=Pod(metadata=ObjectMeta(name=f"p{n}", namespace="ns", uid=f"u{n}")))
        await asyncio.sleep(0.1)
        return recorder.dropped

    assert record(story, waiting=100) == 900


def flood(recorder: Recorder, count: int) -> None:
    for n in range(count):
        say(recorder, obj=Pod(metadata=ObjectMeta(name=f"p{n}", namespace="ns", uid=f"u{n}")))


def test_events_wait_while_calls_that_matter_more_are_under_way() -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", PATH, stall(30))
        busy = [True]
        recorder.busy = lambda: busy[0]
        flood(recorder, 20)
        await asyncio.sleep(0.1)
        while_busy, busy[0] = len(api.asked), False
        await until(lambda: len(api.asked) > 0)
        await asyncio.sleep(0.1)
        return while_busy, len(api.asked)

    assert record(story) == (0, 8)


@pytest.mark.parametrize(("seconds", "senders"), [(9, 0), (11, 1), (15, 4), (20, 8), (100, 8)])
def test_the_longer_events_wait_the_more_are_sent_at_a_time_while_busy(seconds: int, senders: int) -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", PATH, stall(30))
        recorder.busy = lambda: True
        flood(recorder, 20)
        now[0] += seconds
        await asyncio.sleep(0.4)
        return len(api.asked)

    assert record(story) == senders


@pytest.mark.parametrize(("waiting", "senders"), [(50, 0), (51, 1), (75, 4), (100, 8)])
def test_the_more_events_wait_the_more_are_sent_at_a_time_while_busy(waiting: int, senders: int) -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", PATH, stall(30))
        recorder.busy = lambda: True
        flood(recorder, waiting)
        await asyncio.sleep(0.1)
        return len(api.asked)

    # The first sender takes an event, and one fewer waits when the next sender is counted.
    assert abs(record(story, waiting=100) - senders) <= (senders > 1)


def test_an_event_that_waited_says_when_it_happened() -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", PATH, reply({}, 201))
        busy = [True]
        recorder.busy = lambda: busy[0]
        say(recorder)
        now[0] += 5
        say(recorder)
        now[0] += 3
        busy[0] = False
        await until(lambda: recorder.sent == 1)
        return api.asked[0].body

    body = record(story)
    times = body["firstTimestamp"], body["lastTimestamp"]
    assert (*times, body["count"]) == ("2023-11-14T22:13:20Z", "2023-11-14T22:13:25Z", 2)


def test_a_refused_event_is_dropped_and_the_next_is_sent() -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        terminating = refuse(403, "Forbidden", "because it is being terminated")
        api.plan("POST", PATH, terminating, hang_up(), hang_up(), hang_up(), reply({}, 201))
        for n in range(3):
            say(recorder, f"message {n}")
            await until(lambda n=n: recorder.sent + recorder.dropped == n + 1, 10)
        return recorder.dropped, recorder.sent

    assert record(story) == (2, 1)


def test_an_event_about_a_cluster_wide_object_goes_to_the_default_namespace() -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", "/api/v1/namespaces/default/events", reply({}, 201))
        say(recorder, obj=Node(metadata=ObjectMeta(name="n1", uid="n")))
        await until(lambda: recorder.sent == 1)
        return api.asked[0].body["metadata"]["namespace"], "namespace" in api.asked[0].body["involvedObject"]

    assert record(story) == ("default", False)


def test_a_message_is_cut_to_what_the_api_takes() -> None:
    async def story(api: FaultyApi, recorder: Recorder, now: list[float]) -> Any:
        api.plan("POST", PATH, reply({}, 201))
        say(recorder, "x" * 5000)
        await until(lambda: recorder.sent == 1)
        return len(api.asked[0].body["message"])

    assert record(story) == 1024


def test_what_is_left_is_sent_at_the_end() -> None:
    async def story(api: FaultyApi) -> int:
        api.plan("POST", PATH, reply({}, 201))
        async with api.client() as client:
            recorder = Recorder(client, "muster", "muster-0")
            for n in range(5):
                say(recorder, f"message {n}")
            await recorder.close()
            return recorder.sent

    assert run(story) == 5
