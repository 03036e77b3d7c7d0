"""Reads Kubernetes' own groups (scheduling.k8s.io) into the record from which jobs are made.

A PodGroup is a job, unless it has a parent: then the CompositePodGroup at the top is the job, and the groups below it
are its sub-groups. In v1alpha1 the pods of one group of a Workload with one replica key are a job. A Volcano PodGroup
of the same name is another job: the key of a native job ends with `;` and the kind of its object. Everything here is
a function of the objects, in whatever order they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from muster.engine.core.hooks import Reason
from muster.engine.core.podgroups import QUEUE_NAME
from muster.model.core import Pod
from muster.model.meta import Object, ObjectMeta
from muster.model.native import CompositePodGroup, GroupSpec, NativePodGroup, NativeWorkload, SchedulingPolicy
from muster.model.scheduling import LabelDomain, PodGroup, PodGroupSpec, SubGroup

Objects = Mapping[str, Mapping[str, Object]]

GROUPS, COMPOSITES, WORKLOADS = NativePodGroup.__name__, CompositePodGroup.__name__, NativeWorkload.__name__
NATIVE_KINDS = frozenset({GROUPS, COMPOSITES, WORKLOADS})


class NativeSpec(PodGroupSpec, kw_only=True):
    """What a native group specifies beyond a Volcano PodGroup."""

    priority: int | None = None
    disrupted_whole: bool = False
    never_preempts: bool = False


def group_of(pod: Pod) -> str:
    """The native group that the pod names, as `namespace/name` or `namespace/workload/group/replica key`; or ""."""
    spec = pod.spec
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return f"{pod.metadata.namespace or 'default'}/{spec.scheduling_group.pod_group_name}"
    if spec.workload_ref is not None and spec.workload_ref.name:
        ref = spec.workload_ref
        return f"{pod.metadata.namespace or 'default'}/{ref.name}/{ref.pod_group}/{ref.pod_group_replica_key}"
    return ""


def object_of(job_key: str) -> tuple[str, str] | None:
    """Kind and key of the object that a native job is made from; None for a job that is not native."""
    shown, native, kind = job_key.partition(";")
    if not native:
        return None
    return kind, "/".join(shown.split("/")[:2])


def is_sub_group(group: Object | None) -> bool:
    return isinstance(group, NativePodGroup | CompositePodGroup) and bool(group.spec.parent_composite_pod_group_name)


def job_of(group: str, objects: Objects) -> str | Reason:
    """The key of the job that the pods of a group belong to, or why they must wait."""
    parts = group.split("/")
    if len(parts) > 2:
        key = "/".join(parts[:2])
        workload = objects.get(WORKLOADS, {}).get(key)
        if not isinstance(workload, NativeWorkload):
            return _missing(f"Workload {key} does not exist")
        if all(one.name != parts[2] for one in workload.spec.pod_groups):
            return _missing(f"Workload {key} has no pod group {parts[2]}")
        return f"{group};{WORKLOADS}"
    found = objects.get(GROUPS, {}).get(group)
    if not isinstance(found, NativePodGroup):
        return _missing(f"pod group {group} does not exist")
    root = root_of(found, objects)
    return root if isinstance(root, Reason) else f"{root};{COMPOSITES if is_sub_group(found) else GROUPS}"


def root_of(group: NativePodGroup | CompositePodGroup, objects: Objects) -> str | Reason:
    """The key of the group at the top of the tree, or what is wrong with the chain of parents."""
    namespace = group.metadata.namespace or "default"
    composites = objects.get(COMPOSITES, {})
    chain: list[str] = []
    at, key = group, f"{namespace}/{group.metadata.name}"
    while parent := at.spec.parent_composite_pod_group_name:
        key = f"{namespace}/{parent}"
        if key in chain:
            ring = " → ".join([*chain[chain.index(key) :], key])
            return Reason("group-cycle", f"the composite pod groups form a cycle: {ring}", resolvable=False)
        chain.append(key)
        above = composites.get(key)
        if not isinstance(above, CompositePodGroup):
            return _missing(f"composite pod group {key}, the parent of {at.metadata.name}, does not exist")
        at = above
    return key


def _missing(text: str) -> Reason:
    return Reason("no-group", text, resolvable=False)


def root_jobs(objects: Objects, namespace: str = "") -> Iterator[str]:
    """The keys of the jobs that exist without pods: groups without a parent (of one namespace, or all)."""
    for kind in (GROUPS, COMPOSITES):
        for key, group in objects.get(kind, {}).items():
            if not is_sub_group(group) and (not namespace or key.startswith(f"{namespace}/")):
                yield f"{key};{kind}"


def requires_domain(objects: Objects) -> bool:
    """Whether a group has a topology key."""
    groups = (group for kind in (GROUPS, COMPOSITES) for group in objects.get(kind, {}).values())
    return any(isinstance(one, NativePodGroup | CompositePodGroup) and one.spec.topology_key for one in groups)


def record_of(job_key: str, objects: Objects) -> PodGroup | None:
    """The record of a native job; None if its object does not exist, or is in a tree below another."""
    found = object_of(job_key)
    assert found is not None
    kind, key = found
    root = objects.get(kind, {}).get(key)
    if is_sub_group(root):
        return None
    if isinstance(root, NativeWorkload):
        return _of_workload(root, job_key.split("/")[2], objects)
    if isinstance(root, NativePodGroup):
        return _record(root.metadata, _own(root.spec, _minimum(root.spec.scheduling_policy)), [root], objects)
    return _tree(root, objects) if isinstance(root, CompositePodGroup) else None


def _of_workload(workload: NativeWorkload, name: str, objects: Objects) -> PodGroup | None:
    for one in workload.spec.pod_groups:
        if one.name == name:
            spec = NativeSpec(min_member=_minimum(one.policy))
            return _record(workload.metadata, spec, [workload], objects)
    return None


def _tree(root: CompositePodGroup, objects: Objects) -> PodGroup:
    """The record of a tree: its sub-groups in the order of their names. A PodGroup and a CompositePodGroup may have
    the same name."""
    members = list(_below(root, objects))
    spec = _own(root.spec, 0)
    spec.min_sub_group = _least(root.spec)
    for group in members:
        parent = group.spec.parent_composite_pod_group_name
        composite = isinstance(group, CompositePodGroup)
        spec.sub_groups.append(
            SubGroup(
                name=composite_name(group.metadata.name) if composite else group.metadata.name,
                min_member=0 if composite else _minimum(group.spec.scheduling_policy),
                min_sub_group=_least(group.spec) if composite else None,
                parent="" if parent == root.metadata.name else composite_name(parent),
                topology_constraint=_constraint(group.spec),
            )
        )
    spec.min_member = least_pods(spec.sub_groups, "", spec.min_sub_group)
    spec.disrupted_whole = any(group.spec.disrupted_whole for group in (root, *members))
    return _record(root.metadata, spec, [root, *members], objects)


def composite_name(name: str) -> str:
    """What a CompositePodGroup is called among the sub-groups of its tree."""
    return f"CompositePodGroup {name}"


def least_pods(subs: list[SubGroup], parent: str, least: int | None) -> int:
    """How many pods the sub-groups below a parent need at least, if so many of them must have their minimum."""
    needs = sorted(
        sub.min_member + least_pods(subs, sub.name, sub.min_sub_group) for sub in subs if sub.parent == parent
    )
    return sum(needs if least is None else needs[:least])


def _below(root: CompositePodGroup, objects: Objects) -> Iterable[NativePodGroup | CompositePodGroup]:
    namespace = root.metadata.namespace or "default"
    children: dict[str, list[NativePodGroup | CompositePodGroup]] = {}
    for kind in (COMPOSITES, GROUPS):
        for one in objects.get(kind, {}).values():
            if not isinstance(one, NativePodGroup | CompositePodGroup) or not is_sub_group(one):
                continue
            if (one.metadata.namespace or "default") == namespace:
                children.setdefault(one.spec.parent_composite_pod_group_name, []).append(one)
    waiting = [root.metadata.name]
    while waiting:
        for one in sorted(children.get(waiting.pop(0), ()), key=lambda one: (one.kind, one.metadata.name)):
            yield one
            if isinstance(one, CompositePodGroup):
                waiting.append(one.metadata.name)


def _minimum(policy: SchedulingPolicy | None) -> int:
    """basic (or nothing): the pods are independent of each other."""
    return max(policy.gang.min_count, 1) if policy is not None and policy.gang is not None else 1


def _least(spec: GroupSpec) -> int:
    return max(spec.gang.min_group_count, 1) if spec.gang is not None else 1


def _constraint(spec: GroupSpec) -> LabelDomain | None:
    key = spec.topology_key
    return LabelDomain(topology=key, required_topology_level=key) if key else None


def _own(spec: GroupSpec, minimum: int) -> NativeSpec:
    return NativeSpec(
        min_member=minimum,
        priority_class_name=spec.priority_class_name,
        topology_constraint=_constraint(spec),
        priority=spec.priority,
        disrupted_whole=spec.disrupted_whole,
        never_preempts=spec.preemption_policy == "Never",
        sub_groups=[],
    )


def _record(metadata: ObjectMeta, spec: NativeSpec, groups: Iterable[Object], objects: Objects) -> PodGroup:
    spec.queue = _queue(groups, metadata.namespace or "default", objects)
    return PodGroup(metadata=metadata, spec=spec)


def _queue(groups: Iterable[Object], namespace: str, objects: Objects) -> str:
    """The label or annotation of the group, its Workload or its namespace; in a tree the first group that has one."""
    workloads = objects.get(WORKLOADS, {})
    for group in groups:
        made_from = group.spec.workload_name if isinstance(group, NativePodGroup | CompositePodGroup) else ""
        for one in (group, workloads.get(f"{namespace}/{made_from}")):
            if one is not None and (queue := _named_queue(one.metadata)):
                return queue
    found = objects.get("Namespace", {}).get(namespace)
    return (_named_queue(found.metadata) if found is not None else "") or "default"


def _named_queue(metadata: ObjectMeta) -> str:
    return metadata.labels.get(QUEUE_NAME) or metadata.annotations.get(QUEUE_NAME, "")
