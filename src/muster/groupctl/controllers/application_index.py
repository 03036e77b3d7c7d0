"""The applications that require policies: which of them a change affects, and their pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster.groupctl.controllers.object_cache import ObjectCache, ObjectChange, Ref
from muster.groups.applications import OwnerLoop, PolicyLabels, owner_chain
from muster.groups.assignment import member_label
from muster.groups.grouping import Grouping
from muster.groups.membership import changes_membership
from muster.model.batch import APPLICATION_KINDS, ControllerRevision, Deployment, StatefulSet
from muster.model.core import Namespace, Node, Pod, PodDisruptionBudget, is_usable
from muster.model.custom import CustomApplication
from muster.model.groups import NodeGroup, OverridePolicy, PropagationPolicy
from muster.model.meta import Object, spec_of
from muster.model.meta import key as key_of
from muster.model.pod_states import is_active
from muster.model.storage import PersistentVolume, PersistentVolumeClaim
from muster.store import Store

_POLICIES = {"PropagationPolicy": PolicyLabels.PROPAGATION, "OverridePolicy": PolicyLabels.OVERRIDE}
_RELEVANT = ("labels", "annotations", "deletion_timestamp", "owner_references")
_NOT_TRIGGERING = ("PersistentVolume", "PersistentVolumeClaim", "Namespace", "ControllerRevision")
KINDS: tuple[type[Object], ...] = (
    Node,
    NodeGroup,
    PropagationPolicy,
    OverridePolicy,
    PodDisruptionBudget,
    PersistentVolume,
    PersistentVolumeClaim,
    Namespace,
    ControllerRevision,
    *APPLICATION_KINDS,
    Pod,
)


class ApplicationIndex:
    """Follows a store. `grouping` has the current nodes, groups and policies; `version` grows when it changes."""

    def __init__(
        self,
        store: Store,
        pair: PolicyLabels,
        custom: Sequence[type[CustomApplication]] = (),
        marks: Sequence[str] = (),
    ) -> None:
        """`custom`: the configured custom kinds. `marks`: annotations of further applications to index."""
        self._marks = marks
        self.cache = ObjectCache(store, (*KINDS[:-1], *custom, Pod))
        self._custom = frozenset(kind.__name__ for kind in custom)
        self.labelled: dict[Ref, None] = {}  # applications with one of the labels
        self.policies: dict[str, None] = {}  # policies of this kind that were created, changed or deleted
        self.version = 0
        self._pair = pair
        self._regroup()

    def take_changed(self) -> dict[Ref, None]:
        """Takes in the changes since the last call; returns the applications that they affect."""
        dirty: dict[Ref, None] = {}
        regroup = False
        for change in self.cache.take_changes():
            if change.kind in ("Node", "NodeGroup"):
                regroup = regroup or _changes_grouping(change)
                if change.kind == "Node":
                    dirty.update(self.labelled if _usable(change.old) != _usable(change.new) else {})
            elif change.kind in _POLICIES:
                if spec_of(change.old) != spec_of(change.new):
                    dirty.update(self._naming(_POLICIES[change.kind], change.key))
                    if change.kind == self._pair.value:
                        self.policies[change.key] = None
            elif change.kind == "PodDisruptionBudget" or (change.kind == "Namespace" and _relabelled(change)):
                namespace = change.key.partition("/")[0]
                dirty.update({ref: None for ref in self.labelled if ref[1].startswith(f"{namespace}/")})
            elif change.kind not in _NOT_TRIGGERING:
                self._add_application(change, dirty)
        if regroup:
            self._regroup()
            dirty.update(self.labelled)
            # What their statuses report about missing groups may have changed.
            self.policies.update(dict.fromkeys(self.cache.keys(self._pair.value)))
        return dirty

    def get(self, ref: Ref) -> Object | None:
        return self.cache.lookup(*ref)

    def units(self, app: Object) -> list[list[Pod]]:
        """The application's pods by unit, without empty units."""
        if isinstance(app, Pod):
            return [[app]]
        ref = (type(app).__name__, key_of(app))
        found = [self.cache.owned(owner, Pod) for owner in (ref, *self.cache.owned_workloads(ref))]
        return [pods for pods in found if pods]

    def schedulable_groups(self, groups: Sequence[str]) -> list[str]:
        """The groups that have a ready, schedulable node."""
        nodes = self.cache.of(Node)
        group_of = self.grouping.group_of(tuple(groups))
        found = {group for name, group in group_of.items() if name in nodes and is_usable(nodes[name])}
        return [group for group in groups if group in found]

    def first_unlabelled_node(self, groups: Sequence[str]) -> str:
        """The first node of the groups without the label of its group; empty: all have it."""
        nodes = self.cache.of(Node)
        for name, group in sorted(self.grouping.group_of(tuple(groups)).items()):
            label = member_label(group)
            if label is not None and name in nodes and label not in nodes[name].metadata.labels:
                return name
        return ""

    def edition_groups(self, app: Object) -> Callable[[str], list[str]]:
        """Returns a function: node → the groups whose edition the application's pods should have there."""
        return self.grouping.edition_groups(app.metadata.labels, app.metadata.namespace or "default")

    def schedulable_edition_groups(self, app: Object) -> set[str]:
        """The groups whose edition the application's pods would have on ready, schedulable nodes."""
        groups_of = self.edition_groups(app)
        return {group for name, node in self.cache.of(Node).items() if is_usable(node) for group in groups_of(name)}

    def is_rolling_out(self, app: Object) -> bool:
        """Whether the application is rolling out a new template."""
        if isinstance(app, Deployment):
            if any(c.reason == "ProgressDeadlineExceeded" for c in app.status.conditions):
                return False
            alive = [pods for pods in self.units(app) if any(is_active(pod) for pod in pods)]
            return app.status.observed_generation < app.metadata.generation or len(alive) > 1
        if isinstance(app, StatefulSet):
            return app.status.update_revision != app.status.current_revision
        return False

    def _naming(self, pair: PolicyLabels, policy: str) -> dict[Ref, None]:
        namespace, _, name = policy.partition("/")
        found: dict[Ref, None] = {}
        for ref in self.labelled:
            app = self.get(ref)
            if app is not None and ref[1].startswith(f"{namespace}/"):
                labels = app.metadata.labels
                if name in (labels.get(pair.required), labels.get(pair.binding)):
                    found[ref] = None
        return found

    def _add_application(self, change: ObjectChange, dirty: dict[Ref, None]) -> None:
        """Adds the application of a changed pod or workload, if it requires a policy or did so before."""
        if self._pair is PolicyLabels.PROPAGATION and _is_irrelevant(change):
            return
        for obj in (change.old, change.new):
            if obj is None or (
                change.kind == "Pod" and not obj.metadata.owner_references and not self._requires_policy(obj)
            ):
                continue
            try:
                top = owner_chain(obj, self.cache.lookup, self._custom)[-1]
            except OwnerLoop:
                continue  # the scheduler reports it
            ref = (type(top).__name__, key_of(top))
            if self._requires_policy(top):
                self.labelled[ref] = None
                dirty[ref] = None
            elif ref in self.labelled:
                del self.labelled[ref]
                dirty[ref] = None

    def _requires_policy(self, obj: Object) -> bool:
        labels, notes = obj.metadata.labels, obj.metadata.annotations
        if labels and (self._pair.required in labels or self._pair.binding in labels):
            return True
        return bool(notes) and any(mark in notes for mark in self._marks)

    def _regroup(self) -> None:
        cache = self.cache
        self.grouping = Grouping(cache.of(Node), cache.of(NodeGroup), cache.of(PropagationPolicy))
        self.version += 1


def _relabelled(change: ObjectChange) -> bool:
    """Whether an object was created or deleted, or its labels changed."""
    return change.old is None or change.new is None or change.old.metadata.labels != change.new.metadata.labels


def _is_irrelevant(change: ObjectChange) -> bool:
    """Whether a pod changed only in fields that do not matter for its placement, such as its images."""
    old, new = change.old, change.new
    if not isinstance(old, Pod) or not isinstance(new, Pod) or old.metadata.uid != new.metadata.uid:
        return False
    same = old.spec.node_name == new.spec.node_name and old.status == new.status
    return same and all(getattr(old.metadata, name) == getattr(new.metadata, name) for name in _RELEVANT)


def _changes_grouping(change: ObjectChange) -> bool:
    """Whether the change can change the group of a node."""
    return _relabelled(change) if change.kind == "Node" else changes_membership(change.old, change.new)


def _usable(node: Object | None) -> bool:
    return isinstance(node, Node) and is_usable(node)
