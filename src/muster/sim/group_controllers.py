"""The embedded cluster with the controllers of node group management and a model of its webhook as its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from muster.cluster.embedded import EmbeddedCluster, Part
from muster.cluster.memory import MemoryStore
from muster.engine.core.plan import Eviction
from muster.engine.core.state import Objects, State
from muster.groupctl.controllers.application_index import ApplicationIndex
from muster.groupctl.controllers.dry_run import DryRunStore, Write
from muster.groupctl.controllers.evictions import EvictionQueue
from muster.groupctl.controllers.nodegroup import NodeGroupController
from muster.groupctl.controllers.override import OverridePolicyController
from muster.groupctl.controllers.propagation import PropagationPolicyController
from muster.groups.applications import template_path
from muster.groups.assignment import EDITION, edition_name
from muster.groups.binding import BindingState, PolicyLabels, binding_state
from muster.groups.override import OverrideError, edition
from muster.model.core import Pod
from muster.model.custom import CustomApplication, custom_kinds
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.kinds import decode_as, plain
from muster.model.meta import Object, key, seconds
from muster.store import Store


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


class GroupControllers:
    """Runs the controllers once a cluster has node groups or policies: other clusters should not pay for them.

    `on_write` is called with every write. `webhook`: new pods are created in their group's edition.
    """

    def __init__(
        self, cluster: EmbeddedCluster, on_write: Callable[[Write], None] | None = None, *, webhook: bool = False
    ) -> None:
        self._cluster = cluster
        self._webhook = webhook
        self._on_write = on_write
        self._parts: list[Part] = []

    def run(self) -> bool:
        if not self._parts and not self._begin():
            return False
        return bool(sum(part.run() for part in self._parts))  # not any(): each controller must run

    def next_time(self) -> float | None:
        times = [part.next_time() for part in self._parts]
        return min((time for time in times if time is not None), default=None)

    def _begin(self) -> bool:
        if not any(self._cluster.store.of(kind) for kind in (NodeGroup, PropagationPolicy, OverridePolicy)):
            return False
        store: Store = self._cluster.store
        if self._on_write is not None:
            store = DryRunStore(store, self._on_write, carry_out=True)
        # muster's own scheduler watches policies and groups: no label change is needed for a retry.
        custom = custom_kinds(self._cluster.store.everything())
        evictions = EvictionQueue(store, self._note)
        self._parts = [
            NodeGroupController(store),
            PropagationPolicyController(store, evictions, retry_pending=False, custom=custom),
            OverridePolicyController(
                store, evictions, webhook=lambda: self._webhook, retry_pending=False, custom=custom
            ),
        ]
        if self._webhook:
            self._parts.insert(0, SimulatedWebhook(self._cluster.store, custom))
        return True

    def _note(self, pod: Pod, policy: str, rule: str) -> None:
        self._cluster.evicted.append(Eviction(key(pod), pod.spec.node_name, policy, rule))


def open_cluster(
    objects: Objects, now: float, scheduler_names: Iterable[str], *, all_pods: bool = False
) -> tuple[EmbeddedCluster, State]:
    """Returns the cluster and its state before the first cycle.

    The workload controllers have created their pods, and applications are bound to their policies. With `all_pods`
    there are also the pods that appear only in later cycles.
    """
    cluster = EmbeddedCluster(objects, now, all_pods=all_pods)
    cluster.join(GroupControllers(cluster))
    state = State(scheduler_names)
    cluster.follow(state)
    return cluster, state
