"""What is scheduled: shapes, tasks, jobs and queues, as the engine sees them.

A *task* is a pod, a *job* is a PodGroup (or the group in memory of pods that name none), a *shape* is what pods of
one spec share. Jobs count their tasks by status, so that the gang rules are sums over a few integers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import IntEnum
from itertools import count
from typing import TYPE_CHECKING
from weakref import KeyedRef, WeakSet

import msgspec
import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from muster.engine.core.axis import Axis, Vector
from muster.engine.core.hooks import Reason
from muster.model.core import Pod, PodSpec, Volume
from muster.model.meta import NO_ITEMS
from muster.model.pod import PersistentVolumeClaimSource
from muster.model.quantity import whole
from muster.model.requests import nonzero, requests
from muster.model.scheduling import PodGroup
from muster.model.scheduling import Queue as QueueObject

if TYPE_CHECKING:
    from muster.engine.core.plain_pods import PlainPodClass
    from muster.engine.core.single_jobs import SingleJobClass


class Status(IntEnum):
    __hash__ = int.__hash__  # Enum's is a function in Python

    PENDING = 0
    ALLOCATED = 1
    PIPELINED = 2
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9


ALLOCATED_LIKE = (Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING)
READY_LIKE = (*ALLOCATED_LIKE, Status.SUCCEEDED)
_IS_ALLOCATED = [status in ALLOCATED_LIKE for status in Status]  # by status: a look-up is much cheaper than `in`
_READY = [status in READY_LIKE for status in Status]
_STATUSES = len(Status)  # the length of an Enum is a function in Python
_encode = msgspec.json.Encoder().encode
_SOME_CLAIM = PersistentVolumeClaimSource()
_NODE_CHARS = len('{"nodeName":"",')
ON_NODE = (*ALLOCATED_LIKE, Status.RELEASING, Status.UNKNOWN)
_UNREAD = -1  # no number in a name is negative: a name is cut at its last "-"


class Shape:
    """What pods of equal spec share: their request, and (through `spec`) everything a filter reads of a spec."""

    __slots__ = (
        "__weakref__", "_by_row", "_deltas", "_read_at", "_shared", "_vector", "amounts", "best_effort", "encoded",
        "id", "nonzero", "plain", "spec",
    )  # fmt: skip

    def __init__(self, id: int, spec: PodSpec, encoded: bytes) -> None:
        self.id = id
        self.spec = spec
        self.encoded = encoded  # the spec without its node
        self.amounts = requests(spec)
        # cpu and memory with kube-scheduler's defaults for containers that request nothing
        self.nonzero = nonzero(spec, self.amounts)
        self.best_effort = not any(v for name, v in self.amounts.items() if name != "pods")
        self.plain: dict[Hashable, PlainPodClass] = {}  # the classes of its plain pods
        self._by_row: list[int] = []
        self._vector: Vector | None = None
        self._shared: tuple[str, ...] = ()
        self._deltas: dict[int, Vector] = {}
        self._read_at = -1  # the version of the axis that these are of

    def request(self, axis: Axis) -> Vector:
        """Returns the request by row of the axis."""
        by_row = self.by_row(axis)
        if self._vector is None:
            self._vector = np.array(by_row, np.int64)
        return self._vector

    def by_row(self, axis: Axis) -> list[int]:
        """Returns the same as a list."""
        if self._read_at != axis.version:
            self._by_row, self._vector, self._read_at = axis.by_row(self.amounts), None, axis.version
            self._shared, self._deltas = axis.shared(self.amounts) if axis.sharing else (), {}
        return self._by_row

    def shared(self, axis: Axis) -> tuple[str, ...]:
        """Returns the requested resources that share rows."""
        self.by_row(axis)
        return self._shared

    def deltas(self, axis: Axis) -> dict[int, Vector]:
        """Returns what one task changes in a node's column, by the kind of its move; `Nodes.delta` adds to it."""
        self.by_row(axis)
        return self._deltas


class Task(msgspec.Struct, eq=False):
    """A pod inside the engine. `job` is None for pods of other schedulers: they only occupy capacity."""

    pod: Pod
    key: str
    namespace: str
    shape: Shape
    status: Status
    node: int  # index, −1 = none
    created: float
    nominated: str
    best_effort: bool
    priority: int
    role: str
    preemptable: bool
    gated: bool
    job: Job | None = None
    sub_group: str = ""
    signature: int = -1
    _serial: int | None = _UNREAD

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid or self.key

    @property
    def serial(self) -> int | None:
        """Returns the number after the last "-" of a name of at least three parts."""
        if self._serial == _UNREAD:
            first, _, last = self.pod.metadata.name.rpartition("-")
            self._serial = whole(last) if "-" in first else None
        return self._serial

    @property
    def labels(self) -> dict[str, str]:
        return self.pod.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        return self.pod.metadata.annotations or {}

    def __repr__(self) -> str:
        return f"<Task {self.key} {self.status.name}>"


