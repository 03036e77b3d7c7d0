"""OverridePolicyController: binds applications to their policies, and gives running pods their group's images.

Of a pod that runs only images and metadata may change, so that is what is patched, one pod of an application after the
other. An edition that differs in more must be made when the pod is; until somebody does that, the policy's status says
so. What a pod should be comes from the template it was made of, never from the pod itself: adding twice is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from muster.controllers.applications import Applications
from muster.controllers.binding import Binding
from muster.controllers.conditions import merged, said
from muster.controllers.editions import Editions, Template
from muster.controllers.eviction import active, is_ready
from muster.controllers.retries import Retries
from muster.controllers.tables import Ref
from muster.groups.applications import owner_kind, template_of
from muster.groups.gate import Pair, Situation, situation
from muster.groups.override import faults
from muster.groups.propagation import Trouble
from muster.model.core import Pod, PodTemplateSpec
from muster.model.custom import CustomApplication
from muster.model.groups import BoundApplication, OverridePolicy, OverridePolicySpec, PolicyStatus
from muster.model.meta import Condition, Object, controller
from muster.model.meta import key as key_of
from muster.store import NotFound, Severity, Store

_POLICY = ""  # in the place of an application's kind, where a policy's status is to be written again


@dataclass(slots=True)
class _Told:
    """An application's pods held against their editions."""

    told: BoundApplication
    unmade: list[str] = field(default_factory=list)  # why editions cannot be made
    beyond: list[str] = field(default_factory=list)  # groups whose edition differs in more than a running pod can


def _unheard(fault: str) -> None:
    """For whom it is nobody's business."""


