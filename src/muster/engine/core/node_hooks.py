"""The extension points about nodes: filters, scores, node sets, devices, and what is written with a binding."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from muster.engine.core.values import Batch, Bools, ClassKey, Effect, Floats, Hook, Index, NodeSet, Scope, Verdict

if TYPE_CHECKING:
    from muster.engine.core.jobs import Job, Shape, Task
    from muster.engine.core.nodes import MoveKind, Nodes, NodeView
    from muster.engine.core.subgroups import SubGroup
    from muster.engine.devices.fragmentation import Fragmentation


# Functions of one node: its index, its rows and what it offers, as in a NodeView. A filter returns whether it passes.
OneNodeFilter = Callable[[int, list[int], list[int], "MoveKind"], bool]
OneNodeScore = Callable[[int, list[int], list[int], "MoveKind"], float]


class NodeFilter(Hook):
    """Refuses nodes. A plugin with several rules returns one NodeFilter each from `filters`."""

    switch = "enablePredicate"
    term: ClassVar[str] = ""
    scope: ClassVar[Scope] = Scope.NODE
    columns_only: bool = False  # reads only the view's columns: nodes with equal columns get equal answers
    # STATIC terms: reads of the task only what `static.constraints` has of its spec, and what its plugin signs
    constraints_only: ClassVar[bool] = False
    capacity: ClassVar[bool] = False  # refuses no node that has enough free resources for the requests

    def filters(self) -> Sequence[NodeFilter]:
        return (self,)

    def batch(self, task: Task) -> Batch:
        return Batch.SINGLE if self.scope == Scope.CLUSTER else Batch.COLUMNS

    def class_key(self, task: Task) -> ClassKey | None:
        """For CLUSTER terms: what distinguishes nodes when a task is allocated; None: not known."""
        return None

    @abstractmethod
    def filter(self, task: Task, nodes: NodeView) -> Verdict: ...

    def one_node_filter(self, task: Task, nodes: Nodes) -> OneNodeFilter | None:
        """Returns `filter` as a function of one node, in plain Python; None: there is none.

        For a few nodes it is much faster.
        """
        return None


class NodeScorer(Hook):
    """Scores nodes; the numbers are summed as they are (a scorer applies its weight itself)."""

    switch = "enableNodeOrder"
    term: ClassVar[str] = ""
    scope: ClassVar[Scope] = Scope.NODE
    normalised: ClassVar[bool] = False
    columns_only: bool = False  # as a filter's
    constraints_only: ClassVar[bool] = False  # as a filter's

    def scorers(self) -> Sequence[NodeScorer]:
        return (self,)

    def batch(self, task: Task) -> Batch:
        return Batch.SINGLE if self.scope == Scope.CLUSTER else Batch.COLUMNS

    def flat(self, task: Task, nodes: NodeView) -> bool:
        """For STATIC terms: is it known, without computing it, that raw is 0 (normalised: the same) everywhere?"""
        return False

    def class_key(self, task: Task) -> ClassKey | None:
        """For CLUSTER terms: as a filter's."""
        return None

    @abstractmethod
    def raw(self, task: Task, nodes: NodeView) -> Floats: ...

    def one_node_score(self, task: Task, nodes: Nodes) -> OneNodeScore | None:
        """Returns `raw` as a function of one node, as `NodeFilter.one_node_filter`; it must be equal bit by bit."""
        return None

    def normalise(self, task: Task, raw: Floats, candidates: Bools) -> Floats:
        """Only for `normalised` terms: raw → score, with constants taken over the candidates (never empty)."""
        return raw

    def normalise_classes(self, task: Task, raw: Floats, candidates: Index) -> Floats:
        """The same with one entry per node class; `candidates`: how many nodes of the class are candidates."""
        return self.normalise(task, raw, candidates > 0)

    def span(self) -> float | None:
        """Returns the largest difference between two nodes that this term can make; None: not known."""
        return None


class NodeSets(Hook):
    """Divides nodes into the sets a job is tried on, one after the other."""

    set_order: str = ""
    """The order in which the sets are tried, for `explain`."""

    def divides(self, job: Job) -> bool:
        """Returns whether the plugin may divide the nodes for the job or a sub-group of it. Called often: must be fast.
        """
        return True

    @abstractmethod
    def node_sets(self, job: Job, tasks: Sequence[Task], nodes: NodeSet) -> tuple[bool, Sequence[NodeSet]]:
        """(is this plugin's rule relevant to the job?, sets in the order to try).

        Raises NodeSetError on failure, whose text the job's pods show; the text of any other exception is only logged.
        """

    def group_sets(
        self, job: Job, group: SubGroup, tasks: Sequence[Task], nodes: NodeSet
    ) -> tuple[bool, Sequence[NodeSet]]:
        """The same for a sub-group of the job, inside the set that was chosen for what it is part of."""
        return False, [nodes]

    def outside(self, task: Task) -> list[tuple[Bools, str]]:
        """Nodes that no set for this pod contains, whatever is free, and how to count them in the pod's reason."""
        return []

    def left_out(self, job: Job, tasks: Sequence[Task], nodes: NodeSet) -> list[tuple[NodeSet, str]]:
        """Sets that `node_sets` did not offer and why, for `explain`; has no part in deciding."""
        return []


class DevicePicker(Hook):
    """Chooses device ids when a pod is allocated to the node actually chosen."""

    @abstractmethod
    def wants(self, task: Task) -> bool:
        """Whether the pod requests devices of this type: then it matters which devices are free, not only how many."""

    @abstractmethod
    def devices(self, task: Task) -> list[int] | None:
        """Returns the ids that are allocated to the task; None if it requests none."""


class SharedDevices(Hook):
    """Reports the devices that pods share; takes no part in decisions."""

    @abstractmethod
    def shares(self, task: Task) -> dict[int, int] | None:
        """Returns the thousandths of each device that the pod has: it is on its node, or was placed in this cycle."""

    @abstractmethod
    def fragmentation(self) -> Fragmentation | None:
        """Returns how fragmented the idle devices are now; None if no pod shares a device."""


class BindEffects(Hook):
    """Writes something together with a binding."""

    def concerns(self, shape: Shape) -> bool:
        """Returns whether pods of this shape may have effects at all."""
        return True

    @abstractmethod
    def effects(self, task: Task, node: int) -> list[Effect]: ...


class Picture(ABC):
    """A drawing of a node's devices, made when it is shown."""

    @abstractmethod
    def text(self) -> str: ...

    @abstractmethod
    def html(self) -> str:
        """A fragment, with everything that comes from the cluster escaped."""


class NodeNotes(Hook):
    """Describes a node as a plugin sees it, for `explain` and reports; takes no part in decisions."""

    @abstractmethod
    def note(self, task: Task, node: int) -> str:
        """Returns a description of the node for this task; empty: none."""

    @abstractmethod
    def picture(self, node: int) -> Picture | None: ...
