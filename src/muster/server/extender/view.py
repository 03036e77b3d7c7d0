"""The cluster as the extender sees it: who owns a pod, which group holds a node, how many pods a unit has where.

Membership comes from NodeGroup.spec and never from a status, so it is right without controllers, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from muster.groups.applications import APPLICATIONS, Application, Unit, application_of
from muster.groups.membership import Membership
from muster.groups.policies import Bound, Policies, Refused
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup, PropagationPolicy
from muster.model.meta import Object, controller, key
from muster.store import Change, Store

FINISHED = ("Succeeded", "Failed")
_KINDS: tuple[type[Object], ...] = (Node, Pod, NodeGroup, PropagationPolicy, *APPLICATIONS)


class View:
    """Follows a store; `refresh` takes in what changed since the last time."""

    def __init__(self, store: Store, ended: Callable[[str], None]) -> None:
        """`ended` is told of pods (their uid) that have a node now, or are gone."""
        self._ended = ended
        self._tables: dict[str, dict[str, Object]] = {kind.__name__: {} for kind in _KINDS}
        self._on: dict[Unit, dict[str, str]] = {}  # unit's direct owner → pod → node, of pods that count
        self._places: dict[str, tuple[Unit, str]] = {}  # uid of a pod that counts → owner, node
        self._group_of: dict[tuple[str, ...], dict[str, str]] = {}
        since = ""
        for kind in _KINDS:
            listing = store.list(kind)
            since = since or listing.resource_version
            for obj in listing.items:
                self._put(kind.__name__, key(obj), obj)
        self._watch = store.watch(since, _KINDS)
        self._read_groups()

    def refresh(self) -> None:
        """Take in what happened."""
        groups = False
        for event in self._watch.take():
            groups = groups or event.kind in ("Node", "NodeGroup", "PropagationPolicy")
            if event.change == Change.DELETED:
                self._remove(event.kind, event.key)
            else:
                self._put(event.kind, event.key, event.object)
        if groups:
            self._read_groups()

    # --- questions

    def application(self, pod: Pod) -> Application:
        """The pod's application; OwnerLoop if there is no end to its owners."""
        return application_of(pod, lambda kind, name: self._tables[kind].get(name))

    def ruling(self, application: Application) -> Bound | Refused | None:
        return self._policies.ruling(application)

    def group_of(self, groups: tuple[str, ...]) -> Mapping[str, str]:
        """Node → the first of the groups that holds it; nodes in none are left out."""
        found = self._group_of.get(groups)
        if found is None:
            rank = {group: i for i, group in enumerate(groups)}
            found = self._group_of[groups] = {}
            for name, held in self._held.items():
                ours = [group for group in held if group in rank]
                if ours:
                    found[name] = min(ours, key=rank.__getitem__)
        return found

    def group_of_stranger(self, groups: tuple[str, ...], node: str, labels: Mapping[str, str]) -> str | None:
        """The same for a node that this view does not know (yet)."""
        held = self._membership.of(node, labels)
        return next((group for group in groups if group in held), None)

    def knows(self, node: str) -> bool:
        return node in self._held

    def counts(self, unit: Unit, groups: tuple[str, ...], but: str = "") -> dict[str, int]:
        """How many pods of the unit (but for the one of that key) each group has."""
        group_of = self.group_of(groups)
        counts: dict[str, int] = {}
        for pod, node in self._on.get(unit, {}).items():
            group = group_of.get(node)
            if group is not None and pod != but:
                counts[group] = counts.get(group, 0) + 1
        return counts

    def place(self, uid: str) -> tuple[Unit, str] | None:
        """The unit and node of a pod that counts."""
        return self._places.get(uid)

    # --- following

    def _read_groups(self) -> None:
        specs = {name: g.spec for name, g in self._tables["NodeGroup"].items() if isinstance(g, NodeGroup)}
        policies = {
            name: p for name, p in self._tables["PropagationPolicy"].items() if isinstance(p, PropagationPolicy)
        }
        self._membership = Membership(specs)
        self._policies = Policies(policies, specs)
        self._held = {n: self._membership.of(n, node.metadata.labels) for n, node in self._tables["Node"].items()}
        self._group_of.clear()

    def _put(self, kind: str, name: str, obj: Object) -> None:
        if isinstance(obj, Pod):
            self._remove_pod(name)
            self._count(name, obj)
        self._tables[kind][name] = obj

    def _remove(self, kind: str, name: str) -> None:
        if kind == "Pod":
            self._remove_pod(name)
        self._tables[kind].pop(name, None)

    def _count(self, name: str, pod: Pod) -> None:
        """Bound, not finished, not terminating: such pods count."""
        meta = pod.metadata
        if not pod.spec.node_name and meta.deletion_timestamp is None:
            return
        self._ended(meta.uid)
        if meta.deletion_timestamp is None and pod.status.phase not in FINISHED:
            unit = _counted_by(name, pod)
            self._on.setdefault(unit, {})[name] = pod.spec.node_name
            self._places[meta.uid] = (unit, pod.spec.node_name)

    def _remove_pod(self, name: str) -> None:
        old = self._tables["Pod"].pop(name, None)
        if isinstance(old, Pod):
            self._on.get(_counted_by(name, old), {}).pop(name, None)
            self._places.pop(old.metadata.uid, None)


def _counted_by(name: str, pod: Pod) -> Unit:
    """The direct owner is what all units are but for pods by themselves."""
    owner = controller(pod.metadata)
    return ("Pod", name) if owner is None else (owner.kind, f"{pod.metadata.namespace or 'default'}/{owner.name}")
