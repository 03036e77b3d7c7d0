"""The cluster as the engine keeps it between cycles: columns, jobs and queues that follow objects as they change.

`State` is a function of the objects it was given, in whatever order: `load` reads a whole cluster, `upsert` and
`remove` follow single changes. A cycle works on it in place and takes everything back when it closes; what the cycle
decided comes back as changed objects, from the embedded cluster's store or from the live one's watches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from muster.engine.core.axis import Axis
from muster.engine.core.described_owners import DescribedOwners
from muster.engine.core.hooks import Reason
from muster.engine.core.job_changes import JobChanges, JobsByName, Tally, tally_all
from muster.engine.core.jobs import ON_NODE, Job, Queue, Shape, Shapes, Status, Task
from muster.engine.core.moved_pods import keeps_job, move_task
from muster.engine.core.native_changes import NativeChanges
from muster.engine.core.native_groups import WORKLOADS, group_of, job_of, object_of, root_jobs
from muster.engine.core.nodes import Nodes
from muster.engine.core.plain_pods import group_again, job_in_memory
from muster.engine.core.pod_census import PodCensus
from muster.engine.core.podgroups import GROUP, OWNING, PodsByGroup, groups_of
from muster.engine.core.reading import native_group, priority_of, read_again, read_job, read_queue, read_task
from muster.engine.core.unsettled_jobs import UnsettledJobs
from muster.engine.evictions.promises import PromiseRecord
from muster.engine.volumes.usage_record import READ_KINDS, UsageRecord
from muster.model.collector import collector_paused
from muster.model.core import Node, Pod
from muster.model.custom import ConfiguredApplication
from muster.model.meta import Object
from muster.model.quantity import QuantityError
from muster.model.scheduling import PodGroup
from muster.model.scheduling import Queue as QueueObject

Objects = Mapping[str, Mapping[str, Object]]


class State:
    def __init__(self, scheduler_names: Iterable[str] = ("muster", "volcano")) -> None:
        self.ours = frozenset(("", *scheduler_names))
        self.axis = Axis()
        self.nodes = Nodes(self.axis, ())
        self.shapes = Shapes(self.axis)
        self.tasks: dict[str, Task] = {}
        self.jobs: dict[str, Job] = {}
        self.queues: dict[str, Queue] = {}
        self.objects: defaultdict[str, dict[str, Object]] = defaultdict(dict)  # every kind but Pod and Node
        self.set_aside: dict[str, Reason] = {}  # pod key → why it cannot even be considered
        self.changed_pods: dict[str, dict[str, None]] = {}  # reader → the pods that changed since it cleared them
        self.census = PodCensus()
        self.promises = PromiseRecord()  # capacity that earlier cycles freed for claimers
        self.volume_usage = UsageRecord()
        self._owners = DescribedOwners(self.lookup)
        self._new_nodes: dict[str, Node] | None = None  # nodes came or went: columns are rebuilt
        self._regrouped: dict[str, None] = {}  # groups without a phase in an object whose pods came or went: read again
        self._native = NativeChanges()
        self.changes = JobChanges()
        self._in_order = JobsByName()
        self._without_group: PodsByGroup[str] = PodsByGroup()  # PodGroup that is not there → the pods that name it
        self.unsettled = UnsettledJobs()

    # --- reading

    @collector_paused()
    def load(self, objects: Objects) -> None:
        """Reads a whole cluster."""
        for kind, some in objects.items():
            if kind not in ("Pod", "Node"):
                self.objects[kind].update(some)
                if some:
                    self._owners.learn(type(next(iter(some.values()))))
        self.nodes = Nodes(self.axis, [n for n in objects.get("Node", {}).values() if isinstance(n, Node)])
        self._read_queues()
        for key, group in self.objects["PodGroup"].items():
            assert isinstance(group, PodGroup)
            self._add_job(read_job(key, group, self.objects))
        for key in root_jobs(self.objects):
            self._read_native_job(key)
        self.upsert_pods(objects.get("Pod", {}))

    def upsert_pods(self, pods: Mapping[str, Object]) -> None:
        """Pods came or changed."""
        on_nodes = []
        tally: Tally = {}
        like: Task | None = None  # pods of one group mostly follow each other: they are read like the first of them
        last: tuple[Job, Shape, Status] | None = None  # of the pod before, which is counted in `counter`
        for key, pod in pods.items():
            assert isinstance(pod, Pod)
            was = None
            if key in self.tasks or key in self.set_aside:
                was = self._remove_task(key, tally)
            if (task := self._read_task(key, pod, like)) is None:
                continue
            job = task.job
            if job is None:
                job = self._job_of(task)
                like = task if job is not None and self._names_group(task, job) else None
            if job is not None:
                job.adopt(task)
                if last is None or last[0] is not job or last[1] is not task.shape or last[2] is not task.status:
                    last = (job, task.shape, task.status)
                    counter = tally.setdefault(last, [0])
                counter[0] += 1
                if was is not None and job is not was and job.key == was.key and was.phase == "Inqueue":
                    # The group in memory of one pod is rebuilt with it; its admission stays.
                    job.phase = was.phase if job.is_pending else job.phase
            if task.node >= 0 and task.status in ON_NODE:
                on_nodes.append(task)
        tally_all(tally)
        self.nodes.grow()
        self.nodes.observe(on_nodes, 1)

    def upsert(self, kind: str, key: str, object: Object) -> None:
        """An object came or changed."""
        if isinstance(object, Pod):
            task = self.tasks.get(key)
            if task is not None and keeps_job(task, object, self.objects["PodGroup"]):
                move_task(task, object, self.nodes, self.changed_pods.values())
            else:
                self.upsert_pods({key: object})
        elif isinstance(object, Node):
            if self._new_nodes is None and key in self.nodes.rank:
                self.nodes.replace(object)
            else:
                self._node_set()[key] = object
        else:
            last = self.objects[kind].get(key)
            self._native.note(kind, key, last, object)
            self.objects[kind][key] = object
            self._follow(kind, key, object, last)

    def remove(self, kind: str, key: str) -> None:
        """An object is gone."""
        if kind == "Pod":
            tally: Tally = {}
            self._remove_task(key, tally)
            tally_all(tally)
        elif kind == "Node":
            self._node_set().pop(key, None)
        else:
            gone = self.objects[kind].pop(key, None)
            if gone is not None:
                self._native.note(kind, key, gone, None)
                self._follow(kind, key, gone, gone)

    def refresh(self) -> None:
        """Rebuilds the columns if nodes came or went, and groups in memory if pods did. It is called before a cycle."""
        stale, homeless = self._native.take(self.objects, self.jobs)
        for key in stale:
            self._read_native_job(key)
        for key in homeless:
            self.upsert_pods({key: self.tasks[key].pod})
        for key in self._regrouped:
            if key in self.jobs and key not in self.objects["PodGroup"]:
                self._read_job(self.jobs[key])
        self._regrouped.clear()
        if self._new_nodes is None:
            return
        nodes, self._new_nodes = self._new_nodes, None
        self.nodes = Nodes(self.axis, nodes.values())
        for task in self.tasks.values():
            task.node = self.nodes.rank.get(task.pod.spec.node_name, -1)
        self.nodes.observe((t for t in self.tasks.values() if t.node >= 0 and t.status in ON_NODE), 1)

    def _node_set(self) -> dict[str, Node]:
        if self._new_nodes is None:
            self._new_nodes = dict(zip(self.nodes.names, self.nodes.objects, strict=True))
        return self._new_nodes

    def lookup(self, kind: str, key: str) -> Object | None:
        return self.objects[kind].get(key)

    def _follow(self, kind: str, key: str, object: Object, before: Object | None) -> None:
        """Reads jobs again that depend on a changed queue, group, priority class, namespace or owner."""
        if kind == "PodGroup":
            self._regroup(key)
        elif isinstance(object, OWNING):
            self._regrouped.update(dict.fromkeys(groups_of(object)))
            if self._owners.kinds is not None:
                self._follow_owner(kind, key, before)
        elif isinstance(object, ConfiguredApplication):
            self._follow_owner(kind, key, before)
        elif kind in READ_KINDS:
            self.volume_usage.note(kind, key)
        elif kind in ("Queue", "PriorityClass", "Namespace"):
            if kind == "PriorityClass":
                for task in self.tasks.values():
                    task.priority = priority_of(task.pod, self.objects[kind])
            self._read_queues()
            for shape in self.shapes:
                for plain in shape.plain.values():
                    plain.read = None
            for job in list(self.jobs.values()):
                self._read_job(job)

    def group_object(self, job: Job) -> tuple[str, str] | None:
        """Returns the kind and the key of the object that is the job's group; None for a group in memory."""
        if job.native:
            return object_of(job.key)
        return ("PodGroup", job.key) if job.key in self.objects["PodGroup"] else None

    def described_owner(self, job: Job) -> tuple[str, str] | None:
        """Returns the kind and the key of the workload whose description makes a gang of the job's pods."""
        return None if self.group_object(job) is not None else self._owners.owner_of(job)

    def use_kinds(self, kinds: Collection[type[ConfiguredApplication]]) -> None:
        """The objects of these described kinds are followed: pods wait for owners that they name."""
        self._group_again(self._owners.await_kinds(kinds, self.tasks))

    def _follow_owner(self, kind: str, key: str, before: Object | None) -> None:
        """Groups the pods again that may belong to an owner which came, changed or went."""
        pods = self._owners.follow(kind, key, before, self.objects[kind].get(key), self.tasks)
        if pods is not None:
            self._group_again(pods)
            return
        jobs = (task.job for name in self._owners.pods_of(kind, key) if (task := self.tasks.get(name)) is not None)
        self._regrouped.update({job.key: None for job in jobs if job is not None})

    def _group_again(self, pods: Iterable[str]) -> None:
        self.upsert_pods({name: self.tasks[name].pod for name in pods if name in self.tasks})

    # --- jobs and queues

    def _read_queues(self) -> None:
        found = {key: read_queue(key, q) for key, q in self.objects["Queue"].items() if isinstance(q, QueueObject)}
        # Volcano creates the queue `default` with its installation, so it is there beside any others.
        found.setdefault("default", read_queue("default", QueueObject()))
        self.queues = found
        for queue in found.values():
            for amounts in (queue.capability, queue.guarantee, queue.deserved):
                self.axis.learn(amounts)
        self.nodes.grow()

    def _add_job(self, job: Job) -> Job:
        self.jobs[job.key] = job
        job.changes = self.changes.log
        job.mark_changed()
        self._enter_queue(job)
        return job

    def _read_job(self, job: Job) -> None:
        """Reads the job's group again; its tasks stay."""
        if job.native:
            job.group = native_group(job.key, self.objects, job) or job.group
        elif job.tasks and job.key not in self.objects["PodGroup"]:
            job.group, job.plain_class = group_again(job, self.lookup, self._owners.kinds)
        read_again(job, self.objects)
        self._enter_queue(job)

    def jobs_of_queues(self) -> Mapping[str, Job]:
        """Returns the jobs whose queue exists, in the order of their names."""
        return self._in_order

    def active(self, reader: object, classes_in: tuple[str, ...] = (), *, plain: bool = False) -> dict[str, Job]:
        """Returns the jobs that changed since a cycle of this reader (a configuration) found them settled.

        `unsettled.backlog` has waiting jobs in one of the phases `classes_in`; if `plain`, only those of plain pods.
        """
        found = self.unsettled.update(self.jobs, self.changes, self.objects["PodGroup"], reader, classes_in, plain)
        if len(self._in_order) == len(self.jobs):
            return dict(found)
        return {key: job for key, job in found.items() if job.queue is not None}

    def _enter_queue(self, job: Job) -> None:
        if job.queue is not None:
            job.queue.jobs.pop(job.key, None)
        job.queue = self.queues.get(job.queue_name)
        if job.queue is not None:
            job.queue.jobs[job.key] = job
            self._in_order.put(job)
        else:
            self._in_order.discard(job.key)

    def _regroup(self, key: str) -> None:
        group = self.objects["PodGroup"].get(key)
        job = self.jobs.get(key)
        if isinstance(group, PodGroup) and job is not None:
            job.group, job.plain_class = group, None
            self._read_job(job)
            return
        if isinstance(group, PodGroup):
            self._add_job(read_job(key, group, self.objects))
        elif job is not None:
            self._drop_job(job)
        namespace = key.partition("/")[0]
        # Pods that do not name it yet may be in it, too: it can be the group in memory, written.
        members = (*self._without_group.get(key, ()), *(job.tasks if job is not None else ()))
        self._group_again(member for member in members if member.startswith(f"{namespace}/"))

    def _read_native_job(self, key: str) -> Job | None:
        """Reads the job of a native group; removes it if there is no such group any more."""
        job, group = self.jobs.get(key), native_group(key, self.objects)
        if job is not None and group is not None:
            self._read_job(job)
        elif group is not None:
            job = self._add_job(read_job(key, group, self.objects))
        elif job is not None:
            self._drop_job(job)
        return job

    def _drop_job(self, job: Job) -> None:
        if self.jobs.get(job.key) is not job:
            return  # another one has its name by now
        del self.jobs[job.key]
        self._in_order.discard(job.key)
        job.mark_changed()
        if job.queue is not None:
            job.queue.jobs.pop(job.key, None)

    # --- tasks

    def _read_task(self, key: str, pod: Pod, like: Task | None = None) -> Task | None:
        for changed in self.changed_pods.values():
            changed[key] = None
        try:
            shape = self.shapes.of(pod.spec, None if like is None else like.shape)
        except (QuantityError, ValueError) as fault:
            self.set_aside[key] = Reason("bad-object", f"the pod cannot be read: {fault}", resolvable=False)
            return None
        task = self.tasks[key] = read_task(key, pod, shape, self.nodes.rank, self.objects["PriorityClass"], like)
        if pod.spec.scheduling_group is not None or pod.spec.workload_ref is not None:
            self._native.add_pod(key, pod)
        return task

    def _job_of(self, task: Task) -> Job | None:
        """Returns the job of the group that a pod names, or of a group in memory if a pod of ours names none."""
        spec = task.pod.spec
        ours = spec.scheduler_name in self.ours
        if (spec.scheduling_group or spec.workload_ref) is not None and (native := group_of(task.pod)):
            return self._native_job_of(task, native) if ours else None
        named = task.pod.metadata.annotations.get(GROUP, "")
        if named:
            if not ours and task.status == Status.PENDING:
                return None
            group = f"{task.namespace}/{named}"
            job = self.jobs.get(group)
            if job is None:
                self._without_group.put(group, task.key)
                if ours:
                    text = f"pod group {group} does not exist"
                    self.set_aside[task.key] = Reason("no-group", text, resolvable=False)
            return job
        if not ours:
            return None
        found = self._owners.group_of(task)
        if isinstance(found, Reason):
            self.set_aside[task.key] = found
            return None
        name = f"{task.namespace}/{found}"
        job = self.jobs.get(name)
        if job is None:
            job = self._add_job(job_in_memory(name, task, self.objects, self.lookup, self._owners.kinds))
        else:
            job.plain_class = None
            self._regrouped[name] = None
        return job

    def _names_group(self, task: Task, job: Job) -> bool:
        """Returns whether a pod of ours is in this job by its annotation, whatever its status and owner."""
        return task.pod.spec.scheduler_name in self.ours and not job.native and bool(task.annotations.get(GROUP))

    def _native_job_of(self, task: Task, group: str) -> Job | None:
        """Returns the job of a native group. Groups of other schedulers only use capacity: they are not evicted."""
        found = job_of(group, self.objects)
        if isinstance(found, str):
            self._regrouped[found] = None
            return self.jobs.get(found) or self._read_native_job(found)
        self.set_aside[task.key] = found
        return None

    def needs_node(self, task: Task) -> bool:
        """Returns whether this scheduler must find a node for the pod."""
        return task.status == Status.PENDING and task.pod.spec.scheduler_name in self.ours

    def _remove_task(self, key: str, tally: Tally) -> Job | None:
        """Forgets a pod; returns the job that it was in."""
        self.set_aside.pop(key, None)
        task = self.tasks.pop(key, None)
        if task is None:
            return None
        self._owners.forget(key)
        if task.job is None and (named := task.annotations.get(GROUP)):
            self._without_group.discard(f"{task.namespace}/{named}", key)
        for changed in self.changed_pods.values():
            changed[key] = None
        self._native.remove_pod(key, task.pod)
        if task.node >= 0 and key in self.nodes.on[task.node]:
            self.nodes.observe((task,), -1)
        job = task.job
        if job is not None:
            job.drop(task)
            tally.setdefault((job, task.shape, task.status), [0])[0] -= 1
            if job.key not in self.objects["PodGroup"]:
                if job.tasks or (job.native and not job.key.endswith(WORKLOADS)):
                    self._regrouped[job.key] = None
                else:
                    self._drop_job(job)
        return job
