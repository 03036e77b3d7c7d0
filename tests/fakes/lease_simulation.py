"""A Lease on a loopback API server, and candidates that take their steps on a simulated clock."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from fakes.faulty_api import FaultyApi, refuse, run
from muster.kube import Election

COLLECTION = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
PATH = f"{COLLECTION}/muster"


class LeaseServer:
    """One Lease with a resourceVersion that is checked."""

    def __init__(self, api: FaultyApi) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.away = False
        self.api = api
        api.plan("GET", PATH, self._get)
        api.plan("PUT", PATH, self._put)
        api.plan("POST", COLLECTION, self._create)

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        found: dict[str, Any] = self.lease["spec"]
        return found

    async def _get(self, request: web.Request) -> web.StreamResponse:
        if self.away:
            return await refuse(503, "ServiceUnavailable", "away")(request)
        if self.lease is None:
            return await refuse(404, "NotFound", "no lease")(request)
        return web.json_response(self.lease)

    async def _put(self, request: web.Request) -> web.StreamResponse:
        if self.away:
            return await refuse(503, "ServiceUnavailable", "away")(request)
        if self.lease is None:
            return await refuse(404, "NotFound", "no lease")(request)
        body = await request.json()
        if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            return await refuse(409, "Conflict", "the object has been modified")(request)
        return self._store(body)

    async def _create(self, request: web.Request) -> web.StreamResponse:
        if self.lease is not None:
            return await refuse(409, "AlreadyExists", "is there")(request)
        return self._store(await request.json())

    def _store(self, body: dict[str, Any]) -> web.Response:
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = body
        return web.json_response(body)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class LeaseSimulation:
    """Candidates that take a step when the test calls `step`."""

    def __init__(self, api: FaultyApi) -> None:
        self.server = LeaseServer(api)
        self.clock = Clock()
        self.client = api.client(tries=1)

    def candidate(self, name: str) -> Election:
        return Election(self.client, "ns/muster", name, clock=self.clock)

    async def step(self, *candidates: Election, seconds: float = 0.0) -> None:
        """Time passes, then each takes one step."""
        self.clock.now += seconds
        for one in candidates:
            await one.step()


def play(story: Any) -> None:
    async def opened(api: FaultyApi) -> None:
        simulation = LeaseSimulation(api)
        async with simulation.client:
            await story(simulation)

    run(opened)
