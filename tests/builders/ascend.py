"""Nodes with Ascend boards, pods that request chips, and sessions over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from builders import manifests
from builders.manifests import typed
from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.registry import plugin_class
from muster.engine.core.plan import Plan
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model.core import Node, Pod
from muster.model.meta import Object
from muster.model.scheduling import PodGroup
from muster.plugins.topology910 import Topology910

RESOURCE = "huawei.com/Ascend910"


Place = tuple[int, int, int]  # group, chips free in the other ring, ring


def brute(left: int, right: int, request: int) -> Place | None:
    """The design in words: a ring that suffices; best if what it keeps is even, then small; then the fuller node."""
    if request == 8:
        return (0, 0, -1) if left == right == 4 else None
    remainders = sorted(range(5 - request), key=lambda rest: (rest % 2, rest))
    found = [
        (remainders.index(mine - request), other, ring)
        for ring, (mine, other) in enumerate(((left, right), (right, left)))
        if mine >= request
    ]
    if request == 4:
        found = [place for place in found if place[0] == 0]
    return min(found, default=None)


def names(chips: Sequence[int]) -> str:
    return ",".join(f"Ascend910-{i}" for i in chips)


def board(
    name: str,
    free: Sequence[int] | str | None = range(8),
    offers: int = 8,
    faulty: Sequence[int] = (),
    no_network: Sequence[int] = (),
    kind: str = "module",
) -> Node:
    """A node with chips; `free` as ids, as the annotation's text, or None for no annotation."""
    notes = {f"{RESOURCE}-Unhealthy": names(faulty), f"{RESOURCE}-NetworkUnhealthy": names(no_network)}
    if free is not None:
        notes[RESOURCE] = free if isinstance(free, str) else names(free)
    return typed(
        manifests.node(
            name,
            cpu=64,
            memory="64Gi",
            resources=_amounts(offers),
            labels={"accelerator-type": kind},
            annotations=notes,
        )
    )


def chip_pod(
    name: str,
    chips: int | str,
    job: str = "",
    on: str = "",
    held: Sequence[int] | str | None = None,
    phase: str | None = None,
    terminating: bool = False,
    notes: dict[str, str] | None = None,
    priority: int = 0,
    owner: str = "",
) -> Pod:
    """A pod of a job (its own by default) or of a ReplicaSet; on a node it may say which chips it holds."""
    message = {**({} if owner else {"scheduling.k8s.io/group-name": job or name}), **(notes or {})}
    if held is not None:
        message[RESOURCE] = held if isinstance(held, str) else names(held)
    meta: dict[str, Any] = {"creationTimestamp": _AT}
    if owner:
        of = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        meta["ownerReferences"] = [of]
    if terminating:
        meta["deletionTimestamp"] = _AT
    asked = _amounts(chips, cpu="1", memory="1Gi")
    given = {"priority": priority, "schedulerName": "muster"}
    return typed(
        manifests.pod(name, namespace="d", on=on, requests=asked, annotations=message, phase=phase, meta=meta, **given)
    )


_AT = "2026-01-01T00:00:00Z"


def _amounts(chips: int | str, **more: str) -> dict[str, str]:
    return more | ({RESOURCE: str(chips)} if chips else {})


def chip_group(name: str, least: int = 1, priority_class: str = "") -> PodGroup:
    spec = {"minMember": least, "priorityClassName": priority_class}
    return typed(manifests.group(name, namespace="d", phase="Inqueue", created=_AT, **spec))


def state_of(*objects: Object) -> State:
    """Pods whose group is not given get one of minimum 1."""
    held: dict[str, dict[str, Object]] = {"Node": {}, "Pod": {}, "PodGroup": {}}
    for item in objects:
        meta = item.metadata
        held[type(item).__name__][meta.name if isinstance(item, Node) else f"d/{meta.name}"] = item
    for item in objects:
        if isinstance(item, Pod) and (name := item.metadata.annotations.get("scheduling.k8s.io/group-name")):
            held["PodGroup"].setdefault(f"d/{name}", chip_group(name))
    made = State()
    made.load(held)
    return made


def session_of(state: State, now: float = 0.0, **arguments: object) -> tuple[Session, Topology910]:
    """A session with gang and topology910, whose arguments are written with `__` for a dot."""
    given = Arguments({key.replace("__", "."): value for key, value in arguments.items()})
    options = (PluginOption("gang"), PluginOption("topology910", arguments=given))
    plugins = [plugin_class(option.name)(option.arguments, option) for option in options]
    session = Session(state, Config(("allocate",), (Tier(options),)), [plugins], now)
    chips = plugins[1]
    assert isinstance(chips, Topology910)
    return session, chips


def decide(state: State, now: float = 0.0, **arguments: object) -> Plan:
    """What one allocate makes of the cluster."""
    from muster.actions import allocate
    from muster.cycle.planning import plan_of

    session, _ = session_of(state, now, **arguments)
    allocate.run(session)
    plan = plan_of(session)
    session.close()
    return plan
