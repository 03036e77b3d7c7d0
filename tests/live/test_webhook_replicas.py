"""Two replicas of `muster webhook` behind what a Service does: one gives pods their group, the other takes over."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from live import webhook_site as site
from live.accounts import account_in
from live.api import Api, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.node_groups import LEASE
from live.part_process import Part, free_port

pytestmark = pytest.mark.usefixtures("crds")


class Pair:
    """Two replicas; `active` is the one that is ready, `other` the other one."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        at, ports = free_port(), (free_port(), free_port())
        lease = ("--lease-name", f"{namespace}/muster-webhook", *LEASE)
        own = account_in(plane, namespace, "webhook")
        self.parts = [site.webhook_part(own, namespace, port, *lease, at=at) for port in ports]
        self.ports = ports
        self.service = site.Follower(at, list(zip(self.parts, ports, strict=True)))

    def ready(self) -> list[Part]:
        return [part for part in self.parts if part.started and part.probe("/readyz")[0] == 200]

    @property
    def active(self) -> Part:
        return until("an active replica", lambda: found[0] if len(found := self.ready()) == 1 else None)

    @property
    def other(self) -> Part:
        active = self.active
        return next(part for part in self.parts if part is not active)


@pytest.fixture
def pair(control_plane: ControlPlane, api: Api, namespace: str) -> Iterator[Pair]:
    two = Pair(control_plane, namespace)
    for part in two.parts:
        part.start(wait=False)
    try:
        assert two.active
        until("both to be known", lambda: all(part.metric("muster_webhook_registrations_total") for part in two.parts))
        yield two
    finally:
        for part in two.parts:
            part.stop()
        two.service.close()
        site.unregister(api)


@pytest.fixture
def cities(api: Api, namespace: str, make_nodes: MakeNodes) -> Iterator[str]:
    with site.two_cities(api, namespace, make_nodes, hangzhou=2, beijing=3) as there:
        api.create(site.weights(namespace, 1, 1))
        time.sleep(0.3)
        yield there


def test_one_of_two_is_ready_and_only_it_says_that_it_is_active(pair: Pair, cities: str, api: Api) -> None:
    assert "another replica holds the Lease" in pair.other.probe("/readyz")[1]
    assert [part.metric("muster_webhook_active") for part in (pair.active, pair.other)] == [1, 0]
    api.create(site.deployment(cities, 20, site.DIVIDED))
    assert site.groups(site.made(api, cities, 20)) == {"beijing": 10, "hangzhou": 10}
    assert pair.other.metric("muster_webhook_requests_total", 'path="mutate"') == 0


def test_when_the_active_one_ends_in_a_burst_no_group_has_too_many_and_the_other_goes_on(
    pair: Pair, cities: str, api: Api
) -> None:
    """Ended gracefully: what it is asked for on its way out is gated, and released by the one that comes after."""
    first = pair.active
    api.create(site.deployment(cities, 100, site.DIVIDED))
    until("some pods", lambda: len(site.pods(api, cities)) >= 20)
    first.stop()
    found = site.made(api, cities, 100)
    until("the other one", lambda: pair.ready() == [part for part in pair.parts if part is not first])
    until("no gates", lambda: not any(pod["spec"].get("schedulingGates") for pod in site.pods(api, cities)), 30)
    reported = site.groups(site.pods(api, cities))
    assert reported.get("beijing", 0) <= 50 and reported.get("hangzhou", 0) <= 50 and len(found) == 100, reported
    api.create(site.deployment(cities, 20, site.DIVIDED, "later"))
    assert site.groups(site.made(api, cities, 20, "later")) == {"beijing": 10, "hangzhou": 10}


def test_when_the_active_one_is_killed_in_a_burst_no_group_has_too_many_and_the_other_takes_over(
    pair: Pair, cities: str, api: Api
) -> None:
    first = pair.active
    api.create(site.deployment(cities, 100, site.DIVIDED))
    until("some pods", lambda: len(site.pods(api, cities)) >= 20)
    first.kill()
    site.made(api, cities, 100)
    reported = site.groups(site.pods(api, cities))
    assert reported.get("beijing", 0) <= 50 and reported.get("hangzhou", 0) <= 50, reported
    until("the other one", lambda: pair.ready() == [part for part in pair.parts if part is not first], 30)
    api.create(site.deployment(cities, 20, site.DIVIDED, "later"))
    assert site.groups(site.made(api, cities, 20, "later")) == {"beijing": 10, "hangzhou": 10}
    first.start(wait=False)
    until("it to stand by", lambda: "another replica holds the Lease" in first.probe("/readyz")[1])


def test_one_that_is_not_active_gates_and_the_active_one_lets_go(pair: Pair, cities: str, api: Api) -> None:
    """A Service may lag behind: here it sends everything to the wrong one."""
    api.create(site.editions(cities, args=False))
    other = pair.other
    pair.service.send_to(other)
    api.create(site.deployment(cities, 4, site.BOUND))
    found = site.running(api, cities, 4)
    assert other.metric("muster_webhook_requests_total", 'path="mutate",result="patched"') == 4
    assert site.groups(found) == {"beijing": 2, "hangzhou": 2}
    for pod in found:
        city = pod["metadata"]["labels"][site.ASSIGNED]
        assert pod["spec"]["containers"][0]["image"] == f"{city}.registry.io/nginx:1.14"