class Queue:
    """A Queue object with its resource lists as vectors."""

    __slots__ = (
        "annotations", "capability", "created", "deserved", "fifo", "guarantee", "jobs", "name", "object", "open",
        "parent", "priority", "reclaimable", "weight",
    )  # fmt: skip

    def __init__(self, name: str, object: QueueObject, created: float) -> None:
        self.name = name
        self.object = object
        self.created = created
        self.weight = 1
        self.priority = 0
        self.open = True
        self.parent = ""
        self.reclaimable = True
        self.fifo = False  # dequeueStrategy: the first job that waits blocks those behind it
        # amounts in internal units by resource name; a resource that is absent is not limited, promised or deserved
        self.capability: dict[str, int] = {}
        self.guarantee: dict[str, int] = {}
        self.deserved: dict[str, int] = {}
        self.annotations: dict[str, str] = {}
        self.jobs: dict[str, Job] = {}

    @property
    def unused(self) -> bool:
        """Returns whether this is the queue `default` without a Queue object and jobs. Reports leave it out."""
        return not self.object.metadata.name and not self.jobs

    def __repr__(self) -> str:
        return f"<Queue {self.name}>"


class Attempt(Struct):
    """What happened to a job in this cycle, for its reasons."""

    refusal: Reason | None = None  # the job as a whole: not valid, not admitted, queue overused
    unfit: dict[str, str] = field(default_factory=dict)  # task key → why no node took it
    over_quota: set[str] = field(default_factory=set)  # the tasks of `unfit` that their queue did not admit
    would_fit: dict[str, int] = field(default_factory=dict)  # task key → node, in an attempt that was given up
    failed_roles: set[str] = field(default_factory=set)  # Volcano: their other tasks are not tried again
    may_evict: bool = False  # not admitted only for lack of capacity: preempt and reclaim may serve it
    divided: bool = False  # node sets were tried
    sub_group_results: list[str] | None = None  # per sub-group, for `explain`; None: not recorded


_next_generation = count(1).__next__


class Job:
    __slots__ = (
        "allocated", "attempt", "best_effort_pending", "changes", "count", "created", "disrupted_whole", "generation",
        "group", "has_priority_class", "key", "min_available", "min_resources", "name", "namespace", "native",
        "never_preempts", "phase", "plain_class", "priority", "queue", "queue_name", "ready", "roles", "settled",
        "shown", "single_class", "tasks", "total",
    )  # fmt: skip

    def __init__(self, key: str, group: PodGroup, created: float) -> None:
        self.key = key
        self.shown, native, _ = key.partition(";")  # as users know it: `namespace/name`
        self.native = bool(native)  # made from an object of scheduling.k8s.io
        self.namespace, _, self.name = self.shown.partition("/")
        self.group = group
        self.plain_class: PlainPodClass | None = None  # of the job of a plain pod
        self.single_class: SingleJobClass | None = None  # of a job of one pod, in a cycle
        self.created = created
        self.queue_name = "default"
        self.queue: Queue | None = None
        self.priority = 0
        self.has_priority_class = False  # does its group name a PriorityClass that exists?
        self.min_available = 1
        self.disrupted_whole = False  # evicted as a whole or not at all
        self.never_preempts = False
        self.roles: dict[str, int] = {}  # role → its minimum
        self.min_resources: dict[str, int] | None = None
        self.phase = "Pending"
        self.tasks: dict[str, Task] = {}
        self.count = [0] * _STATUSES
        self.ready = 0  # how many are allocated or have succeeded
        self.best_effort_pending = 0
        self.allocated: dict[str, int] = {}  # Σ requests of allocated tasks, by resource name
        self.total: dict[str, int] = {}  # Σ requests of allocated and pending tasks
        self.attempt = Attempt()
        self.changes: list[Job] | None = None  # where it reports its changes (`JobChanges.log`)
        self.generation = _next_generation()
        """Grows with every change of the job, over all jobs: what was derived at an earlier generation is stale."""
        self.settled = 0  # the generation at which a cycle had nothing to do and nothing new to report for it

    def mark_changed(self) -> None:
        """Records that the job or one of its tasks changed."""
        self.generation = _next_generation()
        if self.changes is not None:
            self.changes.append(self)

    # --- membership; State calls these

    def adopt(self, task: Task) -> None:
        """The task belongs to this job; `tally` counts it."""
        task.job = self
        self.tasks[task.key] = task

    def drop(self, task: Task) -> None:
        """The task does not belong to this job any more; `tally` counts it."""
        del self.tasks[task.key]
        task.job = None

    def tally(self, shape: Shape, status: Status, n: int) -> None:
        """Counts so many more tasks of this shape and status."""
        self.mark_changed()
        self.count[status] += n
        if _READY[status]:
            self.ready += n
        if status == Status.PENDING and shape.best_effort:
            self.best_effort_pending += n
        allocated = _IS_ALLOCATED[status]
        if allocated or status == Status.PENDING:
            for name, amount in shape.amounts.items():
                self.total[name] = self.total.get(name, 0) + n * amount
                if allocated:
                    self.allocated[name] = self.allocated.get(name, 0) + n * amount

    def shift(self, tasks: list[Task], status: Status) -> None:
        """Equal tasks of this job change status together (called by statements; the total stays the same)."""
        self.mark_changed()
        was, n = tasks[0].status, len(tasks)
        self.count[was] -= n
        self.count[status] += n
        self.ready += n * (_READY[status] - _READY[was])
        if tasks[0].best_effort:
            self.best_effort_pending += n * ((status == Status.PENDING) - (was == Status.PENDING))
        sign = n * (_IS_ALLOCATED[status] - _IS_ALLOCATED[was])
        if sign:
            for name, amount in tasks[0].shape.amounts.items():
                self.allocated[name] = self.allocated.get(name, 0) + sign * amount
        for task in tasks:
            task.status = status

    # --- Volcano's counts

    @property
    def waiting(self) -> int:
        return self.count[Status.PIPELINED]

    @property
    def is_starving(self) -> bool:
        return self.waiting + self.ready < self.min_available

    @property
    def is_pending(self) -> bool:
        """Returns whether the group has not been admitted yet."""
        return self.phase in ("", "Pending")

    @property
    def roles_total(self) -> int:
        return sum(self.roles.values())

    def __repr__(self) -> str:
        return f"<Job {self.key}>"


