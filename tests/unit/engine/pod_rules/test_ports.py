"""Host ports in use per node."""

from __future__ import annotations

import pytest

from builders.filter_clusters import by_node, session, task
from builders.manifests import node, pod, state_of, typed
from muster.engine.core.nodes import MoveKind
from muster.engine.pod_rules.ports import HostPorts, host_ports


def port(number: int, address: str = "", protocol: str = "TCP") -> dict[str, object]:
    return {"containerPort": 80, "hostPort": number, "hostIP": address, "protocol": protocol}


@pytest.mark.parametrize(
    ("used", "wanted", "conflict"),
    [
        (port(8080), port(8080), True),
        (port(8080), port(8081), False),
        (port(8080), port(8080, protocol="UDP"), False),
        (port(8080, "10.0.0.1"), port(8080, "10.0.0.2"), False),
        (port(8080, "10.0.0.1"), port(8080, "10.0.0.1"), True),
        (port(8080, "10.0.0.1"), port(8080), True),
        (port(8080, "0.0.0.0"), port(8080, "10.0.0.1"), True),
        (port(0), port(0), False),
    ],
)
def test_ports_conflict(used: dict[str, object], wanted: dict[str, object], conflict: bool) -> None:
    world = state_of(
        node("a"), node("b"), pod("old", on="a", container={"ports": [used]}), pod("new", container={"ports": [wanted]})
    )
    ports = session(world).shared(HostPorts)
    assert by_node(world, ports.taken(task(world, "new").shape)) == {"a": conflict, "b": False}


def test_moves_are_followed_and_taken_back_exactly() -> None:
    world = state_of(
        node("a"), node("b"), pod("one", container={"ports": [port(80)]}), pod("two", container={"ports": [port(80)]})
    )
    now = session(world)
    ports, shape = now.shared(HostPorts), task(world, "two").shape
    statement = now.statement()
    statement.allocate([task(world, "one")], [1])  # before anybody asked
    assert ports.taken(shape).tolist() == [False, True]
    statement.pipeline([task(world, "two")], [0])
    assert ports.taken(shape).tolist() == [True, True]
    statement.rollback()
    assert ports.taken(shape).tolist() == [False, False]


def test_an_evicted_pod_gives_its_port_up_to_pods_that_wait_until_it_is_gone() -> None:
    world = state_of(
        node("a"), pod("old", on="a", container={"ports": [port(80)]}), pod("new", container={"ports": [port(80)]})
    )
    now = session(world)
    ports, shape = now.shared(HostPorts), task(world, "new").shape
    statement = now.statement()
    statement.evict(task(world, "old"), None, "preempt")
    assert not ports.taken(shape, MoveKind.PIPELINE).any()
    assert ports.taken(shape, MoveKind.ALLOCATE).all()
    statement.rollback()
    assert ports.taken(shape, MoveKind.PIPELINE).all()
    assert ports.taken(shape, MoveKind.ALLOCATE).all()


def test_sidecars_hold_ports_and_other_init_containers_do_not() -> None:
    inits = [
        {"name": "side", "restartPolicy": "Always", "ports": [port(1)]},
        {"name": "once", "ports": [port(2)]},
    ]
    assert [
        p.number for p in host_ports(typed(pod("p", initContainers=inits, container={"ports": [port(3)]})).spec)
    ] == [1, 3]
