"""One rate and one memory for the evictions of all controllers."""

from __future__ import annotations

from typing import Any

from muster.cluster.clock import VirtualClock
from muster.cluster.memory import MemoryStore
from muster.controllers.evictions import BELIEVED, Evictions
from muster.controllers.pace import BURST, Pace
from muster.controllers.propagation import PropagationPolicyController
from muster.model.core import Pod
from muster.store import StoreError
from node_groups import bound, deployment, groups, nodes, pod, pods, weights


class Late(MemoryStore):
    """Grants evictions, and shows nothing of it yet."""

    def evict(self, key: str, **_: Any) -> None:
        self.get(Pod, key)


def objects(replicas: int = 5) -> list[Any]:
    running = pods({"node-a": 1, "node-b": 1, "node-c": replicas - 2})
    return [*nodes(), *groups(), weights(), *deployment(bound(), replicas), *running]


def test_a_granted_eviction_counts_before_the_watch_shows_it() -> None:
    clock = VirtualClock(1000.0)
    store = Late(clock, objects())
    evicted: list[str] = []
    evictions = Evictions(store, lambda pod, policy, rule: evicted.append(pod.metadata.name))
    controller = PropagationPolicyController(store, evictions, settle=0.0)
    for _ in range(5):
        controller.run()
    assert len(evicted) == 1
    clock.advance(1000.0 + BELIEVED + 1)
    store.patch(Pod, f"default/{evicted[0]}", {"metadata": {"labels": {"seen": "again"}}})
    controller.run()
    assert len(evicted) == 2  # it stayed after all


def test_all_controllers_together_keep_one_rate() -> None:
    clock = VirtualClock(1000.0)
    store = MemoryStore(clock, [*nodes(), *deployment(), *pods({"node-a": 20})])
    evictions, paces = Evictions(store), [Pace(), Pace()]
    app = deployment()[0]
    for rule, pace in zip(("propagation", "override"), paces, strict=True):
        going = [p for p in store.of(Pod).values() if not evictions.goes(p)]
        evictions.some(going, 4, app, ("PropagationPolicy", "pp"), rule, pace, "")
    assert sum(evictions.goes(p) for p in store.of(Pod).values()) == BURST
    assert paces[0].wake is None and paces[1].wake == 1001.0


def test_an_eviction_that_is_refused_is_told_and_asked_again_later() -> None:
    class Refusing(MemoryStore):
        def evict(self, key: str, **_: Any) -> None:
            raise StoreError("the budget forbids it")

    store = Refusing(VirtualClock(1000.0), [*nodes(), *deployment(), pod("p", "node-a")])
    evictions, pace = Evictions(store), Pace()
    app = deployment()[0]
    assert not evictions.some(store.of(Pod).values(), 1, app, ("PropagationPolicy", "pp"), "propagation", pace, "")
    assert pace.wake == 1010.0
    assert [note.reason for note in store.notes] == ["EvictionBlocked"]