def _without_claim(volume: Volume) -> Volume:
    return volume if volume.persistent_volume_claim is None else replace(volume, persistent_volume_claim=_SOME_CLAIM)


def shift_one_each(tasks: list[Task], status: Status) -> None:
    """Changes the status of equal tasks of different jobs."""
    first = tasks[0]
    was, amounts = first.status, first.shape.amounts
    ready, more = _READY[status] - _READY[was], _IS_ALLOCATED[status] - _IS_ALLOCATED[was]
    nothing = (status == Status.PENDING) - (was == Status.PENDING) if first.best_effort else 0
    for task in tasks:
        job = task.job
        assert job is not None
        job.mark_changed()
        job.count[was] -= 1
        job.count[status] += 1
        job.ready += ready
        job.best_effort_pending += nothing
        task.status = status
        if more:
            allocated = job.allocated
            for name, amount in amounts.items():
                allocated[name] = allocated.get(name, 0) + more * amount


class Shapes:
    """Interns pod specs: pods whose specs are equal in everything but their node share one Shape.

    The key of a spec is its encoding, which costs about a microsecond per pod. Requests, selectors and volumes are read
    once per shape. A shape is forgotten with its last task; what is kept about shapes longer than a cycle is kept by
    weak references to them. Their ids are not used again.
    """

    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self._known: dict[bytes, KeyedRef[bytes, Shape]] = {}
        self._next_id = count().__next__
        self.with_affinity: WeakSet[Shape] = WeakSet()  # those with affinity or spread constraints
        known = self._known

        def forget(gone: KeyedRef[bytes, Shape]) -> None:
            if known.get(gone.key) is gone:  # else a new shape has its key
                del known[gone.key]

        self._forget = forget

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Shape]:
        return (shape for found in list(self._known.values()) if (shape := found()) is not None)

    def of(self, spec: PodSpec, likely: Shape | None = None) -> Shape:
        """Returns the shape of a spec. `likely` is compared first. Raises QuantityError if a request cannot be read."""
        node = spec.node_name
        if likely is not None and not node and spec == likely.spec:
            return likely
        if spec.volumes:
            # Every pod has a token volume with its own name; volumes that no rule reads do not make pods different.
            # Claims are read from the pod: pods of a StatefulSet differ in the names of their claims.
            kept = [_without_claim(v) for v in spec.volumes if v != Volume(name=v.name)]
            spec = replace(spec, volumes=kept or NO_ITEMS)
        if spec.scheduling_group is not None or spec.workload_ref is not None:
            spec = replace(spec, scheduling_group=None, workload_ref=None)  # read from the pod; equal pods differ in it
        # Equal pods differ only in their node. It is the first field: cut it off.
        key = _encode(spec)[len(node) + _NODE_CHARS if node else 1 :]
        if likely is not None and key == likely.encoded:
            return likely
        known = self._known.get(key)
        shape = None if known is None else known()
        if shape is None:
            shape = Shape(self._next_id(), spec, key)
            self._known[key] = KeyedRef(shape, self._forget, key)
            self._axis.learn(shape.amounts)
            if spec.affinity is not None or spec.topology_spread_constraints:
                self.with_affinity.add(shape)
        return shape


assert PodSpec.__struct_fields__[0] == "node_name"  # Shapes.of relies on it
