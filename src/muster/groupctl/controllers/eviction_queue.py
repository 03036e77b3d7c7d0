"""The evictions of all controllers: one rate limit, shared fairly among namespaces and applications.

A controller requests evictions of an application whenever it reconciles it, and requests are granted one pod at a time.
The next pod comes from the namespace that was served least recently, and there from the application that was served
least recently. So neither one application whose pods are never placed right, nor a namespace with many of them, starves
the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from muster.groupctl.controllers.object_cache import Ref
from muster.groupctl.controllers.throttle import EvictionThrottle, TokenBucket
from muster.model.core import Pod
from muster.model.meta import Object, seconds
from muster.model.meta import key as key_of
from muster.model.pod_states import is_active
from muster.store import ApiError, NotFound, Severity, Store
from muster.store.event_reasons import EventReason

# The time for which an evicted pod counts as terminating until the watch shows it.
EVICTION_ASSUMED_S = 30.0
BUDGET_RETRY_S = 10.0  # until an eviction that a budget refused is tried again
EXTRA_CANDIDATES = 10  # candidates beyond the allowance, in place of pods that a budget protects
_SERVED_KEPT = 10_000


def _ignore(pod: Pod, policy: str, rule: str) -> None:
    """Ignores the eviction."""


@dataclass(slots=True)
class EvictionRequest:
    """Pods of an application to evict, in this order, at most `allowance` of them."""

    app: Object
    policy: tuple[str, str]  # kind and name of the policy
    pods: list[Pod]
    allowance: int
    moving: int  # pods of the application that are terminating or not ready
    throttle: EvictionThrottle
    why: str


@dataclass(frozen=True, slots=True)
class Granted:
    """An eviction that the API server has accepted."""

    ref: Ref  # the application
    time: float


class EvictionQueue:
    """Queues and performs evictions. `evicted` is called with each pod, its policy (ns/name) and the rule."""

    def __init__(
        self, store: Store, evicted: Callable[[Pod, str, str], None] = _ignore, rate: TokenBucket | None = None
    ) -> None:
        self._store = store
        self._evicted = evicted
        self._rate = rate or TokenBucket()
        self._requests: dict[tuple[str, Ref], EvictionRequest] = {}  # by rule and application
        self._served = 0
        self._last_served: dict[str | Ref, int] = {}  # namespaces and applications → the number of the last eviction
        self._to_evict: dict[Ref, frozenset[str]] = {}  # application → uids
        self._granted: dict[str, Granted] = {}  # by the pod's uid
        self._reported: dict[Ref, str] = {}  # application → the last reported blocker

    @property
    def waiting(self) -> int:
        """How many applications wait for the rate limit."""
        return len({ref for _, ref in list(self._requests)})

    def counts_as_gone(self, pod: Pod) -> bool:
        """Whether the pod is terminating, was just evicted, or is finished."""
        granted = self._granted.get(pod.metadata.uid)
        return not is_active(pod) or (granted is not None and self._is_recent(granted))

    def unreplaced(self, ref: Ref, pods: Collection[Pod]) -> int:
        """How many pods of the application were evicted lately, are gone, and have no replacement yet."""
        uids = {pod.metadata.uid for pod in pods}
        granted = [one for uid, one in self._granted.items() if one.ref == ref and uid not in uids]
        gone = [one for one in granted if self._is_recent(one)]
        if not gone:
            return 0
        since = int(min(one.time for one in gone))  # Kubernetes writes creation times in whole seconds
        return max(len(gone) - sum(seconds(pod.metadata.creation_timestamp) >= since for pod in pods), 0)

    def _is_recent(self, granted: Granted) -> bool:
        return granted.time + EVICTION_ASSUMED_S > self._store.clock.now()

    def announced(self, ref: Ref) -> frozenset[str]:
        """Returns the uids of pods of the application that are about to be evicted."""
        return self._to_evict.get(ref, frozenset())

    def announce(self, ref: Ref, uids: frozenset[str]) -> None:
        """Announces that these pods of the application are about to be evicted, so that other controllers do not change
        them.
        """
        if uids:
            self._to_evict[ref] = uids
        else:
            self._to_evict.pop(ref, None)

    def report_blocked(self, app: Object, blockers: Mapping[str, str]) -> None:
        """Reports once why the first of the pods (by key) cannot be evicted."""
        at, text = (type(app).__name__, key_of(app)), next((f"pod {key}: {why}" for key, why in blockers.items()), "")
        if text and self._reported.get(at) != text:
            self._store.event(app, Severity.WARNING, EventReason.EVICTION_BLOCKED, text)
        self._reported[at] = text

    # --- requests

    def request(self, rule: str, ref: Ref, request: EvictionRequest) -> None:
        """Replaces the application's last request by this rule."""
        if request.allowance > 0 and request.pods:
            self._requests[rule, ref] = request

    def withdraw(self, rule: str, ref: Ref) -> None:
        self._requests.pop((rule, ref), None)

    def grant(self, rule: str) -> bool:
        """Performs the requested evictions that the rate limit allows; whether a pod was evicted.

        It stops before a request of another rule: that controller has not seen yet what happened since its request.
        """
        wrote = False
        while (first := min(self._requests, key=self._order, default=None)) is not None and first[0] == rule:
            now = self._store.clock.now()
            if self._rate.ready(now) > now:
                break
            wrote = self._serve(rule, first[1], now) or wrote
        return wrote

    def next_time(self, rule: str) -> float | None:
        """When a request by this rule may be granted; None if there is none."""
        if not any(of == rule for of, _ in self._requests):
            return None
        return self._rate.ready(self._store.clock.now())

    def _order(self, queued: tuple[str, Ref]) -> tuple[int, int, Ref, str]:
        rule, ref = queued
        return self._last_served.get(_namespace(ref), 0), self._last_served.get(ref, 0), ref, rule

    def _serve(self, rule: str, ref: Ref, now: float) -> bool:
        request = self._requests[rule, ref]
        pod = request.pods.pop(0)
        evicted = not self.counts_as_gone(pod) and self._evict(pod, request, rule, now)
        if evicted:
            self._served += 1
            self._last_served[_namespace(ref)] = self._last_served[ref] = self._served
            if len(self._last_served) > _SERVED_KEPT:
                recent = sorted(self._last_served, key=self._last_served.__getitem__)[_SERVED_KEPT // 2 :]
                self._last_served = {name: self._last_served[name] for name in recent}
            request.allowance -= 1
            request.moving += 1
        if request.allowance <= 0 or not request.pods:
            del self._requests[rule, ref]
        return evicted

    def _evict(self, pod: Pod, request: EvictionRequest, rule: str, now: float) -> bool:
        app, key = request.app, key_of(pod)
        full = f"{app.metadata.namespace or 'default'}/{request.policy[1]}"
        try:
            self._store.evict(key, by=f"{request.policy[0]} {full}", rule=rule, uid=pod.metadata.uid)
        except NotFound:
            return False
        except ApiError as fault:
            self._store.event(app, Severity.WARNING, EventReason.EVICTION_BLOCKED, f"pod {key}: {fault}")
            request.throttle.check_at = now + BUDGET_RETRY_S
            return False
        self._rate.take()
        request.throttle.record_eviction(now, request.moving)
        self._granted = {uid: one for uid, one in self._granted.items() if self._is_recent(one)}
        self._granted[pod.metadata.uid] = Granted((type(app).__name__, key_of(app)), now)
        text = f"evicted pod {key} from node {pod.spec.node_name}, {request.why}"
        self._store.event(app, Severity.NORMAL, EventReason.EVICTED, text)
        self._evicted(pod, full, rule)
        return True


def _namespace(ref: Ref) -> str:
    return ref[1].partition("/")[0]
