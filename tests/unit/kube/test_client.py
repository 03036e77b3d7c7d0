"""The client: what is retried and what is not, limits, the gate, errors with the server's own message."""

from __future__ import annotations

import asyncio

import pytest

from fakes.faulty_api import FaultyApi, drip, hang_up, raw, refuse, reply, run, stall
from muster import store
from muster.kube import Client, Limits
from muster.store import errors

PATH = "/api/v1/pods"


def test_an_answer_is_its_bytes() -> None:
    async def story(api: FaultyApi) -> bytes:
        api.plan("GET", PATH, raw(b'{"a": 1}'))
        async with api.client() as client:
            return await client.request("GET", PATH, params={"limit": "5"})

    assert run(story) == b'{"a": 1}'


def test_the_authorization_of_the_official_client_goes_with_every_call() -> None:
    async def story(api: FaultyApi) -> str:
        api.plan("GET", PATH, reply({}))
        async with Client(api.access("abc")) as client:
            await client.request("GET", PATH)
        return api.asked[0].headers["Authorization"]

    assert run(story) == "Bearer abc"


@pytest.mark.parametrize(
    ("code", "reason", "kind", "also"),
    [
        (400, "BadRequest", errors.BadRequest, store.ApiError),
        (401, "Unauthorized", errors.Unauthorized, store.ApiError),
        (403, "Forbidden", errors.Forbidden, store.ApiError),
        (404, "NotFound", errors.NotFound, store.NotFound),
        (409, "Conflict", errors.Conflict, store.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists, store.AlreadyExists),
        (410, "Gone", errors.Gone, store.Gone),
        (410, "Expired", errors.Gone, store.Gone),
        (413, "RequestEntityTooLarge", errors.TooLarge, store.ApiError),
        (422, "Invalid", errors.Invalid, store.ApiError),
    ],
)
def test_a_refusal_has_its_type_and_the_servers_message(
    code: int, reason: str, kind: type[errors.ApiError], also: type[store.ApiError]
) -> None:
    async def story(api: FaultyApi) -> errors.ApiError:
        api.plan("GET", PATH, refuse(code, reason, "because of that"))
        async with api.client() as client:
            with pytest.raises(kind) as caught:
                await client.request("GET", PATH)
        assert len(api.asked) == 1
        return caught.value

    error = run(story)
    assert isinstance(error, also)
    assert str(error) == f"GET {PATH}: because of that"
    assert (error.code, error.reason, error.maybe_done) == (code, reason, False)


def test_a_proxys_page_in_place_of_a_status_is_reported_shortly() -> None:
    async def story(api: FaultyApi) -> str:
        api.plan("GET", PATH, raw(b"<html>\n bad gateway " + b"x" * 9999, 502))
        async with api.client(tries=1) as client:
            with pytest.raises(errors.ServerFault) as caught:
                await client.request("GET", PATH)
        return str(caught.value)

    text = run(story)
    assert "bad gateway" in text
    assert len(text) < 300


def test_429_is_tried_again_after_the_time_the_server_asks_for() -> None:
    async def story(api: FaultyApi) -> float:
        api.plan("POST", PATH, refuse(429, "TooManyRequests", "later", retry_after="1"), reply({}))
        async with api.client() as client:
            await client.request("POST", PATH, body={})
        return api.asked[1].at - api.asked[0].at

    assert 1.0 <= run(story) < 2.0


def test_429_with_a_longer_wait_than_we_have_is_the_answer() -> None:
    async def story(api: FaultyApi) -> float | None:
        api.plan("POST", PATH, refuse(429, "TooManyRequests", "much later", retry_after="3600"))
        async with api.client() as client:
            with pytest.raises(errors.TooManyRequests) as caught:
                await client.request("POST", PATH, body={})
        assert len(api.asked) == 1
        return caught.value.retry_after

    assert run(story) == 3600.0


