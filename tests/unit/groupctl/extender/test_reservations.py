"""For whom a place is reserved, and who is tried again when a reservation is given up."""

from __future__ import annotations

from builders.node_groups import CITIES, bound, deployment, groups, nginx_pod, nodes, store_of, weights
from muster.cluster.memory import MemoryStore as Store
from muster.groupctl.extender.group_scheduling import GroupScheduling
from muster.groupctl.extender.reservations import RESERVATION_TTL_S
from muster.model.core import Pod
from muster.model.extender import ExtenderArgs
from muster.model.meta import Object, key

NODES = list(CITIES)
BEIJING = NODES[2:]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Extender:
    """Two replicas, one for each city; pods are asked about as kube-scheduler does. `cluster`: what a GET finds."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store: Store = store_of(*nodes(), *groups(), weights(Beijing=1, Hangzhou=1), *deployment(bound(), 2))
        self.cluster: dict[str, Object] = {}
        self.asked: list[str] = []
        self.answers = GroupScheduling(self.store, fetch_owner=self._get, now=self.clock)

    def _get(self, kind: str, name: str, uid: str) -> Object | None:
        self.asked.append(f"{kind} {name}")
        return self.cluster.get(name)

    def made(self, name: str) -> Pod:
        one = nginx_pod(name)
        assert isinstance(one, Pod)
        self.store.create(one)
        return one

    def passes(self, one: Object) -> bool:
        assert isinstance(one, Pod)
        result = self.answers.filter(ExtenderArgs(Pod(metadata=one.metadata), BEIJING))
        assert not result.error
        return bool(result.node_names)

    def to_wake(self) -> list[str]:
        return [name for name, _ in self.answers.to_wake()]


def test_a_pod_that_does_not_exist_gets_an_answer_and_no_reservation() -> None:
    extender = Extender()
    assert extender.passes(nginx_pod("forged"))
    assert extender.answers.reserved == 0
    assert extender.asked == ["Pod default/forged"]
    assert extender.passes(extender.made("real"))
    assert extender.answers.reserved == 1


def test_one_that_the_watch_has_not_shown_yet_is_asked_for() -> None:
    extender = Extender()
    late = nginx_pod("late")
    extender.cluster[key(late)] = late
    assert extender.passes(late)
    assert extender.answers.reserved == 1


def test_one_of_the_same_name_with_another_uid_is_another_one() -> None:
    extender = Extender()
    forged = extender.made("real")
    other = Pod(metadata=forged.metadata)
    other.metadata = type(forged.metadata)(
        name="real", namespace="default", uid="forged", owner_references=forged.metadata.owner_references
    )
    assert extender.passes(other)
    assert extender.answers.reserved == 0


def test_a_bound_pod_gets_no_second_place() -> None:
    extender = Extender()
    there = nginx_pod("there", "node-a")
    extender.store.create(there)
    extender.passes(there)
    assert extender.answers.reserved == 0


def test_when_a_reservation_expires_one_that_was_refused_for_it_is_tried_again_once() -> None:
    extender = Extender()
    first, second, third = (extender.made(name) for name in ("first", "second", "third"))
    assert extender.passes(first)
    assert not extender.passes(second) and not extender.passes(third)
    extender.clock.now = RESERVATION_TTL_S - 1
    assert extender.to_wake() == []
    extender.clock.now = RESERVATION_TTL_S
    assert extender.to_wake() == ["default/second"]
    assert extender.to_wake() == []
    assert extender.passes(second)
    extender.clock.now = 2 * RESERVATION_TTL_S
    assert extender.to_wake() == ["default/third"]


def test_when_the_pod_of_a_reservation_is_deleted_the_next_is_tried_again() -> None:
    extender = Extender()
    first, second = extender.made("first"), extender.made("second")
    assert extender.passes(first) and not extender.passes(second)
    extender.store.delete(Pod, key(first))
    assert extender.to_wake() == ["default/second"]


def test_when_the_pod_is_bound_where_it_was_let_in_nobody_is() -> None:
    extender = Extender()
    first, second = extender.made("first"), extender.made("second")
    assert extender.passes(first) and not extender.passes(second)
    extender.store.patch(Pod, key(first), {"spec": {"nodeName": BEIJING[0]}})
    assert extender.to_wake() == [] and not extender.passes(second)


def test_pods_that_waited_when_it_started_are_tried_again_when_nothing_is_known_of_them_any_more() -> None:
    """Whoever answered before may have refused them for a reservation that is lost."""
    extender = Extender()
    extender.made("waited")
    again = GroupScheduling(extender.store, fetch_owner=extender._get, now=extender.clock)
    assert again.to_wake() == []
    extender.clock.now = RESERVATION_TTL_S
    assert [name for name, _ in again.to_wake()] == ["default/waited"]
