"""How many pods of a unit each group has, kept current by changes alone."""

from __future__ import annotations

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from builders.node_groups import CITIES, bound, deployment, groups, nginx_pod, nodes, weights
from muster.groupctl.extender.reservations import RESERVATION_TTL_S
from muster.groupctl.webhook.group_slots import UNSEEN_POD_TTL_S, GroupSlots
from muster.groups.applications import Application
from muster.groups.assignment import ASSIGNED
from muster.groups.grouping import Grouping
from muster.groups.propagation import BoundPolicy
from muster.kube.informer import Delta
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.meta import Object, key
from muster.store import Change

UNIT = ("ReplicaSet", "default/nginx-1")


def _by_name(*objects: Object) -> dict[str, Object]:
    return {key(one): one for one in objects}


GROUPING = Grouping(
    cast("dict[str, Node]", _by_name(*nodes())),
    cast("dict[str, NodeGroup]", _by_name(*groups())),
    cast("dict[str, PropagationPolicy]", _by_name(weights(Beijing=1, Hangzhou=1))),
)
STEP = st.tuples(
    st.sampled_from("abcd"),
    st.sampled_from(["", *CITIES, "elsewhere"]),
    st.sampled_from(["", "beijing", "hangzhou", "other"]),
    st.sampled_from(["Running", "Succeeded", "going", "gone"]),
)


def made(name: str, on: str, group: str, phase: str) -> Pod:
    one = nginx_pod(name, on)
    assert isinstance(one, Pod)
    one.status.phase = phase if phase == "Succeeded" else "Pending"
    if group:
        one.metadata.labels[ASSIGNED] = group
    if phase == "going":
        one.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    return one


def chosen(slots: GroupSlots, replicas: int) -> list[str | None]:
    """What the next pods would be made for, if each were seen at once."""
    top = deployment(bound(), replicas)[0]
    ruling = GROUPING.policies.rule_for(Application(top, UNIT))
    assert isinstance(ruling, BoundPolicy)
    found, added = [], []
    for i in range(replicas + 1):
        group = slots.choose(UNIT, ruling, GROUPING)
        found.append(group)
        if group is None:
            break
        added.append(Delta(Change.ADDED, "Pod", f"default/next-{i}", None, made(f"next-{i}", "", group, "Running")))
        slots.observe(added[-1])
    for delta in added:
        slots.observe(Delta(Change.DELETED, "Pod", delta.key, delta.new, None))
    return found


@given(st.lists(STEP, max_size=12))
def test_following_changes_is_the_same_as_beginning_with_the_last_of_them(
    steps: list[tuple[str, str, str, str]],
) -> None:
    followed, anew = GroupSlots(lambda: 0.0), GroupSlots(lambda: 0.0)
    there: dict[str, Pod] = {}
    for name, on, group, phase in steps:
        old = there.pop(f"default/{name}", None)
        new = None if phase == "gone" else made(name, on, group, phase)
        if old is not None or new is not None:
            followed.observe(Delta(Change.MODIFIED, "Pod", f"default/{name}", old, new))
        if new is not None:
            there[f"default/{name}"] = new
    for name, one in there.items():
        anew.observe(Delta(Change.ADDED, "Pod", name, None, one))
    assert followed._unit_counts._locations == anew._unit_counts._locations
    assert chosen(followed, 6) == chosen(anew, 6)


def test_a_pod_counts_where_it_is_and_before_that_where_it_was_made_for() -> None:
    slots = GroupSlots(lambda: 0.0)
    waits, runs, ends = (
        made("a", on, "beijing", phase)
        for on, phase in (("", "Running"), ("node-a", "Running"), ("node-a", "Succeeded"))
    )
    slots.observe(Delta(Change.ADDED, "Pod", "default/a", None, waits))
    assert chosen(slots, 2) == ["hangzhou", None]
    slots.observe(Delta(Change.MODIFIED, "Pod", "default/a", waits, runs))  # node-a is in hangzhou
    assert chosen(slots, 2) == ["beijing", None]
    slots.observe(Delta(Change.MODIFIED, "Pod", "default/a", runs, ends))
    assert chosen(slots, 2) == ["beijing", "hangzhou", None]


def ruled(replicas: int) -> BoundPolicy:
    ruling = GROUPING.policies.rule_for(Application(deployment(bound(), replicas)[0], UNIT))
    assert isinstance(ruling, BoundPolicy)
    return ruling


class Times:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_request_that_anyone_may_have_sent_keeps_a_place_for_five_seconds() -> None:
    clock = Times()
    for authenticated, lasts in ((False, UNSEEN_POD_TTL_S), (True, RESERVATION_TTL_S)):
        clock.now = 0.0
        slots = GroupSlots(clock, authenticated=authenticated)
        slots.reserve("r", UNIT, "beijing", exists=False)
        clock.now = lasts - 0.1
        assert slots.reserved == 1
        clock.now = lasts
        assert slots.reserved == 0


def test_requests_alone_fill_no_group_for_a_pod_that_exists() -> None:
    clock, ruling = Times(), ruled(2)
    slots = GroupSlots(clock, authenticated=False)
    for i, group in enumerate(("beijing", "hangzhou")):
        slots.reserve(f"forged-{i}", UNIT, group, exists=False)
    assert slots.choose(UNIT, ruling, GROUPING) is None and slots.is_contested(UNIT, ruling, GROUPING)
    clock.now = 1.0  # a pod is created behind the gate, and seen; the forger goes on
    for i in range(20):
        slots.reserve(f"more-{i}", UNIT, ("beijing", "hangzhou")[i % 2], exists=False)
    assert slots.is_contested(UNIT, ruling, GROUPING, since=1.0), "those before it may still come"
    clock.now = UNSEEN_POD_TTL_S
    assert not slots.is_contested(UNIT, ruling, GROUPING, since=1.0)
    first = slots.choose(UNIT, ruling, GROUPING, since=1.0)
    assert first is not None
    slots.reserve("first", UNIT, first, exists=True)
    second = slots.choose(UNIT, ruling, GROUPING, since=1.0)
    assert {first, second} == {"beijing", "hangzhou"}
    slots.reserve("second", UNIT, str(second), exists=True)
    assert slots.choose(UNIT, ruling, GROUPING, since=1.0) is None
    assert not slots.is_contested(UNIT, ruling, GROUPING, since=1.0), "they are full for certain"


def test_after_a_request_whose_pod_did_not_appear_the_others_are_divided_as_the_groups_lack_pods() -> None:
    clock, ruling = Times(), ruled(10)
    slots = GroupSlots(clock, authenticated=False)
    slots.reserve("forged", UNIT, "beijing", exists=False)
    clock.now = UNSEEN_POD_TTL_S
    found = []
    for i in range(40):
        group = slots.choose(UNIT, ruling, GROUPING)
        assert group is not None
        slots.reserve(f"r-{i}", UNIT, group, exists=False)
        found.append(group)
    assert found.count("beijing") == found.count("hangzhou") == 20


def test_with_the_api_servers_certificate_nothing_is_contested() -> None:
    slots, ruling = GroupSlots(Times()), ruled(2)
    for i, group in enumerate(("beijing", "hangzhou")):
        slots.reserve(f"r-{i}", UNIT, group, exists=False)
    assert slots.choose(UNIT, ruling, GROUPING) is None and not slots.is_contested(UNIT, ruling, GROUPING)
