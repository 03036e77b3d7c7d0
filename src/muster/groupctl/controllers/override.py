"""OverridePolicyController: binds applications to their policies, and sees to it that pods are their group's edition.

Of a pod that runs only images and metadata may change, so that is what is patched, a tenth of an application at a time
(`restarts`). A pod that differs in more is evicted, by the pace and past the guards of all evictions, so that it is
made anew: but only where a webhook is there to make it right; else the policy's status says what is missing. What a pod
should be comes from the template it was made of, never from the pod itself: adding twice is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from muster.groupctl.controllers.bound import PolicyController
from muster.groupctl.controllers.editions import Editions, Wanted
from muster.groupctl.controllers.evictions import Evictions, Request
from muster.groupctl.controllers.leaving import REPLACED, ranked, spared
from muster.groupctl.controllers.nudge import nudge
from muster.groupctl.controllers.outdated import (
    NEEDS_PROPAGATION,
    NOT_EVICTED,
    WEBHOOK_REQUIRED,
    Held,
    Outdated,
    override_conditions,
)
from muster.groupctl.controllers.pace import SETTLE, Failure, Pace
from muster.groupctl.controllers.restarts import Restarts
from muster.groupctl.controllers.retries import unheard
from muster.groupctl.controllers.reverting import MARK, made_by, mark_made
from muster.groupctl.controllers.revisions import Revisions, Template, mark_of
from muster.groupctl.controllers.states import finished, is_ready
from muster.groupctl.controllers.tables import Ref
from muster.groups.applications import template_path
from muster.groups.assignment import EDITION, OPT_IN, edition_name
from muster.groups.gate import Pair, Situation, situation
from muster.groups.override import faults
from muster.groups.override.paths import Bases
from muster.groups.override.policy import unknown_targets, warnings
from muster.groups.propagation import Trouble
from muster.model.batch import StatefulSet
from muster.model.core import Namespace, Pod
from muster.model.custom import CustomApplication
from muster.model.groups import NodeGroup, OverridePolicy, OverridePolicySpec
from muster.model.meta import Condition, Object, seconds
from muster.model.meta import key as key_of
from muster.store import NotFound, Refused, Severity, Store

RULE = "override"
_REFUSED_AGAIN = 60.0  # seconds until labels that the API server does not permit are tried again
_LOOK_AGAIN = 1.0  # seconds, at an application that nobody tells of any more


def _nobody() -> bool:
    """There is no webhook."""
    return False


class OverridePolicyController(PolicyController[OverridePolicy, Held]):
    """`privileged`: policies may give pods privileges that their templates have not.

    `rest`: seconds that a kubelet has to begin the restart of a pod whose image was changed. `webhook`: whether one is
    alive that makes new pods right. `revert`: pods of an application that asks for no policy any more get their
    template back. `nudge`: touch pending pods when their application is bound, as kube-scheduler needs it to try them
    again.
    """

    def __init__(
        self,
        store: Store,
        evictions: Evictions,
        *,
        privileged: bool = False,
        rest: float = 0.0,
        settle: float = SETTLE,
        webhook: Callable[[], bool] = _nobody,
        revert: bool = False,
        nudge: bool = True,
        custom: Sequence[type[CustomApplication]] = (),
        report: Callable[[str], None] = unheard,
    ) -> None:
        super().__init__(store, evictions, RULE, OverridePolicy, Pair.OVERRIDE, custom, report, marks=(MARK,))
        self._privileged = privileged
        self._restarts = Restarts(rest)
        self._settle = settle
        self._webhook = webhook
        self._revert = revert
        self._nudge = nudge
        self._bases = [template_path(kind) for kind in custom]
        self._alive = False
        self._revisions = Revisions(store, self._apps.tables)
        self._editions: dict[Ref, Editions] = {}
        self._paces: dict[Ref, Pace] = {}
        self._wakes: dict[Ref, float] = {}  # applications that wait for nothing but time
        # application → the policy that its pods were made by, as it was
        self._made: dict[Ref, tuple[str, OverridePolicySpec]] = {}
        self._whole: dict[str, tuple[Wanted, list[str]]] = {}  # pod's uid → what it was held against, and the answer
        # policy, and where templates stand → its spec, what is wrong
        self._faults: dict[tuple[object, ...], tuple[OverridePolicySpec, list[Trouble]]] = {}

    def run(self) -> bool:
        alive, self._alive = self._alive, self._webhook()
        if alive != self._alive:
            now = self._store.clock.now()
            self._wakes.update({ref: now for ref, (_, held) in self._records.items() if held.beyond})
        return super().run()

    def _alarms(self) -> Iterator[tuple[Ref, float]]:
        yield from self._wakes.items()
        yield from ((ref, pace.wake) for ref, pace in self._paces.items() if pace.wake is not None)

    def _good(self, app: Object, policy: str) -> str | None:
        key = f"{app.metadata.namespace or 'default'}/{policy}"
        found = self._apps.tables.of(OverridePolicy).get(key)
        if found is None:
            return f"OverridePolicy {policy} not found"
        wrong = self._wrong(key, found.spec, (template_path(type(app)),))
        return f"OverridePolicy {policy} cannot be used: {wrong[0]}" if wrong else None

    def _wrong(self, key: str, spec: OverridePolicySpec, bases: Bases) -> list[Trouble]:
        at = (key, *bases)
        known = self._faults.get(at)
        if known is None or known[0] is not spec:
            known = self._faults[at] = (spec, faults(spec, bases))
        return known[1]

    # --- one application

    def _put_right(self, ref: Ref, app: Object, policy: OverridePolicy) -> Held:
        self._wakes.pop(ref, None)
        if self._nudge and app.metadata.labels.get(Pair.OVERRIDE.binding) != policy.metadata.name:
            # Bound just now: an extender that was told to wait for that has refused its pods until now.
            waiting = [p for unit in self._apps.units(app) for p in unit if not finished(p) and not p.spec.node_name]
            seen = (policy.metadata.name, app.metadata.resource_version)
            self._wrote = nudge(self._store, waiting, seen) or self._wrote
        self._made[ref] = (policy.metadata.name, policy.spec)
        if self._revert:
            self._wrote = mark_made(self._store, app, *self._made[ref]) or self._wrote
        held = self._held_against(ref, app, policy.spec, policy)
        held.missing = self._missing(app, held)
        self._act(ref, app, held, f"as OverridePolicy {policy.metadata.name} wants it")
        return held

    def _let_go(self, ref: Ref, app: Object | None, before: str) -> None:
        """Required no more: pods stay as they are, unless the user asked for their template back."""
        self._wakes.pop(ref, None)
        asks = app is not None and bool(app.metadata.labels.get(Pair.OVERRIDE.required))
        if app is not None and not asks:
            # A controller that was started since then finds on the application what its pods were made by.
            made = self._made.get(ref) or made_by(app)
            if made is None and before:
                policy = self._apps.tables.of(OverridePolicy).get(f"{app.metadata.namespace or 'default'}/{before}")
                made = None if policy is None else (before, policy.spec)
            if self._revert and made is not None:
                self._made[ref] = made
                self._wrote = mark_made(self._store, app, *made) or self._wrote
                held = self._held_against(ref, app, made[1], None)
                held.missing = "" if isinstance(app, REPLACED) else NOT_EVICTED  # a template needs no webhook
                self._act(ref, app, held, f"without OverridePolicy {made[0]}")
                if any(entry.images or entry.metadata or not held.missing for entry in held.pods):
                    self._wakes.setdefault(ref, self._store.clock.now() + _LOOK_AGAIN)
                    return
            self._wrote = mark_made(self._store, app, "", None) or self._wrote
        if asks:
            return  # its policy is missing or cannot be used for now: what its pods were made by is not forgotten
        self._restarts.forget(ref)
        for table in (self._editions, self._paces, self._made):
            table.pop(ref, None)

    def _held_against(
        self, ref: Ref, app: Object, spec: OverridePolicySpec, policy: OverridePolicy | None
    ) -> Held:
        """The pods that are on nodes, each held against its edition; without a policy against its template."""
        pods = [pod for unit in self._apps.units(app) for pod in unit if not finished(pod)]
        stay = [pod for pod in pods if not self._evictions.goes(pod)]
        held = Held.of(app, [pod for pod in stay if pod.spec.node_name], pods)
        editions, groups_of = self._editions.setdefault(ref, Editions()), self._apps.groups_of(app)
        bases = (template_path(type(app)),)
        makers: dict[tuple[str, str], tuple[str, Template] | None] = {}
        for pod in held.placed:
            groups, mark = groups_of(pod.spec.node_name), mark_of(pod)
            if mark not in makers:
                makers[mark] = self._revisions.of(app, pod)
            maker = makers[mark]
            if not groups or maker is None:
                continue
            wanted = editions.of(spec, *maker, groups, privileged=self._privileged, bases=bases, revert=policy is None)
            if wanted.fault:
                held.unmade.append(wanted.fault)
                continue
            beyond = self._beyond(pod, wanted, policy, groups[0]) if wanted.beyond else []
            images, meta = wanted.images_to_change(pod), wanted.metadata_to_change(pod)
            if images or meta or beyond:
                held.pods.append(Outdated(pod, groups[0], images, meta, beyond))
            else:
                held.told.editions[groups[0]] = held.told.editions.get(groups[0], 0) + 1
        held.told.editions = dict(sorted(held.told.editions.items()))
        held.told.outdated = len(held.pods)
        return held

    def _beyond(self, pod: Pod, wanted: Wanted, policy: OverridePolicy | None, group: str) -> list[str]:
        """Where the pod can only be made anew. One that carries the edition's name was made as it."""
        mark = pod.metadata.annotations.get(EDITION)
        if mark and policy is not None and mark == edition_name(policy, group):
            return []
        known = self._whole.get(pod.metadata.uid)
        if known is None or known[0] is not wanted:
            try:
                found = wanted.beyond_repair(self._store.whole(Pod, key_of(pod)))
            except NotFound:
                return []  # gone by now: the watch will say so
            if len(self._whole) > 100_000:
                self._whole.clear()
            known = self._whole[pod.metadata.uid] = (wanted, found)
        return known[1]

    def _missing(self, app: Object, held: Held) -> str:
        """Why pods that must be made anew are left as they are; empty: they need not be."""
        if not isinstance(app, REPLACED):
            return NOT_EVICTED
        if situation(app.metadata.labels, Pair.PROPAGATION) in (Situation.FREE, Situation.STALE):
            sure_of = self._apps.grouping.sure_of
            if not all(entry.group in sure_of(entry.pod.spec) for entry in held.beyond):
                return NEEDS_PROPAGATION
        namespace = self._apps.tables.of(Namespace).get(app.metadata.namespace or "default")
        opted = namespace is not None and namespace.metadata.labels.get(OPT_IN) == "enabled"
        return "" if self._alive and opted else WEBHOOK_REQUIRED

    # --- what is done

    def _act(self, ref: Ref, app: Object, held: Held, why: str) -> None:
        pace = self._paces.setdefault(ref, Pace(self._settle))
        pace.look((*self._made[ref], held.missing, why), self._store.clock.now(), self._apps.version)
        anew = [] if held.missing else held.beyond
        patched = [entry for entry in held.pods if held.missing or not entry.beyond]
        self._patch(ref, patched, held)
        if anew and not self._apps.rolling(app):
            self._replace(ref, app, held, anew, why)

    def _replace(self, ref: Ref, app: Object, held: Held, anew: list[Outdated], why: str) -> None:
        """Evict pods that must be made anew, each of which is replaced in its own group."""
        pace, now = self._paces[ref], self._store.clock.now()
        # Made after the last one went, and not as it should be: the next would be no better.
        late = [entry.pod for entry in anew if pace.is_replacement(seconds(entry.pod.metadata.creation_timestamp))]
        if late:
            held.failing = f"pod {late[0].metadata.name} was made without its edition"
            pace.came_wrong(held.failing, now)
        elif pace.failure is Failure.WRONG and not held.moving:
            pace.forgive()
        room = pace.room(held.count, held.moving, held.waiting, now)
        homes = self._apps.open_homes(app)
        open_ = {entry.pod.metadata.uid for entry in anew if entry.group in homes}
        order = ranked([entry.pod for entry in anew], by_ordinal=isinstance(app, StatefulSet))
        why_not = {key_of(pod): reason for pod in order if (reason := spared(pod, self._apps.tables)) is not None}
        candidates = [pod for pod in order if pod.metadata.uid in open_ and key_of(pod) not in why_not]
        if room > 0 and not candidates:
            self._evictions.blocked(app, why_not)
        by = ("OverridePolicy", self._made[ref][0])
        request = Request(app, by, candidates, room, held.moving, pace, f"to be made anew {why}")
        self._evictions.request(RULE, ref, request)

    def _patch(self, ref: Ref, outdated: list[Outdated], held: Held) -> None:
        """Pods that are not ready lose nothing by a restart; of the others a tenth of the application at a time.

        A pod that is about to be evicted is left as it is: a restart just before would only cost it an image.
        """
        now, going = self._store.clock.now(), self._evictions.leaving(ref)
        room, wake = self._restarts.room(ref, held.placed, held.count, now)
        for entry in sorted(outdated, key=lambda entry: key_of(entry.pod)):
            pod, images, meta = entry.pod, entry.images, entry.metadata
            if pod.metadata.uid in going or (not images and not meta):
                continue
            if images and is_ready(pod):
                if room <= 0:
                    if wake is not None:
                        self._wakes[ref] = wake
                    continue
                room -= 1
                wake = self._restarts.begin(ref, pod, now)
            key = key_of(pod)
            try:
                if images:
                    self._store.set_images(key, images, uid=pod.metadata.uid)
                if meta:
                    entry.refused = self._mark(key, meta)
            except NotFound:
                continue
            if entry.refused:
                self._wakes[ref] = now + _REFUSED_AGAIN
                if not images:
                    continue
            self._wrote = True
            changes = ", ".join(f"{name} to {image}" for name, image in images.items()) or "metadata"
            self._store.event(pod, Severity.NORMAL, "Edition", f"changed {changes}")

    def _mark(self, key: str, meta: Template) -> str:
        """Write labels and annotations of a pod; why the API server does not permit them, empty if it does."""
        try:
            self._store.patch(Pod, key, {"metadata": meta})
        except Refused as fault:
            return str(fault)
        return ""

    # --- what is told

    def _troubles(self, policy: OverridePolicy) -> list[Trouble]:
        key = key_of(policy)
        records = [held for of, held in self._records.values() if of == key]
        refused = [Trouble(f"{held.told.kind} {held.told.name}", why) for held in records for why in held.unmade]
        usable = [*self._wrong(key, policy.spec, self._bases), *warnings(policy.spec), *self._unknown(policy)]
        return [*usable, *dict.fromkeys(refused)]

    def _unknown(self, policy: OverridePolicy) -> Iterator[Trouble]:
        return unknown_targets(policy.spec, self._apps.tables.of(NodeGroup))

    def _conditions(self, policy: OverridePolicy, records: list[Held]) -> Iterator[Condition]:
        wrong = [str(fault) for fault in self._wrong(key_of(policy), policy.spec, self._bases)]
        unknown = [trouble.message for trouble in self._unknown(policy)]
        return override_conditions(wrong, unknown, records, policy.metadata.generation)

