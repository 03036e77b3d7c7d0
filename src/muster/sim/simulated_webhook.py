"""A model of the webhook of node group management, as a part of the embedded cluster."""

from __future__ import annotations

from collections.abc import Sequence

from muster.cluster.memory import MemoryStore
from muster.groupctl.controllers.application_index import ApplicationIndex
from muster.groups.applications import BindingState, PolicyLabels, binding_state, template_path
from muster.groups.assignment import EDITION, edition_name
from muster.groups.override import OverrideError, edition
from muster.model.core import Pod
from muster.model.custom import CustomApplication
from muster.model.groups import OverridePolicy
from muster.model.kinds import decode_as, plain
from muster.model.meta import Object, seconds


class SimulatedWebhook:
    """A model of the webhook that runs before the controllers: new pods are in the edition of their group.

    The real webhook chooses the group when a pod is created, and requires it with an affinity. Here the scheduler
    chooses the group by the same policy, and the pod is changed when it is bound, before any controller sees it.
    """

    def __init__(self, store: MemoryStore, custom: Sequence[type[CustomApplication]]) -> None:
        self._store = store
        self._began = store.clock.now()
        self._known = frozenset(pod.metadata.uid for pod in store.of(Pod).values())
        self._apps = ApplicationIndex(store, PolicyLabels.OVERRIDE, custom)

    def run(self) -> bool:
        wrote = False
        for ref in sorted(self._apps.take_changed()):
            app = self._apps.get(ref)
            if app is not None and binding_state(app.metadata.labels, PolicyLabels.OVERRIDE) == BindingState.BOUND:
                wrote = self._make(app) or wrote
        return wrote

    def next_time(self) -> float | None:
        return None

    def _make(self, app: Object) -> bool:
        key = f"{app.metadata.namespace or 'default'}/{app.metadata.labels[PolicyLabels.OVERRIDE.binding]}"
        policy = self._apps.cache.of(OverridePolicy).get(key)
        if policy is None:
            return False
        divided = binding_state(app.metadata.labels, PolicyLabels.PROPAGATION) == BindingState.BOUND
        groups_of, wrote = self._apps.edition_groups(app), False
        for pod in (pod for unit in self._apps.units(app) for pod in unit if self._is_new(pod)):
            groups = groups_of(pod.spec.node_name)
            if groups and (divided or self._apps.grouping.certain_groups(pod.spec)):
                wrote = self._edited(pod, policy, groups, template_path(type(app))) or wrote
        return wrote

    def _is_new(self, pod: Pod) -> bool:
        made = seconds(pod.metadata.creation_timestamp)
        fresh = pod.metadata.uid not in self._known and made >= int(self._began)
        return fresh and bool(pod.spec.node_name) and EDITION not in pod.metadata.annotations

    def _edited(self, pod: Pod, policy: OverridePolicy, groups: list[str], base: tuple[str, ...]) -> bool:
        whole = plain(pod)
        parts = {"metadata": whole["metadata"], "spec": whole["spec"]}
        try:
            made = edition(policy.spec, groups, parts, bases=(base,)).template
        except OverrideError:
            return False  # the policy's status reports it
        made["metadata"].setdefault("annotations", {})[EDITION] = edition_name(policy, groups[0])
        self._store.write(decode_as(Pod, {**whole, **made}))
        return True