def test_a_budgets_refusal_is_not_tried_again_and_says_which_budget() -> None:
    details = {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget b needs 3 healthy pods"}]}

    async def story(api: FaultyApi) -> str:
        api.plan("POST", PATH, refuse(429, "TooManyRequests", "Cannot evict.", details=details))
        async with api.client() as client:
            with pytest.raises(errors.BudgetRefused) as caught:
                await client.request("POST", PATH, body={}, repeatable=True)
        assert len(api.asked) == 1
        return caught.value.message

    assert run(story) == "Cannot evict. The disruption budget b needs 3 healthy pods"


@pytest.mark.parametrize(("method", "sent"), [("GET", 3), ("PUT", 3), ("DELETE", 3), ("POST", 1), ("PATCH", 1)])
def test_a_server_fault_is_tried_again_only_where_twice_does_no_harm(method: str, sent: int) -> None:
    async def story(api: FaultyApi) -> errors.ApiError:
        api.plan(method, PATH, refuse(500, "InternalError", "etcd is away"))
        async with api.client(tries=3) as client:
            with pytest.raises(errors.ServerFault) as caught:
                await client.request(method, PATH)
        assert len(api.asked) == sent
        return caught.value

    assert run(story).maybe_done


def test_a_cut_connection_is_survived_by_a_repeatable_call() -> None:
    async def story(api: FaultyApi) -> bytes:
        api.plan("POST", PATH, hang_up(), hang_up(), raw(b"{}"))
        async with api.client() as client:
            return await client.request("POST", PATH, body={}, repeatable=True)

    assert run(story) == b"{}"


@pytest.mark.parametrize(("answers", "undecided"), [([hang_up()], True), ([], False)], ids=["cut", "refused at once"])
def test_a_refusal_after_a_cut_connection_leaves_the_call_undecided(answers: list[object], undecided: bool) -> None:
    async def story(api: FaultyApi) -> errors.ApiError:
        api.plan("POST", PATH, *answers, refuse(403, "Forbidden", "no"))
        async with api.client() as client:
            with pytest.raises(errors.Forbidden) as caught:
                await client.request("POST", PATH, body={}, repeatable=True)
        return caught.value

    assert run(story).maybe_done is undecided


def test_a_cut_connection_leaves_any_other_call_undecided() -> None:
    async def story(api: FaultyApi) -> errors.ApiError:
        api.plan("POST", PATH, hang_up())
        async with api.client() as client:
            with pytest.raises(errors.Unreachable) as caught:
                await client.request("POST", PATH, body={})
        return caught.value

    assert run(story).maybe_done


def test_a_server_that_is_not_there_was_surely_sent_nothing() -> None:
    async def story(api: FaultyApi) -> errors.ApiError:
        access = api.access()
        await api.__aexit__()
        async with Client(access, limits=Limits(tries=2)) as client:
            with pytest.raises(errors.Unreachable) as caught:
                await client.request("POST", PATH, body={})
        api._runner = None
        await api.__aenter__()
        return caught.value

    assert not run(story).maybe_done


def test_an_answer_that_does_not_come_in_time_is_an_error() -> None:
    async def story(api: FaultyApi) -> errors.ApiError:
        api.plan("GET", PATH, stall(10))
        async with api.client(tries=1) as client:
            with pytest.raises(errors.TimedOut) as caught:
                await client.request("GET", PATH, seconds=0.2)
        return caught.value

    assert run(story).maybe_done


@pytest.mark.parametrize("answer", [raw(b"x" * 2000), drip(b"x" * 100, 20)], ids=["with length", "without length"])
def test_an_answer_over_the_limit_is_not_read_to_its_end(answer: object) -> None:
    async def story(api: FaultyApi) -> None:
        api.plan("GET", PATH, answer)  # type: ignore[arg-type]
        async with api.client(answer_bytes=1000) as client:
            with pytest.raises(errors.TooLarge):
                await client.request("GET", PATH)

    run(story)


def test_a_request_over_the_limit_is_not_sent() -> None:
    async def story(api: FaultyApi) -> int:
        async with api.client(request_bytes=1000) as client:
            with pytest.raises(errors.TooLarge):
                await client.request("POST", PATH, body={"a": "x" * 2000})
        return len(api.asked)

    assert run(story) == 0


def test_behind_a_closed_gate_reading_goes_on_and_writing_does_not() -> None:
    async def story(api: FaultyApi) -> list[str]:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            api.plan(method, PATH, reply({}))
        async with Client(api.access(), gate=lambda: False) as client:
            await client.request("GET", PATH)
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                with pytest.raises(errors.GateClosed) as caught:
                    await client.request(method, PATH)
                assert not caught.value.maybe_done
            await client.request("PUT", PATH, urgent=True)
        return [one.method for one in api.asked]

    assert run(story) == ["GET", "PUT"]


def test_the_gate_is_asked_again_before_each_retry() -> None:
    async def story(api: FaultyApi) -> int:
        still_leading = [True, False]
        api.plan("PUT", PATH, refuse(503, "ServiceUnavailable", "starting"))
        async with Client(api.access(), gate=lambda: still_leading.pop(0)) as client:
            with pytest.raises(errors.GateClosed):
                await client.request("PUT", PATH)
        return len(api.asked)

    assert run(story) == 1


def test_the_gate_is_asked_after_the_wait_for_a_slot() -> None:
    async def story(api: FaultyApi) -> int:
        leading = [True]
        api.plan("PUT", PATH, stall(0.3))
        client = Client(api.access(), limits=Limits(writes_at_once=1), gate=lambda: leading[0])
        async with client:
            first = asyncio.create_task(client.request("PUT", PATH))
            second = asyncio.create_task(client.request("PUT", PATH))
            await asyncio.sleep(0.1)
            leading[0] = False
            await first
            with pytest.raises(errors.GateClosed):
                await second
        return len(api.asked)

    assert run(story) == 1


def test_no_more_writes_are_in_flight_than_allowed_and_an_urgent_call_waits_behind_none() -> None:
    async def story(api: FaultyApi) -> tuple[int, int]:
        api.plan("PUT", PATH, stall(0.3))
        api.plan("PUT", "/lease", reply({}))
        async with api.client(writes_at_once=3) as client:
            crowd = [asyncio.create_task(client.request("PUT", PATH)) for _ in range(10)]
            await asyncio.sleep(0.1)
            in_flight = len(api.asked)
            await asyncio.wait_for(client.request("PUT", "/lease", urgent=True), 0.15)
            await asyncio.gather(*crowd)
        return in_flight, api.count("PUT", PATH)

    assert run(story) == (3, 10)
