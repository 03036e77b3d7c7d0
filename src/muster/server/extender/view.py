"""The cluster as the extender sees it: who owns a pod, which group holds a node, how many pods a unit has where."""

from __future__ import annotations

from collections.abc import Callable

from muster.groups.applications import APPLICATIONS, Application, Unit, application_of
from muster.groups.grouping import Grouping
from muster.groups.policies import Bound, Refused
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
        return self.grouping.policies.ruling(application)

    def counts(self, unit: Unit, groups: tuple[str, ...], but: str = "") -> dict[str, int]:
        """How many pods of the unit (but for the one of that key) each group has."""
        group_of = self.grouping.group_of(groups)
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
        tables = self._tables
        self.grouping = Grouping(
            {name: node for name, node in tables["Node"].items() if isinstance(node, Node)},
            {name: group for name, group in tables["NodeGroup"].items() if isinstance(group, NodeGroup)},
            {name: p for name, p in tables["PropagationPolicy"].items() if isinstance(p, PropagationPolicy)},
        )

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
