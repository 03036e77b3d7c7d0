"""The base of the controllers of policies: which applications to reconcile, their binding, and the policies' statuses.

One run takes in the changes, updates the binding label of each application that they affect, lets the controller
reconcile the bound applications, and writes the statuses of the policies whose applications changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from zlib import crc32

from msgspec.structs import replace

from muster.groupctl.controllers.application_index import ApplicationIndex
from muster.groupctl.controllers.eviction_queue import EvictionQueue
from muster.groupctl.controllers.object_cache import Ref
from muster.groupctl.controllers.retries import Retries
from muster.groups.applications import DOMAIN, PolicyLabels, unusable_name
from muster.groups.propagation import PolicyProblem
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.groups import BoundApplication, OverridePolicy, PolicyStatus, PropagationPolicy
from muster.model.meta import Condition, Object, merge_conditions
from muster.model.meta import key as key_of
from muster.store import NotFound, Severity, Store
from muster.store.event_reasons import EventReason

# Returns why an application may not be bound to the policy of that name; None: it may.
Check = Callable[[Object, str], str | None]


class Binding:
    """Sets and removes the binding label of applications. A policy is bound only if no check objects."""

    def __init__(self, store: Store, pair: PolicyLabels, checks: Sequence[Check]) -> None:
        self._store = store
        self._pair = pair
        self._checks = checks
        self._reported: dict[tuple[str, str], str] = {}  # application → the last reported message

    def update(self, app: Object) -> str | None:
        """Updates the binding label; returns the policy that the application is bound to now, None: none."""
        pair, labels = self._pair, app.metadata.labels
        required, binding = labels.get(pair.required, ""), labels.get(pair.binding, "")
        why = next((w for check in self._checks if (w := check(app, required)) is not None), None) if required else ""
        bound = required if why is None else ""
        if bound != binding:
            try:
                self._store.patch(type(app), key_of(app), {"metadata": {"labels": {pair.binding: bound or None}}})
            except NotFound:
                return None
        if bound and bound != binding:
            self._report(app, Severity.NORMAL, EventReason.BOUND, f"bound to {pair.value} {bound}")
        elif why:
            reason = EventReason.POLICY_NOT_FOUND if "not found" in why else EventReason.POLICY_INVALID
            self._report(app, Severity.WARNING, reason, why)
        return bound or None

    def _report(self, app: Object, severity: Severity, reason: EventReason, message: str) -> None:
        at = (type(app).__name__, key_of(app))
        if self._reported.get(at) != message:
            self._reported[at] = message
            self._store.event(app, severity, reason, message)


OBSERVED = f"{DOMAIN}/observed"
"""The label of a pending pod that is changed so that kube-scheduler tries the pod again."""


def request_scheduling_retry(store: Store, pods: Iterable[Pod], seen: object) -> bool:
    """Labels pending pods with a hash of what they were refused for, if it changed; whether anything was written.

    kube-scheduler watches neither applications nor policies. In all versions it retries a pod that an extender refused
    when a label of the pod changes.
    """
    mark = f"{crc32(repr(seen).encode()):08x}"
    wrote = False
    for pod in pods:
        if pod.metadata.labels.get(OBSERVED) != mark:
            try:
                store.patch(Pod, key_of(pod), {"metadata": {"labels": {OBSERVED: mark}}})
                wrote = True
            except NotFound:
                continue
    return wrote


_POLICY = ""  # in place of an application's kind: the key of a policy whose status is to be written again
_REASONS = {
    "using": EventReason.GROUP_NAME_CASE,
    "there is no node group": EventReason.GROUP_UNKNOWN,
    "has no nodes": EventReason.GROUP_EMPTY,
}

P = TypeVar("P", PropagationPolicy, OverridePolicy)


@dataclass(slots=True)
class ApplicationStatus:
    """One application's entry in its policy's status."""

    status: BoundApplication


R = TypeVar("R", bound=ApplicationStatus)


class PolicyController(ABC, Generic[P, R]):
    """The base of the controllers of policies. `custom`: the configured custom kinds; `report` gets refused writes."""

    def __init__(
        self,
        store: Store,
        evictions: EvictionQueue,
        rule: str,
        kind: type[P],
        pair: PolicyLabels,
        custom: Sequence[type[CustomApplication]],
        report: Callable[[str], None],
        marks: Sequence[str] = (),
    ) -> None:
        """`rule`: the name of its evictions. `marks`: annotations of applications that it has to clean up."""
        self._store = store
        self._evictions = evictions
        self._rule = rule
        self._kind: type[P] = kind
        self._pair = pair
        self._retries: Retries[Ref] = Retries(report)
        self._apps = ApplicationIndex(store, pair, custom, marks)
        self._binding = Binding(store, pair, (self._invalid_reason,))
        self._warned: dict[str, list[str]] = {}
        self._records: dict[Ref, tuple[str, R]] = {}  # application → policy key, its status
        self._wrote = False

    def run(self) -> bool:
        """Does everything that is due now; whether anything was written."""
        dirty = self._apps.take_changed()
        now = self._store.clock.now()
        policies, self._apps.policies = self._apps.policies, {}
        dirty.update({ref: None for ref, at in self._due_times() if at <= now})
        for kind, key in self._retries.due(now):
            if kind == _POLICY:
                policies[key] = None
            else:
                dirty[kind, key] = None
        self._wrote = False
        for ref in sorted(dirty):
            with self._retries.attempt(ref, now):
                for policy in self._reconcile_application(ref):
                    policies[policy] = None
        self._wrote = self._evictions.grant(self._rule) or self._wrote
        for key in sorted(policies):
            with self._retries.attempt((_POLICY, key), now):
                self._update_status(key)
        return self._wrote

    def next_time(self) -> float | None:
        """When an application is to be reconciled again, or a write retried, without a change of an object."""
        times: list[float | None] = [at for _, at in self._due_times()]
        times += [self._retries.next_time(), self._evictions.next_time(self._rule)]
        return min((at for at in times if at is not None), default=None)

    # --- what each controller implements

    @abstractmethod
    def _due_times(self) -> Iterator[tuple[Ref, float]]:
        """The applications to reconcile again, and when."""

    @abstractmethod
    def _invalid_reason(self, app: Object, policy: str) -> str | None:
        """Why the application must not be bound to the policy: it does not exist or is invalid; None: it may be."""

    @abstractmethod
    def _reconcile(self, ref: Ref, app: Object, policy: P) -> R:
        """Reconciles a bound application; returns its status."""

    @abstractmethod
    def _on_unbind(self, ref: Ref, app: Object | None, before: str) -> None:
        """Cleans up after an application that was unbound from the policy `before`, or deleted."""

    @abstractmethod
    def _policy_warnings(self, policy: P) -> list[PolicyProblem]:
        """The errors and warnings about the policy, which are reported as Events."""

    @abstractmethod
    def _conditions(self, policy: P, records: list[R]) -> Iterator[Condition]:
        """The conditions of the policy."""

    # --- one application

    def _reconcile_application(self, ref: Ref) -> Iterator[str]:
        """Updates the binding of one application and reconciles it; yields the policies whose status may change."""
        self._evictions.withdraw(self._rule, ref)
        known = self._records.pop(ref, None)
        if known is not None:
            yield known[0]
        app = self._apps.get(ref)
        bound = None if app is None else self._binding.update(app)
        before = "" if app is None else app.metadata.labels.get(self._pair.binding, "")
        self._wrote = self._wrote or before != (bound or "")
        if app is None or bound is None:
            self._on_unbind(ref, app, before)
            return
        key = f"{app.metadata.namespace or 'default'}/{bound}"
        self._records[ref] = key, self._reconcile(ref, app, self._apps.cache.of(self._kind)[key])
        yield key

    # --- status and events

    def _update_status(self, key: str) -> None:
        policy = self._apps.cache.of(self._kind).get(key)
        if policy is None:
            self._warned.pop(key, None)
            return
        self._warn(policy)
        records = [record for of, record in (self._records[ref] for ref in sorted(self._records)) if of == key]
        conditions = self._conditions(policy, records)
        status = PolicyStatus(
            observed_generation=policy.metadata.generation,
            conditions=merge_conditions(policy.status.conditions, conditions, self._store.clock.now()),
            applications=[record.status for record in records],
        )
        if status == policy.status:
            return
        try:
            self._store.update_status(replace(policy, status=status))
            self._wrote = True
        except NotFound:
            return
        if records and _is_satisfied(status) and not _is_satisfied(policy.status):
            text = f"{len(records)} applications are as desired"
            self._store.event(policy, Severity.NORMAL, EventReason.SATISFIED, text)

    def _warn(self, policy: P) -> None:
        """Reports each warning about the policy once, as an Event."""
        key, texts = key_of(policy), [str(problem) for problem in self._policy_warnings(policy)]
        if (why := unusable_name(policy.metadata.name)) is not None:
            texts.append(f"metadata.name: {why}")
        for text in texts:
            if text not in self._warned.get(key, ()):
                reason = next((reason for word, reason in _REASONS.items() if word in text), EventReason.POLICY_WARNING)
                self._store.event(policy, Severity.WARNING, reason, text)
        self._warned[key] = texts


def _is_satisfied(status: PolicyStatus) -> bool:
    return any(c.type == "Satisfied" and c.status == "True" for c in status.conditions)
