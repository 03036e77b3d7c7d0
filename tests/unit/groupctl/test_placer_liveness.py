"""Who places pods by policies: seen by Leases, which an extender without an election renews as well."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import msgspec

from muster.groupctl.liveness import LeaseHeartbeat, PlacerLiveness
from muster.kube.client import Client
from muster.process.settings import LeaseSettings
from muster.store import errors


class Server:
    """Keeps Leases."""

    def __init__(self) -> None:
        self.leases: dict[str, dict[str, Any]] = {}
        self.fault: errors.ApiError | None = None

    async def request(self, method: str, path: str, *, body: Any = None, tries: int | None = None) -> bytes:
        if self.fault is not None:
            raise self.fault
        name = body["metadata"]["name"] if method == "POST" else path.rpartition("/")[2]
        if method in ("POST", "PUT"):
            self.leases[name] = body
        if name not in self.leases:
            raise errors.NotFound(path, "not there")
        return msgspec.json.encode(self.leases[name])

    def renew(self, name: str) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": now}
        self.leases[name] = {"metadata": {"name": name}, "spec": spec}


def placers(server: Server, extender: str = "home/muster-extender") -> tuple[PlacerLiveness, list[str]]:
    message: list[str] = []
    made = PlacerLiveness(
        cast("Client", server), extender, "home/muster-scheduler", ("muster",), lambda: None, message.append
    )
    asyncio.run(made.check())
    return made, message


def test_pods_of_musters_scheduler_need_that_and_all_others_the_extender() -> None:
    server = Server()
    server.renew("muster-scheduler")
    found, message = placers(server)
    assert found.missing_reason("muster") == ""
    assert found.missing_reason("default-scheduler") == (
        "no muster extender is alive for schedulerName default-scheduler: Lease home/muster-extender is not renewed"
    )
    server.renew("muster-extender")
    del server.leases["muster-scheduler"]
    asyncio.run(found.check())
    assert found.missing_reason("default-scheduler") == "" and "no muster scheduler" in found.missing_reason("muster")
    assert message == [
        "muster scheduler is alive",
        "muster extender is alive",
        "no muster scheduler is alive: its pods stay",
    ]


def test_who_may_not_read_the_lease_evicts_nothing_and_reports_it_once() -> None:
    server = Server()
    server.renew("muster-extender")
    server.fault = errors.Forbidden("GET", "may not")
    found, message = placers(server)
    asyncio.run(found.check())
    assert found.missing_reason("default-scheduler")
    assert len([text for text in message if "Lease home/muster-extender" in text]) == 1


def test_none_skips_the_check() -> None:
    found, _ = placers(Server(), "none")
    assert found.missing_reason("default-scheduler") == ""


def test_an_extender_without_an_election_is_seen_and_its_end_is() -> None:
    server = Server()
    settings = LeaseSettings(name="home/muster-extender", elect=False, retry=0.01, identity="one")
    active = False
    heartbeat = LeaseHeartbeat(cast("Client", server), settings.key, settings, lambda: active, lambda _: None)

    async def at_work() -> None:
        nonlocal active
        running = asyncio.create_task(heartbeat.run())
        await asyncio.sleep(0.05)
        assert not server.leases  # it does not answer yet
        active = True
        while not server.leases:
            await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(at_work())
    found, _ = placers(server)
    assert found.alive("extender")
    asyncio.run(heartbeat.end())
    asyncio.run(found.check())
    assert not found.alive("extender")


def test_one_that_ends_leaves_the_lease_to_another_that_renews_it() -> None:
    server = Server()
    server.renew("muster-extender")
    settings = LeaseSettings(name="home/muster-extender", elect=False, identity="another")
    heartbeat = LeaseHeartbeat(cast("Client", server), settings.key, settings, lambda: True, lambda _: None)
    asyncio.run(heartbeat.end())
    found, _ = placers(server)
    assert found.alive("extender")
