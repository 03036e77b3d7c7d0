"""The evictions of all controllers: one rate, shared fairly among namespaces and applications.

A controller *requests* evictions of an application whenever it looks at it, and the requests are granted one pod at a
time. The next pod is of the namespace whose last turn is the longest ago, and in it of the application whose last turn
is. So neither one application whose pods never find their place, nor a namespace with many of them, keeps the others
waiting.
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

# An eviction was granted, and the watch has not shown yet that the pod goes: for so long it is believed.
EVICTION_ASSUMED_S = 30.0
BUDGET_RETRY_S = 10.0  # seconds until a budget is asked again
EXTRA_CANDIDATES = 10  # candidates beyond the room of a request, for those that a budget keeps
_TURNS_KEPT = 10_000


def _unheard(pod: Pod, policy: str, rule: str) -> None:
    """For whom it is nobody's business."""


@dataclass(slots=True)
class EvictionRequest:
    """Pods of an application that should go, the first of them first, as many as there is room for."""

    app: Object
    policy: tuple[str, str]  # kind and name of the one they go for
    pods: list[Pod]
    allowance: int
    moving: int  # pods of the application that are on the move already
    throttle: EvictionThrottle
    why: str


@dataclass(frozen=True, slots=True)
class Granted:
    """An eviction that the API server has accepted."""

    ref: Ref  # the application
    time: float


class EvictionQueue:
    """`evicted` is called for each: the pod, the policy (ns/name), and the rule by which it went."""

    def __init__(
        self, store: Store, evicted: Callable[[Pod, str, str], None] = _unheard, rate: TokenBucket | None = None
    ) -> None:
        self._store = store
        self._evicted = evicted
        self._rate = rate or TokenBucket()
        self._requests: dict[tuple[str, Ref], EvictionRequest] = {}  # rule and application →
        self._turn = 0
        self._turns: dict[str | Ref, int] = {}  # namespaces and applications → their last turn
        self._leaving: dict[Ref, frozenset[str]] = {}  # application → uids
        self._granted: dict[str, Granted] = {}  # by the pod's uid
        self._reported: dict[Ref, str] = {}  # application → what keeps its pods, as it was told

    @property
    def waiting(self) -> int:
        """How many applications wait for an eviction that they may have."""
        return len({ref for _, ref in list(self._requests)})

    def is_leaving(self, pod: Pod) -> bool:
        """Is the pod on its way out, or finished?"""
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
        """The uids of pods of the application that are about to be evicted."""
        return self._leaving.get(ref, frozenset())

    def announce(self, ref: Ref, uids: frozenset[str]) -> None:
        """These pods of the application are about to be evicted: nothing else needs to be done to them."""
        if uids:
            self._leaving[ref] = uids
        else:
            self._leaving.pop(ref, None)

    def report_blocked(self, app: Object, spared: Mapping[str, str]) -> None:
        """Pods (by key) that should go and must not: why the first of them stays, told once."""
        at, text = (type(app).__name__, key_of(app)), next((f"pod {key}: {why}" for key, why in spared.items()), "")
        if text and self._reported.get(at) != text:
            self._store.event(app, Severity.WARNING, "EvictionBlocked", text)
        self._reported[at] = text

    # --- requests

    def request(self, rule: str, ref: Ref, request: EvictionRequest) -> None:
        """In the place of the application's last request by this rule."""
        if request.allowance > 0 and request.pods:
            self._requests[rule, ref] = request

    def withdraw(self, rule: str, ref: Ref) -> None:
        self._requests.pop((rule, ref), None)

    def grant(self, rule: str) -> bool:
        """Evict what the rate allows, each in its turn; whether a pod went.

        It ends before a turn of another rule: its controller has not seen yet what happened since it asked.
        """
        wrote = False
        while (turn := min(self._requests, key=self._order, default=None)) is not None and turn[0] == rule:
            now = self._store.clock.now()
            if self._rate.ready(now) > now:
                break
            wrote = self._serve(rule, turn[1], now) or wrote
        return wrote

    def next_time(self, rule: str) -> float | None:
        """When a request by this rule may be granted; None if there is none."""
        if not any(of == rule for of, _ in self._requests):
            return None
        return self._rate.ready(self._store.clock.now())

    def _order(self, asking: tuple[str, Ref]) -> tuple[int, int, Ref, str]:
        rule, ref = asking
        return self._turns.get(_namespace(ref), 0), self._turns.get(ref, 0), ref, rule

    def _serve(self, rule: str, ref: Ref, now: float) -> bool:
        request = self._requests[rule, ref]
        pod = request.pods.pop(0)
        went = not self.is_leaving(pod) and self._evict(pod, request, rule, now)
        if went:
            self._turn += 1
            self._turns[_namespace(ref)] = self._turns[ref] = self._turn
            if len(self._turns) > _TURNS_KEPT:
                kept = sorted(self._turns, key=self._turns.__getitem__)[_TURNS_KEPT // 2 :]
                self._turns = {one: self._turns[one] for one in kept}
            request.allowance -= 1
            request.moving += 1
        if request.allowance <= 0 or not request.pods:
            del self._requests[rule, ref]
        return went

    def _evict(self, pod: Pod, request: EvictionRequest, rule: str, now: float) -> bool:
        app, key = request.app, key_of(pod)
        full = f"{app.metadata.namespace or 'default'}/{request.policy[1]}"
        try:
            self._store.evict(key, by=f"{request.policy[0]} {full}", rule=rule, uid=pod.metadata.uid)
        except NotFound:
            return False
        except ApiError as fault:
            self._store.event(app, Severity.WARNING, "EvictionBlocked", f"pod {key}: {fault}")
            request.throttle.check_at = now + BUDGET_RETRY_S
            return False
        self._rate.take()
        request.throttle.record_eviction(now, request.moving)
        self._granted = {uid: one for uid, one in self._granted.items() if self._is_recent(one)}
        self._granted[pod.metadata.uid] = Granted((type(app).__name__, key_of(app)), now)
        text = f"evicted pod {key} from node {pod.spec.node_name}, {request.why}"
        self._store.event(app, Severity.NORMAL, "Evicted", text)
        self._evicted(pod, full, rule)
        return True


def _namespace(ref: Ref) -> str:
    return ref[1].partition("/")[0]
