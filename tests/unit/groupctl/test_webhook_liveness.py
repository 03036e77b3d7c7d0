"""Is a webhook alive? Its registration and a Lease that is renewed say so, whatever the clocks of machines say."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec

from muster.groupctl.liveness import WebhookLiveness, webhook_lease_key
from muster.groups.applications import DOMAIN
from muster.kube.client import Client
from muster.store import errors

EPOCH = "2026-01-01T00:00:00.000000Z"
NOON = "2026-01-01T12:00:00.000000Z"
AT_NOON = 1767268800.0


class Server:
    """Answers GETs of the Lease and of the configuration."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": NOON}
        self.hooks: list[dict[str, Any]] | None = [{"name": f"pods.{DOMAIN}"}]
        self.fault: errors.ApiError | None = None

    async def request(self, method: str, path: str) -> bytes:
        if self.fault is not None:
            raise self.fault
        found = {"spec": self.lease} if path.endswith("leases/muster-webhook") else {"webhooks": self.hooks}
        if None in found.values():
            raise errors.NotFound(path, "not there")
        return msgspec.json.encode(found)


class Clocks:
    def __init__(self, wall: float = AT_NOON) -> None:
        self.wall, self.steady = wall, 0.0

    def pass_by(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def life(server: Server, clocks: Clocks) -> tuple[WebhookLiveness, list[str]]:
    message: list[str] = []
    made = WebhookLiveness(
        cast("Client", server), "home/muster-webhook", lambda: None, message.append,
        clock=lambda: clocks.steady, wall=lambda: clocks.wall,
    )  # fmt: skip
    return made, message


def look(one: WebhookLiveness) -> bool:
    asyncio.run(one.check())
    return one.alive


def test_it_is_alive_while_its_lease_is_renewed() -> None:
    server, clocks = Server(), Clocks()
    webhook, message = life(server, clocks)
    assert look(webhook)
    clocks.pass_by(14)
    assert look(webhook)
    server.lease = {**(server.lease or {}), "renewTime": "2026-01-01T12:00:14.000000Z"}
    clocks.pass_by(10)
    assert look(webhook)
    clocks.pass_by(16)
    assert not look(webhook)
    assert message == ["a webhook is alive", "no webhook is alive: pods keep their edition"]


def test_a_lease_of_long_ago_is_not_believed_and_one_that_is_renewed_is_whatever_its_clock_says() -> None:
    server, clocks = Server(), Clocks(AT_NOON + 3600)
    webhook, _ = life(server, clocks)
    assert not look(webhook)
    server.lease = {**(server.lease or {}), "renewTime": EPOCH}
    assert look(webhook)


def test_a_lease_that_was_given_back_or_a_registration_that_is_gone_is_the_end() -> None:
    server, clocks = Server(), Clocks()
    webhook, _ = life(server, clocks)
    assert look(webhook)
    server.hooks = [{"name": "another"}]
    assert not look(webhook)
    server.hooks = [{"name": f"pods.{DOMAIN}"}]
    assert look(webhook)
    server.lease = {**(server.lease or {}), "holderIdentity": ""}
    assert not look(webhook)
    server.lease = None
    assert not look(webhook)


def test_an_api_server_that_does_not_answer_changes_nothing_while_the_lease_was_valid() -> None:
    server, clocks = Server(), Clocks()
    webhook, message = life(server, clocks)
    assert look(webhook)
    server.fault = errors.Unreachable("GET", "no connection")
    assert look(webhook) and look(webhook)
    clocks.pass_by(20)
    assert not look(webhook)
    assert sum("cannot be seen" in text for text in message) == 1


def test_its_lease_is_looked_for_beside_its_service() -> None:
    server = Server()
    server.hooks = [{"name": f"pods.{DOMAIN}", "clientConfig": {"service": {"namespace": "edge"}}}]
    assert asyncio.run(webhook_lease_key(cast("Client", server))) == "edge/muster-webhook"
    server.hooks = None
    assert asyncio.run(webhook_lease_key(cast("Client", server))) == "kube-system/muster-webhook"
