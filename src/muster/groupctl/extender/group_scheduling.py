"""Answers the extender's three verbs: filter (feasible nodes), prioritize (scores) and preempt (useful victims)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from threading import Condition
from time import monotonic
from typing import TypeVar

import msgspec
from msgspec import Raw

from muster.groupctl.extender.cluster_index import ClusterIndex, is_pending
from muster.groupctl.extender.plugin_scores import PluginScores, scaled
from muster.groupctl.extender.reservations import RefusedPods, Reservations
from muster.groupctl.owners import FetchOwner
from muster.groups.applications import Application, OwnerLoop, PolicyLabels, unbound_reason, unit_of
from muster.groups.assignment import ASSIGNED
from muster.groups.propagation import BoundPolicy, PlacementRefusal
from muster.groups.quota_usage import Acceptance, QuotaUsage, score
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.extender import (
    ExtenderArgs,
    FilterResult,
    KnownNames,
    MetaVictims,
    PreemptionArgs,
    PreemptionResult,
    Score,
)
from muster.model.meta import key
from muster.store import ApiError, Store

MAX_WAIT_S = 0.5  # seconds; kube-scheduler gives up after 5
_POLL_INTERVAL_S = 0.01


@dataclass(slots=True)
class _PolicyRequest:
    """A request for a pod whose application is bound to a PropagationPolicy."""

    pod: str  # ns/name
    id: str  # its uid
    application: Application
    bound: BoundPolicy
    groups: tuple[str, ...]
    usage: QuotaUsage
    assigned: str = ""  # the group that the pod was made for by the webhook


class _PodNotSeen(Exception):
    """The informer has not seen the pod of the request yet."""


class GroupScheduling:
    """Answers kube-scheduler from a store. Requests may come from several threads."""

    def __init__(
        self,
        store: Store,
        *,
        legacy: bool = False,
        gate_override: bool = False,
        custom: Sequence[type[CustomApplication]] = (),
        fetch_owner: FetchOwner | None = None,
        plugins: PluginScores | None = None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """Takes `legacy` to list refused nodes also in FailedNodes, for schedulers before 1.22; `gate_override` to
        refuse pods until their application is bound to its OverridePolicy; `fetch_owner` (on a live cluster) to fetch
        owners that the informers have not seen; and `plugins` for pods without a policy.

        On a live cluster, pods that are pending at the start may have been answered by the previous leader.
        """
        self._refused = RefusedPods()
        self.reservations = Reservations(now, expired=self._refused.freed)
        self.waits = 0
        self.known_names: KnownNames | None = None
        self._store = store
        self._fetch_owner = fetch_owner
        self._plugins = plugins
        self._now = now
        self._legacy = legacy
        self._gate_override = gate_override
        self._changed = Condition()
        self._index = ClusterIndex(store, self._ended, custom, fetch_owner)
        if fetch_owner is not None:
            for name, pod in self._index.waiting():
                unit = unit_of(name, pod)
                self.reservations.put_stranger(pod.metadata.uid, unit)
                # The previous leader may have refused it because of a reservation that is lost now.
                self._refused.refused(unit, name, pod.metadata.uid)

    @property
    def reserved(self) -> int:
        return len(self.reservations)

    def use(self, custom: Sequence[type[CustomApplication]]) -> None:
        """Replaces the configured application kinds."""
        view = ClusterIndex(self._store, self._ended, custom, self._fetch_owner)
        with self._changed:
            self._index.close()
            self._index = view

    def _ended(self, name: str, pod: Pod) -> None:
        """Ends the reservation of a pod that is bound or deleted."""
        unit = unit_of(name, pod)
        self._refused.passed(unit, name)
        groups = self.reservations.end(pod.metadata.uid)
        if groups is not None and not (pod.spec.node_name and len(groups) == 1):
            self._refused.freed(unit)

    def to_wake(self) -> list[tuple[str, str]]:
        """Returns key and uid of pods that were refused because of reservations that have ended since."""
        with self._changed:
            self._index.refresh()
            self.reservations.expire()
            return [(name, uid) for name, uid in self._refused.take() if self._is_divided(name, uid)]

    def _is_divided(self, name: str, uid: str) -> bool:
        pod = self._index.pod(name)
        if pod is None or pod.metadata.uid != uid or not is_pending(pod):
            return False
        try:
            return isinstance(self._index.ruling(self._index.application(pod)), BoundPolicy)
        except (OwnerLoop, ApiError):
            return True  # an unnecessary retry is harmless

    # --- filter

    def filter(self, args: ExtenderArgs) -> FilterResult:
        """Returns the feasible nodes, and a reason for every other node."""
        try:
            try:
                return self._filtered(args, None)
            except _PodNotSeen:
                return self._filtered(args, self._fetch_pod(args.pod))
        except (OwnerLoop, ApiError) as fault:
            return FilterResult(error=str(fault))

    def _filtered(self, args: ExtenderArgs, known: Pod | None) -> FilterResult:
        """Filters with `known` as the pod in the cluster; with None it is looked up (_PodNotSeen if missing)."""
        with self._changed:
            request = self._policy_request(args.pod)
            if request is None:
                return self._free(args)
            if isinstance(request, PlacementRefusal):
                return self._result(args, dict.fromkeys(args.names, _text(request.text)), [])
            return self._divided(args, request, self._exists(request, known))

    def _fetch_pod(self, pod: Pod) -> Pod:
        """Fetches the pod from the API server; an empty Pod if it does not exist. Must be called without the lock."""
        assert self._fetch_owner is not None
        found = self._fetch_owner("Pod", key(pod), pod.metadata.uid)
        return found if isinstance(found, Pod) else Pod()

    def _exists(self, request: _PolicyRequest, known: Pod | None) -> bool:
        """Returns whether the pod exists and is pending; nothing is reserved for others. With a cluster in files,
        requests are about pods that are not in it."""
        if self._fetch_owner is None:
            return True
        seen = known or self._index.pod(request.pod)
        if seen is None or (known is None and seen.metadata.uid != request.id):
            raise _PodNotSeen
        same = seen.metadata.uid == request.id and unit_of(request.pod, seen) == request.application.unit
        return same and is_pending(seen)

    def _free(self, args: ExtenderArgs) -> FilterResult:
        """Filters a pod without a policy: all nodes are feasible, unless a plugin refuses them."""
        if self._plugins is None:
            return self._result(args, {}, args.names)
        refusals, _ = self._plugins.ask(args.pod)
        refused = {name: _text(refusals[name][0]) for name in args.names if name in refusals}
        result = self._result(args, refused, [name for name in args.names if name not in refused])
        # kube-scheduler may preempt on these nodes.
        resolvable = {name: why for name, why in refused.items() if refusals[name][1]}
        result.failed_nodes = {**result.failed_nodes, **resolvable}
        result.failed_and_unresolvable_nodes = {n: why for n, why in refused.items() if n not in resolvable}
        return result

    def _divided(self, args: ExtenderArgs, request: _PolicyRequest, exists: bool) -> FilterResult:
        group_of, there = self._groups(args, request)
        asked = [group for group in request.groups if group in there]
        wanted = [group for group in asked if group == request.assigned] if request.assigned else asked
        request, unsettled = self._settled(args.pod, request, wanted)
        reasons = self._reasons(request, asked, unsettled)
        passed = [group for group in wanted if reasons[group] is None]
        if exists:
            self._record(request, passed)
        self._changed.notify_all()
        outside = f"node is in no node group of PropagationPolicy {request.bound.policy}"
        reasons[None] = _text(request.usage.with_waiting(outside))
        kept: list[str] = []
        refused: dict[str, Raw] = {}
        for name, why in zip(args.names, _values(reasons, group_of), strict=True):
            if why is None:
                kept.append(name)
            else:
                refused[name] = why
        return self._result(args, refused, kept)

    def _record(self, request: _PolicyRequest, passed: list[str]) -> None:
        unit = request.application.unit
        if passed:
            self._refused.passed(unit, request.pod)
            self.reservations.put(request.id, unit, passed)
            return
        self._refused.refused(unit, request.pod, request.id)
        if self.reservations.end(request.id):
            self._refused.freed(unit)

    def _settled(self, pod: Pod, request: _PolicyRequest, wanted: list[str]) -> tuple[_PolicyRequest, list[str]]:
        """Waits until one group certainly accepts the pod or all refuse it.

        Returns the groups that may not accept it because of undecided pods, too.
        """
        until = self._now() + MAX_WAIT_S
        waited = False
        while True:
            # Without undecided pods there is nothing to wait for.
            answers = request.usage.acceptances(wanted) if request.usage.undecided.pods else {}
            found = set(answers.values())
            late = self._now() >= until or not self.reservations.are_coming(request.application.unit, request.id)
            if Acceptance.UNDECIDED not in found or Acceptance.YES in found or late:
                self.waits += waited
                # A group that accepts no pod wherever the undecided pods go may accept one without them.
                return request, [group for group, answer in answers.items() if answer != Acceptance.YES]
            waited = True
            self._changed.wait(_POLL_INTERVAL_S)
            latest = self._policy_request(pod)
            if not isinstance(latest, _PolicyRequest) or latest.groups != request.groups:
                return request, wanted  # the policy changed meanwhile: refuse, kube-scheduler retries the pod
            request = latest

    def _reasons(
        self, request: _PolicyRequest, asked: list[str], unsettled: list[str]
    ) -> dict[str | None, Raw | None]:
        """Returns the encoded refusal of each asked group of the policy; None if the group accepts the pod."""
        refusals = request.usage.refusals(asked)
        for group in unsettled:
            unclear = f"node group {group} may be full: other pods of {request.application} are being bound"
            refusals.setdefault(group, unclear)
        if request.assigned:
            for group in asked:
                if group != request.assigned:
                    refusals[group] = f"the pod was made for node group {request.assigned}, the node is in {group}"
        return {group: _text(refusals[group]) if group in refusals else None for group in asked}

    def _result(self, args: ExtenderArgs, refused: dict[str, Raw], kept: list[str]) -> FilterResult:
        result = FilterResult(failed_and_unresolvable_nodes=refused)
        if self._legacy:
            result.failed_nodes = refused
        if args.nodes is None:
            result.node_names = kept
        else:
            items = [raw for name, raw in zip(args.names, args.nodes, strict=True) if name not in refused]
            result.nodes = {"metadata": {}, "items": items}
        return result

    # --- prioritize

    def prioritize(self, args: ExtenderArgs) -> list[Score]:
        """Scores nodes by the number of pods that their group is missing; all nodes of a group are equal."""
        with self._changed:
            try:
                request = self._policy_request(args.pod)
            except (OwnerLoop, ApiError):
                request = None
            if not isinstance(request, _PolicyRequest):
                worths: dict[str, int] = {}
                if request is None and self._plugins is not None:
                    worths = scaled(self._plugins.ask(args.pod)[1], args.names)
                return [Score(name, worths.get(name, 0)) for name in args.names]
            group_of, there = self._groups(args, request)
            lacks = {group: request.usage.missing(group) for group in request.groups}
            most = max((lacks[group] for group in there if group is not None), default=0)
            worth: dict[str | None, int] = {group: score(n, most) for group, n in lacks.items()}
            worth[None] = 0
            return list(map(Score, args.names, _values(worth, group_of)))

    # --- preempt

    def preempt(self, args: PreemptionArgs) -> PreemptionResult:
        """Returns the nodes whose group accepts the pod after the victims are gone; never adds victims."""
        with self._changed:
            # kube-scheduler treats a node without victims as an error.
            offered = {node: victims for node, victims in args.victims.items() if victims.pods}
            try:
                request = self._policy_request(args.pod)
            except (OwnerLoop, ApiError):
                return PreemptionResult({})
            if request is None:
                return PreemptionResult(offered)
            if isinstance(request, PlacementRefusal):
                return PreemptionResult({})
            return PreemptionResult({n: v for n, v in offered.items() if self._accepts_after(request, n, v)})

    def _accepts_after(self, request: _PolicyRequest, node: str, victims: MetaVictims) -> bool:
        group = self._group(request.groups, node)
        if group is None or request.assigned not in ("", group):
            return False
        counts = dict(request.usage.counts)
        for victim in victims.pods:
            place = self._index.place(victim.uid)
            if place is not None and place[0] == request.application.unit:
                left = self._group(request.groups, place[1])
                if left is not None:
                    counts[left] = counts.get(left, 0) - 1
        return QuotaUsage(request.bound.quotas, counts, request.usage.undecided).accepts(group) == Acceptance.YES

    # --- shared

    def _policy_request(self, pod: Pod) -> _PolicyRequest | PlacementRefusal | None:
        self._index.refresh()
        application = self._index.application(pod)
        why = unbound_reason(application.labels, PolicyLabels.OVERRIDE) if self._gate_override else None
        if why is not None:
            return PlacementRefusal("unbound", f"{application}: {why}")
        ruling = self._index.ruling(application)
        if not isinstance(ruling, BoundPolicy):
            return ruling
        name = key(pod)
        id_ = pod.metadata.uid or name
        groups = tuple(ruling.rules.groups)
        counts = self._index.counts(application.unit, groups, but=name)
        certain, maybe = self.reservations.of(application.unit, id_, groups)
        for group, n in certain.items():
            counts[group] = counts.get(group, 0) + n
        assigned = pod.metadata.labels.get(ASSIGNED, "")
        usage = QuotaUsage(ruling.quotas, counts, maybe, self._index.grouping.groups_without_nodes(ruling.rules))
        return _PolicyRequest(name, id_, application, ruling, groups, usage, assigned)

    def _groups(self, args: ExtenderArgs, request: _PolicyRequest) -> tuple[Sequence[str | None], set[str | None]]:
        """Returns the group of each requested node, and the set of these groups."""
        grouping, groups = self._index.grouping, request.groups
        self.known_names = grouping.known_names
        known = grouping.group_of_every(groups)
        try:
            found = _values(known, args.names)
        except KeyError:
            labels: Iterable[dict[str, str]] = args.labels or repeat({})
            found = [
                known[name] if name in known else grouping.group_of_unlisted_node(groups, name, its)
                for name, its in zip(args.names, labels, strict=False)
            ]
        return found, set(found)

    def _group(self, groups: tuple[str, ...], node: str) -> str | None:
        grouping = self._index.grouping
        known = grouping.group_of_every(groups)
        return known[node] if node in known else grouping.group_of_unlisted_node(groups, node, {})


K = TypeVar("K")
V = TypeVar("V")


def _values(table: Mapping[K, V], keys: Sequence[K]) -> Sequence[V]:
    """Returns the values of the keys; raises KeyError if one is missing. A comprehension takes twice the time."""
    return itemgetter(*keys)(table) if len(keys) > 1 else [table[key] for key in keys]


@lru_cache(maxsize=16384)
def _text(text: str) -> Raw:
    """Encodes a reason once for all nodes that share it."""
    return Raw(msgspec.json.encode(text))
