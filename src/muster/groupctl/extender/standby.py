"""Answers requests while the extender cannot decide: its informers have not synced, or another replica is the leader.

Most pods have no policy and must not wait. The API server is asked for the owners of a pod to find out. If that fails,
or the pod has a policy, the answer is an error, and kube-scheduler retries the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import msgspec
from msgspec import Raw

from muster.groupctl.owners import FetchOwner, owner_lookup
from muster.groups.applications import OwnerLoop, application_of
from muster.groups.binding import BindingState, PolicyLabels, binding_state, hold_reason, unbound_reason
from muster.model.core import Pod
from muster.model.extender import ExtenderArgs, FilterResult, PreemptionArgs, PreemptionResult, Score
from muster.model.meta import controller, key
from muster.store import ApiError


class StandbyScheduling:
    """Answers for pods without a policy. `ask` fetches owners, `why` returns what the extender waits for, and `custom`
    the names of the configured kinds (None if they are not known yet)."""

    reserved = waits = 0

    def __init__(
        self,
        ask: FetchOwner,
        why: Callable[[], str],
        custom: Callable[[], Collection[str] | None],
        *,
        gate_override: bool = False,
    ) -> None:
        self._ask = ask
        self._why = why
        self._custom = custom
        self._refused = hold_reason if gate_override else _propagation

    def filter(self, args: ExtenderArgs) -> FilterResult:
        try:
            labels = self._labels(args.pod)
        except (OwnerLoop, ApiError) as fault:
            return FilterResult(error=str(fault))
        refused = self._refused(labels)
        if refused is not None:
            text = Raw(msgspec.json.encode(refused))
            result = FilterResult(failed_and_unresolvable_nodes=dict.fromkeys(args.names, text))
            kept: list[Raw] = []
        elif binding_state(labels, PolicyLabels.PROPAGATION) == BindingState.BOUND:
            return FilterResult(error=self._why())
        else:
            result, kept = FilterResult(), args.nodes or []
        if args.nodes is None:
            result.node_names = [] if refused is not None else args.names
        else:
            result.nodes = {"metadata": {}, "items": kept}
        return result

    def prioritize(self, args: ExtenderArgs) -> list[Score]:
        return [Score(name, 0) for name in args.names]

    def preempt(self, args: PreemptionArgs) -> PreemptionResult:
        try:
            labels = self._labels(args.pod)
            bound = binding_state(labels, PolicyLabels.PROPAGATION) == BindingState.BOUND
            free = not bound and self._refused(labels) is None
        except (OwnerLoop, ApiError):
            free = False
        return PreemptionResult({n: v for n, v in args.victims.items() if free and v.pods})

    def _labels(self, pod: Pod) -> dict[str, str]:
        """Returns the labels of the pod's application, which bind it to policies."""
        direct = controller(pod.metadata)
        if direct is None:
            return pod.metadata.labels
        custom = self._custom()
        top = application_of(pod, owner_lookup(pod, {}, self._ask), custom or ()).object
        if custom is None and controller(top.metadata) is not None:
            raise ApiError(self._why(), f"the owner of {type(top).__name__} {key(top)} may be an application")
        return top.metadata.labels


def _propagation(labels: Mapping[str, str]) -> str | None:
    return unbound_reason(labels, PolicyLabels.PROPAGATION)
