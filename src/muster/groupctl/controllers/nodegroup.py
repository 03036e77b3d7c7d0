"""NodeGroupController: writes the nodes of each NodeGroup, and their readiness, into its status.

With `exclusive` a node is in one group only, the oldest; an annotation of the groups shows this to the other
components. With `labels` nodes have a label for each of their groups, which the affinity of pods can require; a
finalizer on the group removes its label from the nodes before the group is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from muster.groupctl.controllers.object_cache import ObjectCache, ObjectChange
from muster.groupctl.controllers.retries import Retries, ignore
from muster.groups.applications import DOMAIN
from muster.groups.assignment import MEMBER, member_label
from muster.groups.membership import EXCLUSIVE, Membership, changes_membership, contains, is_exclusive, members
from muster.model.core import Node, readiness
from muster.model.groups import MemberStatus, NodeGroup, NodeGroupStatus
from muster.model.meta import condition, merge_conditions
from muster.model.pod_states import is_terminating
from muster.store import Conflict, NotFound, Store

FINALIZER = f"{DOMAIN}/node-labels"


class NodeGroupController:
    """Watches NodeGroups and Nodes, so that the status is updated when nodes are added, deleted or changed."""

    def __init__(
        self,
        store: Store,
        *,
        labels: bool | None = None,
        exclusive: bool | None = None,
        report: Callable[[str], None] = ignore,
    ) -> None:
        """`labels`, `exclusive`: None leaves the labels of nodes, or the annotations of groups, unchanged."""
        self._store = store
        self._exclusive = exclusive
        self._labels = labels
        self._retries: Retries[tuple[str, str]] = Retries(report)
        self._cache = ObjectCache(store, (Node, NodeGroup))

    def run(self) -> bool:
        """Updates the status of every group that a change affects; whether anything was written."""
        now = self._store.clock.now()
        groups: dict[str, None] = {}
        nodes: dict[str, None] = {}
        for change in self._cache.take_changes():
            groups.update(dict.fromkeys(self._affected_groups(change)))
            if self._labels is not None:
                nodes.update(dict.fromkeys(self._affected_nodes(change)))
        for kind, key in self._retries.due(now):
            (groups if kind == "NodeGroup" else nodes)[key] = None
        self._wrote = False
        if not nodes and not groups:
            return False
        stay = {k: g for k, g in self._cache.of(NodeGroup).items() if not is_terminating(g)}
        among = Membership(stay)
        for name in sorted(nodes):
            with self._retries.attempt(("Node", name), now):
                self._label(name, among)
        for name in sorted(groups):
            with self._retries.attempt(("NodeGroup", name), now):
                self._reconcile(name, among)
        return self._wrote

    def next_time(self) -> float | None:
        return self._retries.next_time()

    def _affected_groups(self, change: ObjectChange) -> Iterator[str]:
        """The changed group; for a node, every group that contains it now or contained it before."""
        if change.kind == "NodeGroup":
            # With exclusive groups, a change of one group affects all groups that match its nodes.
            affects_all = changes_membership(change.old, change.new) and any(
                map(is_exclusive, self._cache.of(NodeGroup).values())
            )
            yield from self._cache.of(NodeGroup) if affects_all else (change.key,)
            return
        if isinstance(change.old, Node) and isinstance(change.new, Node):
            same = change.old.metadata.labels == change.new.metadata.labels
            if same and readiness(change.old) == readiness(change.new):
                return
        for name, group in self._cache.of(NodeGroup).items():
            if any(node is not None and contains(group.spec, change.key, node.metadata.labels) for node in change[2:]):
                yield name

    def _reconcile(self, name: str, among: Membership) -> None:
        group = self._cache.of(NodeGroup).get(name)
        if group is None or (self._labels is not None and not self._update_finalizer(group)):
            return
        if self._exclusive is not None and is_exclusive(group) != self._exclusive:
            mark = {"metadata": {"annotations": {EXCLUSIVE: "true" if self._exclusive else None}}}
            self._store.patch(NodeGroup, name, mark)
            self._wrote = True
            return  # the watch brings the change back, and with it the rest of the work
        status = self._status(group, among)
        if status != group.status:
            try:
                self._store.update_status(replace(group, status=status))
                self._wrote = True
            except NotFound:
                return

    # --- labels of nodes

    def _update_finalizer(self, group: NodeGroup) -> bool:
        """Adds the finalizer to a group, and removes it from a deleted group; whether the status is to be updated."""
        meta = group.metadata
        goes = is_terminating(group)
        leaves = goes or not self._labels
        label = member_label(meta.name)
        if leaves and any(label in node.metadata.labels for node in self._cache.of(Node).values()):
            raise Conflict.of("NodeGroup", meta.name, "its label is still on nodes")
        if (FINALIZER in meta.finalizers) == leaves and label is not None:
            kept = [name for name in meta.finalizers if name != FINALIZER]
            finalizers = kept if leaves else [*kept, FINALIZER]
            only_if = {"resourceVersion": meta.resource_version, "uid": meta.uid}
            try:
                self._store.patch(NodeGroup, meta.name, {"metadata": {**only_if, "finalizers": finalizers}})
                self._wrote = True
            except NotFound:
                return False
            return False  # the watch brings the change back, and with it the rest of the work
        return not goes

    def _affected_nodes(self, change: ObjectChange) -> Iterator[str]:
        """The nodes whose labels the change may affect."""
        if change.kind == "Node":
            if change.new is not None and (
                change.old is None or change.old.metadata.labels != change.new.metadata.labels
            ):
                yield change.key
            return
        label = member_label(change.key)
        groups = [group for group in (change.old, change.new) if isinstance(group, NodeGroup)]
        for name, node in self._cache.of(Node).items():
            labels = node.metadata.labels
            if label in labels or any(contains(group.spec, name, labels) for group in groups):
                yield name

    def _label(self, name: str, among: Membership) -> None:
        node = self._cache.of(Node).get(name)
        if node is None:
            return
        has = node.metadata.labels
        held = among.of(name, has) if self._labels else ()
        labels = {key: label for key in held if (label := member_label(key)) is not None}
        wanted = [label for key, label in labels.items() if label in has or self._has_finalizer(key)]
        change: dict[str, str | None] = {label: "" for label in wanted if has.get(label) != ""}
        change |= {label: None for label in has if label.startswith(MEMBER) and label not in wanted}
        if change:
            try:
                self._store.patch(Node, name, {"metadata": {"labels": change}})
                self._wrote = True
            except NotFound:
                return

    def _has_finalizer(self, name: str) -> bool:
        """Returns whether a group has its finalizer. A new label waits for it: a group that is deleted without it would
        leave the label on the nodes."""
        group = self._cache.of(NodeGroup).get(name)
        return group is not None and FINALIZER in group.metadata.finalizers

    # --- the status

    def _status(self, group: NodeGroup, among: Membership) -> NodeGroupStatus:
        nodes, own = self._cache.of(Node), group.metadata.name
        matching = members(group.spec, {name: node.metadata.labels for name, node in nodes.items()})
        holder = {name: among.of(name, nodes[name].metadata.labels) for name in matching} if is_exclusive(group) else {}
        taken = {name: held[0] for name, held in holder.items() if held and own not in held}
        contained = [name for name in matching if name not in taken]
        missing = sorted(dict.fromkeys(name for name in group.spec.nodes if name not in nodes))
        statuses = [
            MemberStatus(node_name=name, ready_status=readiness(nodes[name]), selection_status="Succeeded")
            for name in contained
        ]
        statuses += [
            MemberStatus(
                node_name=name,
                ready_status="Unknown",
                selection_status="Failed",
                selection_status_reason="node does not exist",
            )
            for name in missing
        ]
        ready = sum(1 for status in statuses if status.ready_status == "Ready")
        statuses += [
            MemberStatus(
                node_name=name,
                ready_status=readiness(nodes[name]),
                selection_status="Failed",
                selection_status_reason=f"already belongs to {other}",
            )
            for name, other in taken.items()
        ]
        generation = group.metadata.generation
        if missing:
            resolved = condition("Resolved", False, "NodesMissing", f"no such node: {', '.join(missing)}", generation)
        elif taken:
            others = ", ".join(f"{name} belongs to {other}" for name, other in taken.items())
            resolved = condition("Resolved", False, "NodesTaken", others, generation)
        elif not contained:
            resolved = condition("Resolved", False, "Empty", "the group contains no node", generation)
        else:
            resolved = condition("Resolved", True, "NodesFound", f"{len(contained)} nodes, {ready} ready", generation)
        return NodeGroupStatus(
            contained_nodes=contained,
            node_statuses=sorted(statuses, key=lambda status: status.node_name),
            nodes=len(contained),
            ready_nodes=ready,
            observed_generation=generation,
            conditions=merge_conditions(group.status.conditions, [resolved], self._store.clock.now()),
        )
