"""A control plane whose kube-scheduler asks muster's extender; the design's two cities, and the parts at work there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from live.api import Api, Refused, place, until
from live.conftest import HOME, REGISTRATIONS, RIGHTS, MakeNodes, OwnPlane, served
from live.controlplane import ControlPlane
from live.node_groups import Controllers, Extender, thing
from live.part_process import free_port
from muster.cli.install import PARTS, Settings, installation
from muster.config.loader import DEFAULT
from muster.model.crd import OURS


@dataclass
class Site:
    """The control plane, and the port that its kube-scheduler asks on."""

    plane: ControlPlane
    port: int

    def account(self, part: str) -> Path:
        return self.plane.kubeconfig_of(HOME, f"muster-{part}")


class Sited(OwnPlane):
    """Tests of a class with these fixtures run on a site of their own."""

    plane_class: type[ControlPlane] = ControlPlane
    scheme = "http"

    @pytest.fixture(scope="class")
    @classmethod
    def site(cls) -> Iterator[Site]:
        port = free_port()
        with cls.plane_class(extender=f"{cls.scheme}://127.0.0.1:{port}") as plane:
            install(plane.api)
            yield Site(plane, port)

    @pytest.fixture(scope="class")
    @classmethod
    def control_plane(cls, site: Site) -> ControlPlane:
        return site.plane

    @pytest.fixture
    def cities(self, api: Api, make_nodes: MakeNodes) -> Iterator[None]:
        """hangzhou with two nodes, beijing with three."""
        made = []
        for city, count in (("hangzhou", 2), ("beijing", 3)):
            make_nodes(count, prefix=f"{city}-", labels={"location": city}, resources={"pods": "500", "cpu": "64"})
            made.append(api.create(thing("NodeGroup", city, spec={"matchLabels": {"location": city}})))
        yield
        for group in made:
            with suppress(Refused):  # gone already, or gone at once
                api.delete(place(group))
                api.merge(place(group), {"metadata": {"finalizers": None}})

    @pytest.fixture
    def extender(self, site: Site, cities: None) -> Iterator[Extender]:
        with Extender(site.account("extender"), site.port, HOME) as part:
            yield part

    @pytest.fixture
    def controllers(self, site: Site, cities: None) -> Iterator[Controllers]:
        with Controllers(site.account("controllers"), HOME) as part:
            yield part


def install(api: Api) -> None:
    """muster's own kinds, the accounts of its parts with their limits, and the webhook configurations."""
    for definition in OURS:
        api.apply(definition.plain())
        path = f"/apis/{definition.api_version}/{definition.plural}"
        until(f"{path} to be served", lambda path=path: served(api, path))
    for one in installation(Settings(HOME, "muster:test", DEFAULT), list(PARTS.values())):
        if one["kind"] in (*RIGHTS, *REGISTRATIONS):
            api.apply(one)
    # The API server holds back creates for two seconds after a definition is established.
    time.sleep(2)
