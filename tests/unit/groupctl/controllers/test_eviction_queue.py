"""One rate and one memory for the evictions of all controllers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from builders.node_groups import bound, deployment, groups, nginx_pod, nodes, pods, weights
from muster.cluster.memory import MemoryStore, VirtualClock
from muster.groupctl.controllers.eviction_queue import EVICTION_ASSUMED_S, EvictionQueue, EvictionRequest
from muster.groupctl.controllers.propagation import PropagationPolicyController
from muster.groupctl.controllers.throttle import EVICTION_BURST, EvictionThrottle, TokenBucket
from muster.model.core import Pod
from muster.model.meta import Object
from muster.store import ApiError


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
    evictions = EvictionQueue(store, lambda pod, policy, rule: evicted.append(pod.metadata.name))
    controller = PropagationPolicyController(store, evictions, settle=0.0)
    for _ in range(5):
        controller.run()
    assert len(evicted) == 1
    clock.advance(1000.0 + EVICTION_ASSUMED_S + 1)
    store.patch(Pod, f"default/{evicted[0]}", {"metadata": {"labels": {"seen": "again"}}})
    controller.run()
    assert len(evicted) == 2  # it stayed after all


def request(
    store: MemoryStore, app: Object, allowed: int, throttle: EvictionThrottle, prefix: str = ""
) -> EvictionRequest:
    going = [pod for key, pod in sorted(store.of(Pod).items()) if key.startswith(prefix)]
    return EvictionRequest(app, ("PropagationPolicy", "pp"), going, allowed, 0, throttle, "")


def test_all_controllers_together_keep_one_rate() -> None:
    clock = VirtualClock(1000.0)
    store = MemoryStore(clock, [*nodes(), *deployment(), *pods({"node-a": 20})])
    evictions, app = EvictionQueue(store), deployment()[0]
    for rule in ("propagation", "override"):
        ref = ("Deployment", f"default/{rule}")
        evictions.request(rule, ref, request(store, app, 4, EvictionThrottle()))
    while evictions.grant("propagation") or evictions.grant("override"):
        pass
    assert sum(evictions.counts_as_gone(p) for p in store.of(Pod).values()) == EVICTION_BURST
    assert evictions.next_time("propagation") == 1001.0
    assert evictions.waiting == 2


def test_an_eviction_that_is_refused_is_reported_and_asked_again_later() -> None:
    class Refusing(MemoryStore):
        def evict(self, key: str, **_: Any) -> None:
            raise ApiError("", "the budget forbids it")

    store = Refusing(VirtualClock(1000.0), [*nodes(), *deployment(), nginx_pod("p", "node-a")])
    evictions, throttle = EvictionQueue(store), EvictionThrottle()
    app = deployment()[0]
    evictions.request("propagation", ("Deployment", "default/nginx"), request(store, app, 1, throttle))
    assert not evictions.grant("propagation")
    assert throttle.check_at == 1010.0
    assert [note.reason for note in store.events] == ["EvictionBlocked"]


class Applications:
    """Applications of many pods that all have to go, requested again after every grant, as a controller does."""

    def __init__(self, *keys: str, rate: TokenBucket | None = None) -> None:
        self.clock = VirtualClock(1000.0)
        self.evicted: list[str] = []
        self.store = MemoryStore(self.clock, [*nodes(), *(p for key in keys for p in self._pods(key))])
        self.evictions = EvictionQueue(self.store, lambda pod, policy, rule: self.evicted.append(_app_of(pod)), rate)
        self.keys = keys

    def after(self, seconds: float) -> list[str]:
        """The applications whose pods are evicted when so much time has passed, in order."""
        before = len(self.evicted)
        self.clock.advance(self.clock.now() + seconds)
        for key in self.keys:
            app = deployment(name=key.partition("/")[2])[0]
            app.metadata.namespace = key.partition("/")[0]
            self.evictions.request(
                "propagation", ("Deployment", key), request(self.store, app, 50, EvictionThrottle(), f"{key}-")
            )
        self.evictions.grant("propagation")
        return self.evicted[before:]

    @staticmethod
    def _pods(key: str) -> Iterator[Object]:
        namespace, _, name = key.partition("/")
        for i in range(50):
            made = nginx_pod(f"{name}-{i}", "node-a")
            made.metadata.namespace = namespace
            yield made


def _app_of(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name.rpartition('-')[0]}"


def test_applications_take_turns_whatever_their_names_and_numbers() -> None:
    apps = Applications("default/a", "default/b", "default/c")
    assert apps.after(0) == ["default/a", "default/b", "default/c", "default/a", "default/b"]
    found = [one for _ in range(6) for one in apps.after(1)]
    assert found == ["default/c", "default/a", "default/b"] * 2


def test_every_namespace_has_the_same_share_however_many_applications_it_has() -> None:
    apps = Applications("crowd/a", "crowd/b", "crowd/c", "crowd/d", "few/z")
    found = [one for _ in range(20) for one in apps.after(1)]
    shares = Counter(one.partition("/")[0] for one in found)
    assert abs(shares["crowd"] - shares["few"]) <= 1
    assert len(set(Counter(one for one in found if one.startswith("crowd")).values())) <= 2


def test_the_rate_and_the_burst_are_what_they_are_set_to() -> None:
    apps = Applications("default/a", rate=TokenBucket(burst=2, per_second=4))
    assert len(apps.after(0)) == 2
    assert len(apps.after(0.25)) == 1
    assert len(apps.after(10)) == 2
