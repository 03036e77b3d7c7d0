"""The largest number of pods with which the job runs now.

A gang whose minimum is all its pods becomes a smaller gang; an elastic gang keeps its minimum. Of several roles the
one with most pods is reduced. Pods that are objects of their own are left out from the last name on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from muster.engine.core.podgroups import GROUP
from muster.engine.core.state import Objects
from muster.groups.applications import replicas_of
from muster.model import volcano_job
from muster.model.batch import Deployment, Job, ReplicaSet, ReplicationController, StatefulSet
from muster.model.core import Pod
from muster.model.custom import ConfiguredApplication
from muster.model.kinds import plain
from muster.model.meta import Object, ObjectMeta
from muster.model.meta import key as key_of
from muster.model.natural_order import natural
from muster.model.quantity import canonical
from muster.model.requests import amounts, requests
from muster.model.scheduling import PodGroup
from muster.sim.ask.answer import FEWER_PODS, Proposal, patch_of
from muster.sim.ask.trial import Asked, Tables
from muster.workloads import MIN_MEMBER_ANNOTATIONS

__all__ = ["fewer_pods", "numbers_in", "sizes", "with_number"]

@dataclass(frozen=True, slots=True)
class Size:
    """A number of pods of the job that can be made smaller."""

    kind: str
    name: str  # of the object that has the number
    what: str  # the field, or the pods
    now: int
    least: int  # with fewer pods the gang would be below its minimum
    strict: bool  # the gang's minimum follows
    resized: Callable[[int], Tables]  # the objects of the job with another number


def fewer_pods(asked: Asked) -> Iterator[Proposal]:
    """Yields the change with the largest number of pods that runs, if there is one."""
    size = max(sizes(asked.job), key=lambda size: (size.now, size.name), default=None)
    if size is None or size.now <= size.least:
        return
    found = asked.with_job(size.resized(size.least))
    if not found.try_now().runs:
        return  # with more pods it does not run either
    low, high = size.least, size.now  # with `low` pods it runs, with `high` it does not
    while high - low > 1:
        middle = (low + high) // 2
        tried = asked.with_job(size.resized(middle))
        if tried.try_now().runs:
            low, found = middle, tried
        else:
            high = middle
    gang = f", as a gang of {low}" if size.strict and low > 1 else ""
    kind = size.kind.partition(".")[0]
    text = f"Run it with {low} instead of {size.now} pods{gang}: {size.what} of {kind} {size.name}."
    change: dict[str, Any] = {"kind": kind, "name": size.name, "field": size.what, "from": size.now, "to": low}
    patches = []
    for kind, of_kind in asked.job.items():
        for key, obj in of_kind.items():
            new = found.job.get(kind, {}).get(key)
            if new is not None and plain(new) != plain(obj):
                patches.append(patch_of(obj, new))
    left_out = sorted({*asked.job.get("Pod", {})} - {*found.job.get("Pod", {})})
    if left_out:
        change["without"] = left_out
    yield Proposal(FEWER_PODS, text, change, tuple(patches))


def sizes(job: Objects) -> Iterator[Size]:
    """Yields the numbers of pods of the job that can be made smaller."""
    for kind, of_kind in job.items():
        for key, obj in of_kind.items():
            match obj:
                case volcano_job.Job():
                    yield from _of_volcano_job(job, kind, key, obj)
                case Deployment() | ReplicaSet() | StatefulSet() | ReplicationController() | Job():
                    yield _of_workload(job, kind, key, obj)
                case ConfiguredApplication():
                    yield from _of_described(job, kind, key, obj)
                case PodGroup():
                    yield from _of_pods(job, key, obj)
    loose = [pod for pod in job.get("Pod", {}).values() if GROUP not in pod.metadata.annotations]
    if loose:
        yield from _of_pods(job, "", None)


def _with(job: Objects, *changed: Object, without: Iterable[str] = ()) -> Tables:
    gone = set(without)
    made = {kind: dict(of_kind) for kind, of_kind in job.items()}
    made["Pod"] = {key: pod for key, pod in made.get("Pod", {}).items() if key not in gone}
    for obj in changed:
        made[type(obj).__name__][key_of(obj)] = obj
    return made


def _of_workload(job: Objects, kind: str, key: str, obj: Object) -> Size:
    field = "parallelism" if isinstance(obj, Job) else "replicas"
    given = replicas_of(obj)
    now = 1 if given is None else given
    spec = getattr(obj, "spec")  # noqa: B009
    minimum = max(_minimum(obj.metadata) or _minimum(spec.template.metadata), 1)
    strict = minimum > 1 and minimum >= now

    def resized(count: int) -> Tables:
        fields: dict[str, Any] = {field: count}
        if isinstance(obj, Job) and obj.spec.completion_mode == "Indexed" and obj.spec.completions == now:
            fields["completions"] = count  # an Indexed Job of which all pods run together
        metadata = obj.metadata
        if strict:
            metadata = _with_minimum(metadata, count)
            fields["template"] = replace(spec.template, metadata=_with_minimum(spec.template.metadata, count))
        return _with(job, replace(obj, metadata=metadata, spec=replace(spec, **fields)))

    return Size(kind, key, f"spec.{field}", now, 1 if strict else minimum, strict, resized)


def _minimum(metadata: ObjectMeta) -> int:
    """Returns the minimum of the gang that the annotations request, or 0."""
    given = next(filter(None, (metadata.annotations.get(name) for name in MIN_MEMBER_ANNOTATIONS)), "")
    return int(given) if given.isascii() and given.isdigit() else 0


def _with_minimum(metadata: ObjectMeta, count: int) -> ObjectMeta:
    named = {name: str(count) for name in MIN_MEMBER_ANNOTATIONS if name in metadata.annotations}
    return replace(metadata, annotations={**metadata.annotations, **named})


def _of_volcano_job(job: Objects, kind: str, key: str, obj: volcano_job.Job) -> Iterator[Size]:
    tasks = obj.spec.tasks
    total = sum(task.replicas for task in tasks)
    strict = obj.spec.min_available in (0, total)
    for i, task in enumerate(tasks):
        own = task.replicas if task.min_available is None else task.min_available
        least = 1 if strict else max(own if task.min_available is not None else 1,
                                     obj.spec.min_available - (total - task.replicas), 1)  # fmt: skip

        def resized(count: int, i: int = i, task: volcano_job.TaskSpec = task) -> Tables:
            minimum = None if task.min_available is None else min(task.min_available, count)
            smaller = [*tasks[:i], replace(task, replicas=count, min_available=minimum), *tasks[i + 1 :]]
            fewer = total - task.replicas + count
            spec = replace(obj.spec, tasks=smaller)
            spec.min_available = obj.spec.min_available and (fewer if strict else obj.spec.min_available)
            return _with(job, replace(obj, spec=spec))

        name = volcano_job.task_name(task, i)
        yield Size(kind, key, f"spec.tasks[{name}].replicas", task.replicas, least, strict, resized)


def _of_described(job: Objects, kind: str, key: str, obj: ConfiguredApplication) -> Iterator[Size]:
    for path, number in numbers_in(obj):

        def resized(count: int, path: tuple[str | int, ...] = path) -> Tables:
            return _with(job, replace(obj, spec=with_number(obj, path, count)))

        yield Size(kind, key, ".".join(["spec", *map(str, path)]), number, 1, False, resized)


def _of_pods(job: Objects, key: str, group: PodGroup | None) -> Iterator[Size]:
    """Pods that are objects of the job: those of a PodGroup, or those without one."""
    pods = []
    for name, pod in job.get("Pod", {}).items():
        assert isinstance(pod, Pod)
        named = pod.metadata.annotations.get(GROUP, "")
        if (f"{pod.metadata.namespace}/{named}" if named else "") == key:
            pods.append((name, pod))
    if not pods:
        return
    pods.sort(key=lambda item: natural(item[0]))
    strict = group is not None and group.spec.min_member >= len(pods)

    def resized(count: int) -> Tables:
        gone = dict(pods[count:])
        if group is None or not strict:
            return _with(job, without=gone)
        roles = Counter(pod.metadata.annotations.get(volcano_job.TASK, "") for _, pod in pods[:count])
        least_of_roles = {role: min(least, roles[role]) for role, least in group.spec.min_task_member.items()}
        spec = replace(group.spec, min_member=count, min_task_member=least_of_roles)
        if group.spec.min_resources is not None:
            least = amounts(group.spec.min_resources)
            for pod in gone.values():
                for name, amount in requests(pod.spec).items():
                    if name in least:
                        least[name] = max(least[name] - amount, 0)
            spec.min_resources = {name: canonical(name, amount) for name, amount in least.items()}
        return _with(job, replace(group, spec=spec), without=gone)

    least = 1 if group is None or strict else max(group.spec.min_member, 1)
    if group is None:
        yield Size("Pod", "without a PodGroup", "the number", len(pods), least, False, resized)
    else:
        yield Size("PodGroup", key, "the Pods", len(pods), least, strict, resized)


_NUMBERS = ("replicas", "instances")
_MINIMUMS = ("minReplicas", "minAvailable")
Path = tuple[str | int, ...]


def numbers_in(workload: ConfiguredApplication) -> Iterator[tuple[Path, int]]:
    """Yields the path of each number of pods in the spec, and the number."""
    yield from _numbers(workload.spec, ())


def _numbers(value: Any, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _numbers(item, (*path, i))
    elif isinstance(value, dict):
        for name in _NUMBERS:
            number = value.get(name)
            templated = name == "instances" or any("template" in key.lower() for key in value)
            if isinstance(number, int) and not isinstance(number, bool) and templated:
                yield (*path, name), number
        for name, inner in value.items():
            if "template" not in name.lower():  # what is in a pod template has no replicas
                yield from _numbers(inner, (*path, name))


def with_number(workload: ConfiguredApplication, path: Path, number: int) -> dict[str, Any]:
    """Returns a copy of the spec with another number there; minimums beside it follow, if they were larger."""
    spec = deepcopy(workload.spec)
    at: Any = spec
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = number
    for name in _MINIMUMS:
        if isinstance(at.get(name), int):
            at[name] = min(at[name], number)
    return spec
