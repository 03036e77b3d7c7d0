"""PropagationPolicyController: binds applications to their policies, and evicts pods that are in the wrong node group.

Pods on nodes of no group of the policy are misplaced, pods beyond a group's number are redundant; both go only where
their replacement has a place to go to, at the pace of `pace`, past the guards of `leaving`. What holds is written into
the policies' statuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from muster.controllers.bound import PolicyController, Told
from muster.controllers.divided import Division
from muster.controllers.evictions import Evictions
from muster.controllers.leaving import REPLACED, ranked, spared
from muster.controllers.nudge import nudge
from muster.controllers.pace import SETTLE, Pace
from muster.controllers.policy_status import application_status, policy_conditions
from muster.controllers.retries import unheard
from muster.controllers.seats import seat_rate, write_seats
from muster.controllers.states import finished
from muster.controllers.tables import Ref
from muster.groups.applications import Application
from muster.groups.gate import Pair
from muster.groups.propagation import Propagation, Trouble
from muster.groups.standing import Standing
from muster.model.batch import StatefulSet
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.groups import PropagationPolicy
from muster.model.meta import Condition, Object
from muster.model.meta import key as key_of
from muster.store import Store

RULE = "propagation"


class PropagationPolicyController(PolicyController[PropagationPolicy, Told]):
    """`nudge`: touch pending pods when something changes for them, as kube-scheduler needs it to try them again.

    `seats`: write them on pods as their deletion cost.
    """

    def __init__(
        self,
        store: Store,
        evictions: Evictions,
        *,
        nudge: bool = True,
        seats: bool = False,
        settle: float = SETTLE,
        custom: Sequence[type[CustomApplication]] = (),
        report: Callable[[str], None] = unheard,
    ) -> None:
        super().__init__(store, PropagationPolicy, Pair.PROPAGATION, custom, report)
        self._evictions = evictions
        self._nudge = nudge
        self._seats = seats
        self._seat_rate = seat_rate()
        self._settle = settle
        self._paces: dict[Ref, Pace] = {}

    def _alarms(self) -> Iterator[tuple[Ref, float]]:
        return ((ref, pace.wake) for ref, pace in self._paces.items() if pace.wake is not None)

    # --- one application

    def _put_right(self, ref: Ref, app: Object, policy: PropagationPolicy) -> Told:
        meant = self._apps.grouping.policies.read(key_of(policy))
        assert meant is not None  # the binding was checked against it
        pace = self._paces.setdefault(ref, Pace(self._settle))
        divided = self._divided(app, policy.metadata.name, meant)
        self._rebalance(divided, pace)
        if self._seats and not self._apps.rolling(app):
            wrote, again = write_seats(self._store, divided, Application(app, ref), self._seat_rate)
            self._wrote = self._wrote or wrote
            if again is not None:
                pace.wake = again if pace.wake is None else min(pace.wake, again)
        return Told(application_status(divided, pace.stopped))

    def _let_go(self, ref: Ref, app: Object | None, before: str) -> None:
        self._paces.pop(ref, None)

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

    def _rebalance(self, divided: Division, pace: Pace) -> None:
        now = self._store.clock.now()
        inputs = (divided.policy, tuple(divided.quotas.groups.items()), self._apps.version)
        if self._nudge and pace.inputs != inputs:
            self._touch(divided)
        pace.look(inputs, now)
        app, replicas = divided.app, divided.quotas.replicas
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
            return
        lacking = sum(standing.lack(group) for group in self._apps.open_groups(divided.meant.groups))
        budget = lacking - len(divided.pending) - divided.leaving
        if budget <= 0:
            return
        room = min(budget, pace.room(replicas, divided.moving, len(divided.pending), now))
        policy = ("PropagationPolicy", divided.policy)
        candidates = self._candidates(divided, excess)
        wrote = self._evictions.some(candidates, room, app, policy, RULE, pace, f"as {' '.join(policy)} wants it")
        self._wrote = self._wrote or wrote
        if not wrote and room > 0:
            self._evictions.blocked(app, divided.spared)

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
        held = set(self._apps.grouping.group_of(tuple(meant.groups)).values())
        for group in meant.groups:
            if group not in held and group not in meant.unknown:
                yield Trouble("spec", f"node group {group} has no nodes: its share waits", "add a node, or its label")

    def _overlaps(self, meant: Propagation) -> Iterator[Trouble]:
        shared = self._apps.grouping.shared(tuple(meant.groups))
        for node, groups in list(shared.items())[:1]:
            others = f", and so for {len(shared) - 1} others" if len(shared) > 1 else ""
            message = f"node {node} is in {' and '.join(groups)}: it counts for {groups[0]}, named first{others}"
            yield Trouble("spec", message, "name the group first that shall have it")

    def _conditions(self, policy: PropagationPolicy, records: list[Told]) -> Iterator[Condition]:
        meant = self._apps.grouping.policies.read(key_of(policy))
        assert meant is not None  # it is among the policies that the grouping was made of
        empty = [trouble.message for trouble in self._empty(meant)]
        yield from policy_conditions(meant, empty, [r.told for r in records], policy.metadata.generation)
