"""PropagationPolicyController: binds applications to their policies, and evicts pods that are in the wrong node group.

Pods on nodes of no group of the policy are misplaced, pods beyond a group's number are redundant. Both are evicted only
if their replacement has a place to go to and somebody is alive who brings it there, at the pace of `pace`, past the
guards of `leaving`. A replacement that lands in the wrong place is a failure (`replacements`). The groups of a
DaemonSet become a node affinity of its pods (`daemonsets`). What holds is written into the policies' statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from muster.groupctl.controllers.bound import PolicyController
from muster.groupctl.controllers.daemonsets import MARK, DaemonSetAffinity
from muster.groupctl.controllers.divided import Division
from muster.groupctl.controllers.evictions import SPARE, Evictions, Request
from muster.groupctl.controllers.leaving import REPLACED, ranked, spared
from muster.groupctl.controllers.nudge import nudge
from muster.groupctl.controllers.pace import SETTLE, Pace
from muster.groupctl.controllers.policy_status import Placed, application_status, policy_conditions, unmet
from muster.groupctl.controllers.replacements import Placer, Placing, always, kept, landed_wrong, recovered, wrong_text
from muster.groupctl.controllers.retries import unheard
from muster.groupctl.controllers.seats import seat_rate, write_seats
from muster.groupctl.controllers.states import finished
from muster.groupctl.controllers.tables import Ref
from muster.groups.applications import Application
from muster.groups.gate import Pair
from muster.groups.propagation import Propagation, Trouble
from muster.groups.standing import Standing
from muster.model.batch import DaemonSet, StatefulSet
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.groups import OverridePolicy, PropagationPolicy
from muster.model.meta import Condition, Object
from muster.model.meta import key as key_of
from muster.store import Severity, Store

RULE = "propagation"
# Of so many pods at least it is known that they are about to be evicted.
_ANNOUNCED = 100


def _unheard(app: Object, scheduler: str) -> None:
    """For whom it is nobody's business."""


