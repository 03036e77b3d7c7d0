"""The evictions of all controllers: one rate for all of them, one way to ask and to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from muster.controllers.pace import Pace, Rate
from muster.controllers.states import active
from muster.model.core import Pod
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.store import NotFound, Severity, Store, StoreError

# An eviction was granted, and the watch has not shown yet that the pod goes: for so long it is believed.
BELIEVED = 30.0
BLOCKED = 10.0  # seconds until a budget is asked again


def _unheard(pod: Pod, policy: str, rule: str) -> None:
    """For whom it is nobody's business."""


class Evictions:
    """`evicted` hears of each: the pod, the policy (ns/name), and the rule by which it went."""

    def __init__(self, store: Store, evicted: Callable[[Pod, str, str], None] = _unheard) -> None:
        self._store = store
        self._evicted = evicted
        self._rate = Rate()
        self._granted: dict[str, float] = {}  # uid → until when it is believed
        self._told: dict[tuple[str, str], str] = {}  # application → what keeps its pods, as it was told

    def goes(self, pod: Pod) -> bool:
        """Is the pod on its way out, or finished?"""
        return not active(pod) or self._granted.get(pod.metadata.uid, 0.0) > self._store.clock.now()

    def blocked(self, app: Object, spared: Mapping[str, str]) -> None:
        """Pods (by key) that should go and must not: why the first of them stays, told once."""
        at, text = (type(app).__name__, key_of(app)), next((f"pod {key}: {why}" for key, why in spared.items()), "")
        if text and self._told.get(at) != text:
            self._store.event(app, Severity.WARNING, "EvictionBlocked", text)
        self._told[at] = text

    def some(
        self, pods: Iterable[Pod], room: int, app: Object, policy: tuple[str, str], rule: str, pace: Pace, why: str
    ) -> bool:
        """Evict the first of the pods, as many as there is room for; whether any went.

        `policy`: the kind and the name of the one they go for. Where only time is missing, `pace` says when to go on.
        """
        now = self._store.clock.now()
        wrote = False
        for pod in pods:
            if room <= 0:
                break
            if self._rate.ready(now) > now:
                pace.wake = self._rate.ready(now)
                break
            if self._evict(pod, app, policy, rule, pace, why):
                wrote = True
                room -= 1
        return wrote

    def _evict(self, pod: Pod, app: Object, policy: tuple[str, str], rule: str, pace: Pace, why: str) -> bool:
        now, key = self._store.clock.now(), key_of(pod)
        full = f"{app.metadata.namespace or 'default'}/{policy[1]}"
        try:
            self._store.evict(key, by=f"{policy[0]} {full}", rule=rule, uid=pod.metadata.uid)
        except NotFound:
            return False
        except StoreError as fault:
            self._store.event(app, Severity.WARNING, "EvictionBlocked", f"pod {key}: {fault}")
            pace.wake = now + BLOCKED
            return False
        self._rate.take()
        pace.last = now
        self._granted = {uid: until for uid, until in self._granted.items() if until > now}
        self._granted[pod.metadata.uid] = now + BELIEVED
        text = f"evicted pod {key} from node {pod.spec.node_name}, {why}"
        self._store.event(app, Severity.NORMAL, "Evicted", text)
        self._evicted(pod, full, rule)
        return True