class OverridePolicyController:
    """`privileged`: policies may give pods privileges that their templates have not.

    `rest`: seconds between two restarts of ready pods of an application. A kubelet needs a moment before a pod whose
    image was changed is not ready any more, and until then all would seem well.
    """

    def __init__(
        self,
        store: Store,
        *,
        privileged: bool = False,
        rest: float = 0.0,
        custom: Sequence[type[CustomApplication]] = (),
        report: Callable[[str], None] = _unheard,
    ) -> None:
        self._store = store
        self._privileged = privileged
        self._rest = rest
        self._rests: dict[Ref, float] = {}  # application → when the next of its ready pods may be restarted
        self._waits: set[Ref] = set()  # applications with outdated pods that wait for nothing but that
        self._retries: Retries[Ref] = Retries(report)
        self._apps = Applications(store, Pair.OVERRIDE, custom)
        self._binding = Binding(store, Pair.OVERRIDE, (self._good,))
        self._editions: dict[Ref, Editions] = {}
        self._faults: dict[str, tuple[OverridePolicySpec, list[Trouble]]] = {}  # policy name → its spec, what is wrong
        self._records: dict[Ref, tuple[str, _Told]] = {}  # application → policy key, what is told of it

    def run(self) -> bool:
        """Do what is to be done now; whether anything was written."""
        dirty = self._apps.follow()
        now = self._store.clock.now()
        policies, self._apps.policies = self._apps.policies, {}
        dirty.update({ref: None for ref in self._waits if self._rests.get(ref, 0.0) <= now})
        for kind, key in self._retries.due(now):
            if kind == _POLICY:
                policies[key] = None
            else:
                dirty[kind, key] = None
        self._wrote = False
        for ref in sorted(dirty):
            self._waits.discard(ref)
            with self._retries.trying(ref, now):
                for policy in self._look(ref):
                    policies[policy] = None
        for key in sorted(policies):
            with self._retries.trying((_POLICY, key), now):
                self._report(key)
        return self._wrote

    def next_time(self) -> float | None:
        times = [self._rests.get(ref, 0.0) for ref in self._waits]
        again = self._retries.next_time()
        return min(times if again is None else [*times, again], default=None)

    def _good(self, app: Object, policy: str) -> str | None:
        """The check before binding: the policy is there and can be used."""
        found = self._apps.tables.of(OverridePolicy).get(f"{app.metadata.namespace or 'default'}/{policy}")
        if found is None:
            return f"OverridePolicy {policy} not found"
        known = self._faults.get(policy)
        if known is None or known[0] is not found.spec:
            known = self._faults[policy] = (found.spec, faults(found.spec))
        wrong = known[1]
        return f"OverridePolicy {policy} cannot be used: {wrong[0]}" if wrong else None

    # --- one application

    def _look(self, ref: Ref) -> Iterator[str]:
        before = self._records.pop(ref, None)
        if before is not None:
            yield before[0]
        app = self._apps.object(ref)
        bound = None if app is None else self._binding.settle(app)
        if app is None:
            self._editions.pop(ref, None)
            self._rests.pop(ref, None)
            return
        self._wrote = self._wrote or app.metadata.labels.get(Pair.OVERRIDE.binding) != bound
        if bound is None:
            return
        key = f"{app.metadata.namespace or 'default'}/{bound}"
        policy = self._apps.tables.of(OverridePolicy)[key]
        self._records[ref] = key, self._held_against(app, policy)
        yield key

    def _held_against(self, app: Object, policy: OverridePolicy) -> _Told:
        pods = [pod for unit in self._apps.units(app) for pod in unit if active(pod) and pod.spec.node_name]
        told = BoundApplication(
            api_version=app.api_version, kind=type(app).__name__, name=app.metadata.name, replicas=len(pods)
        )
        found = _Told(told)
        counts: dict[str, int] = {}
        ref = (type(app).__name__, key_of(app))
        editions = self._editions.setdefault(ref, Editions())
        outdated: list[tuple[Pod, dict[str, str], Template]] = []
        for pod in pods:
            groups, maker = self._groups(app, pod.spec.node_name), self._maker(app, pod)
            if not groups or maker is None:
                continue
            wanted = editions.of(policy.spec, *maker, groups, self._privileged)
            if wanted.fault:
                found.unmade.append(wanted.fault)
                continue
            if wanted.beyond and groups[0] not in found.beyond:
                found.beyond.append(groups[0])
            images, meta = wanted.images_to_change(pod), wanted.metadata_to_change(pod)
            if images or meta:
                outdated.append((pod, images, meta))
            else:
                counts[groups[0]] = counts.get(groups[0], 0) + 1
        self._patch(ref, outdated, calm=all(is_ready(pod) for pod in pods))
        told.editions = dict(sorted(counts.items()))
        told.outdated = len(outdated)
        return found

    def _groups(self, app: Object, node: str) -> list[str]:
        """The group that counts by the application's PropagationPolicy; without one, all that hold the node."""
        labels, grouping = app.metadata.labels, self._apps.grouping
        if situation(labels, Pair.PROPAGATION) == Situation.FREE:
            return list(grouping.held.get(node, ()))
        policy = f"{app.metadata.namespace or 'default'}/{labels.get(Pair.PROPAGATION.binding, '')}"
        meant = grouping.policies.read(policy)
        group = None if meant is None else grouping.group_of(tuple(meant.groups)).get(node)
        return [] if group is None else [group]

    def _maker(self, app: Object, pod: Pod) -> tuple[str, PodTemplateSpec] | None:
        """What the pod was made of: its ReplicaSet's template, its Job's, or the application's own; and whose it is."""
        if isinstance(app, Pod):
            return None  # a pod by itself has no template to compute an edition from a second time
        owner = controller(pod.metadata)
        namespace = app.metadata.namespace or "default"
        maker = None if owner is None else self._apps.tables.lookup(owner_kind(owner), f"{namespace}/{owner.name}")
        maker = app if maker is None else maker
        template = template_of(maker)
        return None if template is None else (f"{type(maker).__name__}/{maker.metadata.name}", template)

    def _patch(self, ref: Ref, outdated: list[tuple[Pod, dict[str, str], Template]], calm: bool) -> None:
        """Pods that are not ready lose nothing by a restart; of the others one at a time, when all are ready."""
        now = self._store.clock.now()
        rested = self._rests.get(ref, 0.0) <= now
        for pod, images, meta in sorted(outdated, key=lambda entry: key_of(entry[0])):
            if images and is_ready(pod):
                if calm and not rested:
                    self._waits.add(ref)
                if not calm or not rested:
                    continue
                calm = False
                self._rests[ref] = now + self._rest
            key = key_of(pod)
            try:
                if images:
                    self._store.set_images(key, images, uid=pod.metadata.uid)
                if meta:
                    self._store.patch(Pod, key, {"metadata": meta})
            except NotFound:
                continue
            self._wrote = True
            changes = ", ".join(f"{name} to {image}" for name, image in images.items()) or "metadata"
            self._store.event(pod, Severity.NORMAL, "Edition", f"changed {changes}")

    # --- what is told

    def _report(self, key: str) -> None:
        policy = self._apps.tables.of(OverridePolicy).get(key)
        if policy is None:
            return
        records = [record for of, record in (self._records[ref] for ref in sorted(self._records)) if of == key]
        now = self._store.clock.now()
        status = PolicyStatus(
            observed_generation=policy.metadata.generation,
            conditions=merged(policy.status.conditions, _conditions(policy, records), now),
            applications=[record.told for record in records],
        )
        if status != policy.status:
            try:
                self._store.update_status(replace(policy, status=status))
                self._wrote = True
            except NotFound:
                return


def _conditions(policy: OverridePolicy, records: list[_Told]) -> Iterator[Condition]:
    generation = policy.metadata.generation
    wrong = [str(fault) for fault in faults(policy.spec)] + [why for record in records for why in record.unmade]
    if wrong:
        yield said("Resolved", False, "Invalid", "; ".join(dict.fromkeys(wrong)), generation)
    else:
        yield said("Resolved", True, "RulesUsable", "", generation)
    outdated = sum(record.told.outdated for record in records)
    beyond = sorted({group for record in records for group in record.beyond})
    if beyond:
        message = f"editions of {', '.join(beyond)} differ in more than images: they are made when pods are created"
        yield said("Satisfied", False, "WebhookRequired", message, generation)
    else:
        word = f"{outdated} pods are outdated" if outdated else ""
        reason = "Progressing" if outdated else "AsDesired"
        yield said("Satisfied", not outdated and not wrong, reason, word, generation)
