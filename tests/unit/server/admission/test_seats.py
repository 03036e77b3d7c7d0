"""How many pods of a unit each group has, kept current by changes alone."""

from __future__ import annotations

from copy import deepcopy
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from muster.groups.applications import Application
from muster.groups.assignment import ASSIGNED
from muster.groups.grouping import Grouping
from muster.groups.policies import Bound
from muster.kube.informer import Delta
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.meta import Object, key
from muster.server.admission.seats import Seats
from muster.store import Change
from node_groups import CITIES, bound, deployment, groups, nodes, pod, weights

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
    one = pod(name, on)
    assert isinstance(one, Pod)
    one.status.phase = phase if phase == "Succeeded" else "Pending"
    if group:
        one.metadata.labels[ASSIGNED] = group
    if phase == "going":
        one.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    return one


def chosen(seats: Seats, replicas: int) -> list[str | None]:
    """What the next pods would be made for, if each were seen at once."""
    top = deployment(bound(), replicas)[0]
    ruling = GROUPING.policies.ruling(Application(top, UNIT))
    assert isinstance(ruling, Bound)
    found, mine = [], deepcopy(seats._places)
    for i in range(replicas + 1):
        group = seats.choose(UNIT, ruling, GROUPING)
        found.append(group)
        if group is None:
            break
        seats.notice(Delta(Change.ADDED, "Pod", f"default/next-{i}", None, made(f"next-{i}", "", group, "Running")))
    seats._places = mine
    return found


@given(st.lists(STEP, max_size=12))
def test_following_changes_is_the_same_as_beginning_with_the_last_of_them(
    steps: list[tuple[str, str, str, str]],
) -> None:
    followed, anew = Seats(lambda: 0.0), Seats(lambda: 0.0)
    there: dict[str, Pod] = {}
    for name, on, group, phase in steps:
        old = there.pop(f"default/{name}", None)
        new = None if phase == "gone" else made(name, on, group, phase)
        if old is not None or new is not None:
            followed.notice(Delta(Change.MODIFIED, "Pod", f"default/{name}", old, new))
        if new is not None:
            there[f"default/{name}"] = new
    for name, one in there.items():
        anew.notice(Delta(Change.ADDED, "Pod", name, None, one))
    assert followed._places == anew._places
    assert chosen(followed, 6) == chosen(anew, 6)


def test_a_pod_counts_where_it_is_and_before_that_where_it_was_made_for() -> None:
    seats = Seats(lambda: 0.0)
    waits, runs, ends = (
        made("a", on, "beijing", phase)
        for on, phase in (("", "Running"), ("node-a", "Running"), ("node-a", "Succeeded"))
    )
    seats.notice(Delta(Change.ADDED, "Pod", "default/a", None, waits))
    assert chosen(seats, 2) == ["hangzhou", None]
    seats.notice(Delta(Change.MODIFIED, "Pod", "default/a", waits, runs))  # node-a is in hangzhou
    assert chosen(seats, 2) == ["beijing", None]
    seats.notice(Delta(Change.MODIFIED, "Pod", "default/a", runs, ends))
    assert chosen(seats, 2) == ["beijing", "hangzhou", None]
