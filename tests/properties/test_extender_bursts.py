"""Pods that kube-scheduler places one after the other, each on any node that the extender passed, keep the ranges of
their policy: no group gets more than its max, and the minima can always be reached with the replicas that are left.
"""

from __future__ import annotations

import json
import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from builders.node_groups import bound, city_node, deployment, nginx_pod, node_group, owner, ranges, store_of
from muster.groupctl.extender import group_scheduling
from muster.groupctl.extender.group_scheduling import GroupScheduling
from muster.model.extender import read_args
from strategies.profiles import examples

CITY_OF = {f"{city}-{i}": city for city in ("beijing", "hangzhou", "wuhan") for i in (1, 2)}
CITIES = sorted(set(CITY_OF.values()))


class Burst:
    """The pods of a Deployment on their way: filtered, then bound at once or later, in any order."""

    def __init__(self, dice: random.Random) -> None:
        self.dice, self.now = dice, 0.0
        least = {city: dice.randint(0, 3) for city in CITIES}
        self.limits = {city: (n, dice.choice((None, n + dice.randint(0, 3)))) for city, n in least.items()}
        self.replicas = sum(least.values()) + dice.randint(0, 5)
        objects = [city_node(name, city) for name, city in CITY_OF.items()]
        objects += [node_group(city, location=city) for city in CITIES]
        self.store = store_of(*objects, ranges(**self.limits), *deployment(bound(), self.replicas))
        self.extender = GroupScheduling(self.store, now=self.tick)
        self.on_their_way: dict[str, list[str]] = {}
        self.counts: Counter[str] = Counter()

    def tick(self) -> float:
        self.now += 0.01
        return self.now

    def filter(self, name: str) -> None:
        among = self.dice.sample(sorted(CITY_OF), self.dice.randint(1, len(CITY_OF)))
        meta = {"name": name, "namespace": "default", "uid": f"uid-pod-{name}", **owner("ReplicaSet", "nginx-1")}
        asked = {"Pod": {"metadata": meta, "spec": {}, "status": {}}, "Nodes": None, "NodeNames": among}
        result = self.extender.filter(read_args(json.dumps(asked).encode(), self.extender.known_names))
        assert result.node_names is not None and not result.error
        if result.node_names:
            self.on_their_way[name] = result.node_names
        else:
            self.on_their_way.pop(name, None)

    def bind(self, name: str) -> None:
        node = self.dice.choice(self.on_their_way.pop(name))
        self.store.create(nginx_pod(name, node))
        self.counts[CITY_OF[node]] += 1

    def check(self) -> None:
        missing = 0
        for city, (least, most) in self.limits.items():
            assert most is None or self.counts[city] <= most, (city, self.limits, self.counts)
            missing += max(least - self.counts[city], 0)
        assert self.replicas - self.counts.total() >= missing, (self.limits, self.replicas, self.counts)


@given(st.integers(0, 2**32))
@examples(300)
def test_no_choice_of_the_scheduler_breaks_the_ranges(seed: int) -> None:
    dice = random.Random(seed)
    burst = Burst(dice)
    waiting = [f"p{i}" for i in range(burst.replicas)]
    burst.extender._changed.wait = lambda timeout=None: False  # type: ignore[method-assign]
    longest, group_scheduling.MAX_WAIT_S = group_scheduling.MAX_WAIT_S, 0.0
    try:
        for _ in range(60):
            if burst.on_their_way and (not waiting or dice.random() < 0.5):
                name = dice.choice(sorted(burst.on_their_way))
                burst.bind(name)
                waiting.remove(name)
                burst.check()
            elif waiting:
                burst.filter(dice.choice(waiting))
    finally:
        group_scheduling.MAX_WAIT_S = longest
