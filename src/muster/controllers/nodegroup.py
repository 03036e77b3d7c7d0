"""NodeGroupController: writes into each NodeGroup's status which nodes it contains, and how they are."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from muster.controllers.conditions import merged, said
from muster.controllers.tables import News, Tables
from muster.groups.membership import contains, members
from muster.model.core import Node
from muster.model.groups import MemberStatus, NodeGroup, NodeGroupStatus
from muster.store import NotFound, Store


class NodeGroupController:
    """Watches nodes besides groups: a status that is not corrected when nodes come, go or change is not true."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tables = Tables(store, (Node, NodeGroup))

    def run(self) -> bool:
        """Put right the status of every group whose answer changed; whether anything was written."""
        dirty: dict[str, None] = {}
        for news in self._tables.take():
            dirty.update(dict.fromkeys(self._concerned(news)))
        wrote = False
        for name in sorted(dirty):
            wrote = self._reconcile(name) or wrote
        return wrote

    def next_time(self) -> float | None:
        return None

    def _concerned(self, news: News) -> Iterator[str]:
        """The group itself; of a node, every group that holds it now or held it before."""
        if news.kind == "NodeGroup":
            yield news.key
            return
        if isinstance(news.old, Node) and isinstance(news.new, Node):
            same = news.old.metadata.labels == news.new.metadata.labels
            if same and readiness(news.old) == readiness(news.new):
                return
        for name, group in self._tables.of(NodeGroup).items():
            if any(node is not None and contains(group.spec, news.key, node.metadata.labels) for node in news[2:]):
                yield name

    def _reconcile(self, name: str) -> bool:
        group = self._tables.of(NodeGroup).get(name)
        if group is None:
            return False
        status = self._status(group)
        if status == group.status:
            return False
        try:
            self._store.update_status(replace(group, status=status))
        except NotFound:
            return False
        return True

    def _status(self, group: NodeGroup) -> NodeGroupStatus:
        nodes = self._tables.of(Node)
        contained = members(group.spec, {name: node.metadata.labels for name, node in nodes.items()})
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
        generation = group.metadata.generation
        if missing:
            word = said("Resolved", False, "NodesMissing", f"no such node: {', '.join(missing)}", generation)
        elif not contained:
            word = said("Resolved", False, "Empty", "the group contains no node", generation)
        else:
            word = said("Resolved", True, "NodesFound", f"{len(contained)} nodes, {ready} ready", generation)
        return NodeGroupStatus(
            contained_nodes=contained,
            node_statuses=sorted(statuses, key=lambda status: status.node_name),
            nodes=len(contained),
            ready_nodes=ready,
            observed_generation=generation,
            conditions=merged(group.status.conditions, [word], self._store.clock.now()),
        )


def readiness(node: Node) -> str:
    """Ready, NotReady or Unknown; a node that says nothing of it is taken to be ready."""
    for condition in node.status.conditions:
        if condition.type == "Ready":
            return {"True": "Ready", "False": "NotReady"}.get(condition.status, "Unknown")
    return "Ready"