class PropagationPolicyController(PolicyController[PropagationPolicy, Placed]):
    """`nudge`: touch pending pods when something changes for them, as kube-scheduler needs it to try them again.

    `seats`: write them on pods as their deletion cost. `placer`: who places replacements, by schedulerName.
    `failed` is called for every replacement that landed in the wrong place, with the schedulerName.
    `daemonset_affinity`: write the groups of a DaemonSet into its pod template; why not, if they are only reported.
    """

    def __init__(
        self,
        store: Store,
        evictions: Evictions,
        *,
        nudge: bool = True,
        seats: bool = False,
        settle: float = SETTLE,
        placer: Placer = always,
        failed: Callable[[Object, str], None] = _unheard,
        daemonset_affinity: str = "",
        custom: Sequence[type[CustomApplication]] = (),
        report: Callable[[str], None] = unheard,
    ) -> None:
        super().__init__(store, evictions, RULE, PropagationPolicy, Pair.PROPAGATION, custom, report, marks=(MARK,))
        self._nudge = nudge
        self._placer = placer
        self._failed = failed
        self._daemonsets = DaemonSetAffinity(store, daemonset_affinity)
        self._held: dict[Ref, tuple[str, str]] = {}  # applications that wait for a placer: schedulerName, and why
        self._seats = seats
        self._seat_rate = seat_rate()
        self._settle = settle
        self._paces: dict[Ref, Pace] = {}

    @property
    def paused(self) -> int:
        """How many applications have no pods evicted because their replacements failed."""
        return sum(1 for pace in list(self._paces.values()) if pace.failures)

    def _alarms(self) -> Iterator[tuple[Ref, float]]:
        yield from ((ref, pace.wake) for ref, pace in self._paces.items() if pace.wake is not None)
        yield from self._daemonsets.wakes()
        for ref, (scheduler, why) in self._held.items():
            if self._placer(scheduler) != why:
                yield ref, 0.0  # at once: a clock that goes on is later at every look

    # --- one application

    def _put_right(self, ref: Ref, app: Object, policy: PropagationPolicy) -> Placed:
        meant = self._apps.grouping.policies.read(key_of(policy))
        assert meant is not None  # the binding was checked against it
        pace = self._paces.get(ref)
        if pace is None:
            pace = self._paces[ref] = recovered(policy, app, self._settle)
        divided = self._divided(app, policy.metadata.name, meant)
        divided.closed = self._apps.grouping.closed(meant)
        self._rebalance(ref, divided, pace, policy)
        if self._seats and not self._apps.rolling(app):
            wrote, again = write_seats(self._store, divided, Application(app, ref), self._seat_rate)
            self._wrote = self._wrote or wrote
            if again is not None:
                pace.wake = again if pace.wake is None else min(pace.wake, again)
        told = application_status(divided)
        if isinstance(app, DaemonSet):
            unlabelled = self._apps.unlabelled(meant.groups)
            found = self._daemonsets.express(app, meant.groups, unlabelled)
            wrote, told.node_affinity, told.node_affinity_message = found
            self._wrote = self._wrote or wrote
        return Placed(told, unmet(divided, pace), pace)

    def _let_go(self, ref: Ref, app: Object | None, before: str) -> None:
        self._paces.pop(ref, None)
        self._held.pop(ref, None)
        self._evictions.announce(ref, frozenset())
        # While a policy is required that cannot be used, pods wait: new ones in other places would only wait, too.
        if isinstance(app, DaemonSet) and not app.metadata.labels.get(Pair.PROPAGATION.required):
            self._wrote = self._daemonsets.take_back(app) or self._wrote

    def _good(self, app: Object, policy: str) -> str | None:
        meant = self._apps.grouping.policies.read(f"{app.metadata.namespace or 'default'}/{policy}")
        if meant is None:
            return f"PropagationPolicy {policy} not found"
        return f"PropagationPolicy {policy} cannot be used: {meant.errors[0]}" if meant.errors else None

    def _divided(self, app: Object, policy: str, meant: Propagation) -> Division:
        as_one = Application(app, (type(app).__name__, key_of(app)))
        found = Division(app, policy, meant, meant.quotas(as_one.replicas, as_one.uid))
        group_of = self._apps.grouping.group_of(tuple(meant.groups))
        for pods in self._apps.units(app):
            for pod in pods:
                if self._evictions.goes(pod):
                    found.leaving += not finished(pod)
                elif not pod.spec.node_name:
                    found.pending.append(pod)
                elif (group := group_of.get(pod.spec.node_name)) is not None:
                    found.current.setdefault(group, []).append(pod)
                else:
                    found.misplaced.append(pod)
        return found

    # --- evictions

    def _rebalance(self, ref: Ref, divided: Division, pace: Pace, policy: PropagationPolicy) -> None:
        now, app, replicas = self._store.clock.now(), divided.app, divided.quotas.replicas
        inputs = (divided.policy, tuple(divided.quotas.groups.items()), self._apps.version)
        if self._nudge and pace.inputs != inputs:
            self._touch(divided)
        placing = Placing.of(app, self._override_of(app))
        pace.look(inputs, now, remedy=placing.remedy(policy))
        self._evictions.announce(ref, frozenset())
        self._held.pop(ref, None)
        if not isinstance(app, REPLACED) and divided.misplaced:
            bare = isinstance(app, Pod)
            why = "nobody would make it again" if bare else f"pods of a {type(app).__name__} are never evicted"
            divided.spared.update({key_of(pod): why for pod in sorted(divided.misplaced, key=key_of)})
            self._evictions.blocked(app, divided.spared)
        if not isinstance(app, REPLACED) or replicas is None or self._apps.rolling(app):
            return
        standing = Standing(divided.quotas, divided.counts)
        excess = standing.excess()
        if not excess and not divided.misplaced:
            if not divided.moving:
                pace.forgive()
                pace.since = None
            return
        self._judge(divided, excess, pace, placing, policy)
        divided.hold = self._placer(placing.scheduler)
        if divided.hold:
            self._held[ref] = placing.scheduler, divided.hold
            return
        lacking = sum(standing.lack(group) for group in self._apps.open_groups(divided.meant.groups))
        budget = lacking - len(divided.pending) - divided.leaving
        if budget <= 0:
            return
        room = min(budget, pace.room(replicas, divided.moving, len(divided.pending), now))
        found = list(islice(self._candidates(divided, excess), max(min(budget, _ANNOUNCED), room + SPARE)))
        if now >= pace.paused_until:
            self._evictions.announce(ref, frozenset(pod.metadata.uid for pod in found[:budget]))
        by = ("PropagationPolicy", divided.policy)
        request = Request(app, by, found, room, divided.moving, pace, f"as {' '.join(by)} wants it")
        self._evictions.request(RULE, ref, request)
        if not found:
            self._evictions.blocked(app, divided.spared)

    def _judge(
        self, divided: Division, excess: dict[str, int], pace: Pace, placing: Placing, policy: PropagationPolicy
    ) -> None:
        """Did a replacement land where it does not belong? Evicting more would only repeat that."""
        wrong = landed_wrong(divided, excess, pace)
        if wrong is None:
            return
        text = wrong_text(*wrong, placing)
        if pace.came_wrong(text, self._store.clock.now()):
            self._failed(divided.app, placing.scheduler)
            for about in (divided.app, policy):
                self._store.event(about, Severity.WARNING, "WrongGroup", text)

    def _override_of(self, app: Object) -> OverridePolicy | None:
        name = app.metadata.labels.get(Pair.OVERRIDE.binding, "")
        return self._apps.tables.of(OverridePolicy).get(f"{app.metadata.namespace or 'default'}/{name}")

    def _candidates(self, divided: Division, excess: dict[str, int]) -> Iterator[Pod]:
        """Misplaced pods, then redundant ones of the group that has most too many; never those that are spared."""
        yield from self._unspared(divided, divided.misplaced, len(divided.misplaced))
        for group in sorted(excess, key=lambda g: -excess[g]):
            yield from self._unspared(divided, divided.current[group], excess[group])

    def _unspared(self, divided: Division, pods: list[Pod], most: int) -> Iterator[Pod]:
        for pod in ranked(pods, by_ordinal=isinstance(divided.app, StatefulSet)):
            if most <= 0:
                return
            why = spared(pod, self._apps.tables)
            if why is None:
                most -= 1
                yield pod
            else:
                divided.spared[key_of(pod)] = why

    def _touch(self, divided: Division) -> None:
        group_of = self._apps.grouping.group_of(tuple(divided.meant.groups))
        seen = (divided.policy, list(divided.quotas.groups.items()), sorted(group_of.items()))
        self._wrote = nudge(self._store, divided.pending, seen) or self._wrote

    # --- what is told

    def _troubles(self, policy: PropagationPolicy) -> list[Trouble]:
        meant = self._apps.grouping.policies.read(key_of(policy))
        if meant is None:
            return []
        return [*meant.errors, *meant.warnings, *self._empty(meant), *self._overlaps(meant)]

    def _empty(self, meant: Propagation) -> Iterator[Trouble]:
        for group in self._apps.grouping.closed(meant):
            if group not in meant.unknown:
                yield Trouble("spec", f"node group {group} has no nodes: its share waits", "add a node, or its label")

    def _overlaps(self, meant: Propagation) -> Iterator[Trouble]:
        shared = self._apps.grouping.shared(tuple(meant.groups))
        for node, groups in list(shared.items())[:1]:
            others = f", and so for {len(shared) - 1} others" if len(shared) > 1 else ""
            message = f"node {node} is in {' and '.join(groups)}: it counts for {groups[0]}, named first{others}"
            yield Trouble("spec", message, "name the group first that shall have it")

    def _conditions(self, policy: PropagationPolicy, records: list[Placed]) -> Iterator[Condition]:
        meant = self._apps.grouping.policies.read(key_of(policy))
        assert meant is not None  # it is among the policies that the grouping was made of
        empty = [trouble.message for trouble in self._empty(meant)]
        for record in records:
            record.told = replace(record.told, evictions=kept(record.pace))  # after the evictions of this turn
        yield from policy_conditions(meant, empty, records, policy.metadata.generation)
