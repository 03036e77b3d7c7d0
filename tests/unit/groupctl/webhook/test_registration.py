"""The webhook configurations that muster makes and keeps."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from fakes.faulty_api import FaultyApi, refuse, run
from muster.cli.install import PARTS, Settings, part_objects
from muster.groupctl.webhook.registration import Endpoint, NotRegistered, configurations, register
from muster.process.certificates import issue

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MADE = issue(["x"], lambda: NOW).authority
OTHER = issue(["x"], lambda: NOW).authority
ENDPOINT = Endpoint(service="home/muster-webhook")


class Stored:
    """Objects by path, as an API server keeps them: fields that were left out are filled in."""

    def __init__(self, api: FaultyApi) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.writes = 0
        for path, wanted in configurations(ENDPOINT):
            one = f"{path}/{wanted['metadata']['name']}"
            api.plan("POST", path, self._write(one, "POST"))
            api.plan("PUT", one, self._write(one, "PUT"))
            api.plan("GET", one, self._read(one))

    def _write(self, path: str, method: str) -> Any:
        async def answer(request: web.Request) -> web.Response:
            self.writes += 1
            self.objects[path] = await request.json()
            for hook in self.objects[path]["webhooks"]:
                hook.setdefault("matchPolicy", "Equivalent")
            return web.json_response(self.objects[path])

        return answer

    def _read(self, path: str) -> Any:
        async def answer(request: web.Request) -> web.Response:
            if path not in self.objects:
                status = {"kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": "x"}}
                return web.json_response(status, status=404)
            return web.json_response(self.objects[path])

        return answer

    def trusted(self) -> set[bytes]:
        hooks = [hook for obj in self.objects.values() for hook in obj["webhooks"]]
        return {base64.b64decode(hook["clientConfig"]["caBundle"]) for hook in hooks}


def test_it_is_made_once_and_left_alone_while_it_is_right() -> None:
    async def story(api: FaultyApi) -> None:
        stored = Stored(api)
        async with api.client() as client:
            assert await register(client, ENDPOINT, [MADE], lambda: NOW)
            assert not await register(client, ENDPOINT, [MADE], lambda: NOW)
        assert stored.writes == 2
        assert stored.trusted() == {MADE}

    run(story)


def test_the_authority_is_written_into_the_configurations_of_the_manifests() -> None:
    async def story(api: FaultyApi) -> None:
        stored = Stored(api)
        collections = {wanted["kind"]: path for path, wanted in configurations(ENDPOINT)}
        for one in part_objects(PARTS["webhook"], Settings("home", "muster:1", "")):
            if one["kind"] in collections:
                stored.objects[f"{collections[one['kind']]}/{one['metadata']['name']}"] = one
        assert len(stored.objects) == 2
        async with api.client() as client:
            assert await register(client, ENDPOINT, [MADE], lambda: NOW)
        assert {call.method for call in api.asked} == {"GET", "PUT"}
        assert stored.trusted() == {MADE}

    run(story)


def test_an_account_that_may_not_create_them_learns_to_apply_the_manifests() -> None:
    async def story(api: FaultyApi) -> None:
        Stored(api)
        for path, _ in configurations(ENDPOINT):
            api.plan("POST", path, refuse(403, "Forbidden", "no"))
        async with api.client() as client:
            with pytest.raises(NotRegistered, match=r"muster-webhook .* apply the manifests"):
                await register(client, ENDPOINT, [MADE], lambda: NOW)

    run(story)


def test_two_replicas_are_both_trusted() -> None:
    async def story(api: FaultyApi) -> None:
        stored = Stored(api)
        async with api.client() as client:
            await register(client, ENDPOINT, [MADE], lambda: NOW)
            await register(client, ENDPOINT, [OTHER], lambda: NOW)
            assert not await register(client, ENDPOINT, [MADE], lambda: NOW)
        assert stored.trusted() == {MADE + OTHER}

    run(story)


def test_what_somebody_changed_is_corrected() -> None:
    async def story(api: FaultyApi) -> None:
        stored = Stored(api)
        async with api.client() as client:
            await register(client, ENDPOINT, [MADE], lambda: NOW)
            for obj in stored.objects.values():
                obj["webhooks"][0]["failurePolicy"] = "Fail"
            assert await register(client, ENDPOINT, [MADE], lambda: NOW)
        assert {hook["failurePolicy"] for obj in stored.objects.values() for hook in obj["webhooks"]} == {"Ignore"}

    run(story)


def test_pods_are_asked_about_only_where_a_namespace_opted_in() -> None:
    (_, mutating), (_, validating) = configurations(Endpoint(url="https://host:1/"))
    pods = mutating["webhooks"][0]
    assert pods["namespaceSelector"] == {"matchLabels": {"groupmanagement.kubeedge.io/webhook": "enabled"}}
    assert (pods["sideEffects"], pods["reinvocationPolicy"]) == ("NoneOnDryRun", "IfNeeded")
    assert pods["clientConfig"]["url"] == "https://host:1/mutate"
    assert {hook["failurePolicy"] for hook in (pods, *validating["webhooks"])} == {"Ignore"}
