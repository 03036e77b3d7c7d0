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
from muster.groupctl.controllers.conditions import merge_conditions
from muster.groupctl.controllers.evictions import EvictionQueue
from muster.groupctl.controllers.object_cache import Ref
from muster.groupctl.controllers.retries import Retries
from muster.groups.binding import DOMAIN, PolicyLabels, unusable_name
from muster.groups.propagation import PolicyProblem
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.groups import BoundApplication, OverridePolicy, PolicyStatus, PropagationPolicy
from muster.model.meta import Condition, Object
from muster.model.meta import key as key_of
from muster.store import NotFound, Severity, Store

# Says why an application may not be bound to a policy (its name); None: it may.
Check = Callable[[Object, str], str | None]


class Binding:
    """Keeps one pair of labels. Every check must agree before an application is bound."""

    def __init__(self, store: Store, pair: PolicyLabels, checks: Sequence[Check]) -> None:
        self._store = store
        self._pair = pair
        self._checks = checks
        self._reported: dict[tuple[str, str], str] = {}  # application → what it was last told

    def update(self, app: Object) -> str | None:
        """The policy the application is bound to now; None if to none."""
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
            self._report(app, Severity.NORMAL, "Bound", f"bound to {pair.value} {bound}")
        elif why:
            self._report(app, Severity.WARNING, "PolicyNotFound" if "not found" in why else "PolicyInvalid", why)
        return bound or None

    def _report(self, app: Object, severity: Severity, reason: str, message: str) -> None:
        at = (type(app).__name__, key_of(app))
        if self._reported.get(at) != message:
            self._reported[at] = message
            self._store.event(app, severity, reason, message)


OBSERVED = f"{DOMAIN}/observed"


def nudge(store: Store, pods: Iterable[Pod], seen: object) -> bool:
    """Mark the pods with what was seen; whether one had another mark before."""
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


_POLICY = ""  # in the place of an application's kind, where a policy's status is to be written again
_REASONS = {"using": "GroupNameCase", "there is no node group": "GroupUnknown", "has no nodes": "GroupEmpty"}

P = TypeVar("P", PropagationPolicy, OverridePolicy)


@dataclass(slots=True)
class ApplicationStatus:
    """What is told of one application in its policy's status."""

    status: BoundApplication


R = TypeVar("R", bound=ApplicationStatus)


class PolicyController(ABC, Generic[P, R]):
    """`custom`: the kinds of applications that are configured; `report` hears of writes that were refused."""

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
        """`rule`: by which it evicts pods. `marks`: annotations of applications that it is not done with."""
        self._store = store
        self._evictions = evictions
        self._rule = rule
        self._kind: type[P] = kind
        self._pair = pair
        self._retries: Retries[Ref] = Retries(report)
        self._apps = ApplicationIndex(store, pair, custom, marks)
        self._binding = Binding(store, pair, (self._invalid_reason,))
        self._warned: dict[str, list[str]] = {}
        self._records: dict[Ref, tuple[str, R]] = {}  # application → policy key, what is told of it
        self._wrote = False

    def run(self) -> bool:
        """Do what is to be done now; whether anything was written."""
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
        """When something that waits for nothing but time goes on, or a write is tried again."""
        times: list[float | None] = [at for _, at in self._due_times()]
        times += [self._retries.next_time(), self._evictions.next_time(self._rule)]
        return min((at for at in times if at is not None), default=None)

    # --- what the controllers themselves know

    @abstractmethod
    def _due_times(self) -> Iterator[tuple[Ref, float]]:
        """Applications that are to be looked at again, and when."""

    @abstractmethod
    def _invalid_reason(self, app: Object, policy: str) -> str | None:
        """The check before binding: why the policy cannot be used; None: it is there and can be."""

    @abstractmethod
    def _reconcile(self, ref: Ref, app: Object, policy: P) -> R:
        """Work on an application that is bound; what is to be told of it."""

    @abstractmethod
    def _on_unbind(self, ref: Ref, app: Object | None, before: str) -> None:
        """The application is bound no more (`before`: the policy it was bound to), or gone."""

    @abstractmethod
    def _policy_warnings(self, policy: P) -> list[PolicyProblem]:
        """What is wrong or odd about the policy, to be told in Events."""

    @abstractmethod
    def _conditions(self, policy: P, records: list[R]) -> Iterator[Condition]:
        """How the policy stands."""

    # --- one application

    def _reconcile_application(self, ref: Ref) -> Iterator[str]:
        """Put one application right; the policies of which there is something new to tell."""
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

    # --- what is told

    def _update_status(self, key: str) -> None:
        policy = self._apps.cache.of(self._kind).get(key)
        if policy is None:
            self._warned.pop(key, None)
            return
        self._warn(policy)
        records = [record for of, record in (self._records[ref] for ref in sorted(self._records)) if of == key]
        words = self._conditions(policy, records)
        status = PolicyStatus(
            observed_generation=policy.metadata.generation,
            conditions=merge_conditions(policy.status.conditions, words, self._store.clock.now()),
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
            self._store.event(policy, Severity.NORMAL, "Satisfied", f"{len(records)} applications are as desired")

    def _warn(self, policy: P) -> None:
        """What is odd about the policy, as events, once."""
        key, said = key_of(policy), [str(trouble) for trouble in self._policy_warnings(policy)]
        if (why := unusable_name(policy.metadata.name)) is not None:
            said.append(f"metadata.name: {why}")
        for text in said:
            if text not in self._warned.get(key, ()):
                reason = next((reason for word, reason in _REASONS.items() if word in text), "PolicyWarning")
                self._store.event(policy, Severity.WARNING, reason, text)
        self._warned[key] = said


def _is_satisfied(status: PolicyStatus) -> bool:
    return any(c.type == "Satisfied" and c.status == "True" for c in status.conditions)
