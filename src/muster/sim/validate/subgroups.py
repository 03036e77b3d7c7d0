"""Sub-groups of a PodGroup that can never hold: no pod names them, their parent is missing, they form a cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from muster.config.names import nearest, suggest
from muster.engine.core.jobs import Job
from muster.engine.core.subgroups import LABEL, grouped
from muster.model.finding import Finding, Severity
from muster.sim.validate.places import Located


def sub_group_findings(job: Job, where: Located) -> Iterator[Finding]:
    spec = job.group.spec
    if spec.sub_groups:
        yield from _parents(job, where)
        yield from _pods(job, where)
    if spec.sub_group_policy and job.tasks:
        root = grouped(job)
        policies = root.parts[-len(spec.sub_group_policy) :] if root is not None else []
        for policy in policies:
            if not policy.parts:
                message = f"subGroupPolicy {policy.name} matches no pod of the group"
                fix = "correct labelSelector and matchLabelKeys, or label the pods"
                yield where.say(_grave(policy.least), "PodGroup", job.key, "sub-group-empty", message, fix)


def _grave(needed: int | None) -> Severity:
    return "error" if needed else "warning"


def _parents(job: Job, where: Located) -> Iterator[Finding]:
    parents = {sub.name: sub.parent for sub in reversed(job.group.spec.sub_groups)}
    cyclic: set[str] = set()
    for i, sub in enumerate(job.group.spec.sub_groups):
        if sub.parent and sub.parent not in parents:
            message = f"the parent of sub-group {sub.name} is {sub.parent}, and there is no such sub-group"
            fix = suggest(sub.parent, [name for name in parents if name != sub.name])
            path = f"spec.subGroups[{i}].parent"
            yield where.say("error", "PodGroup", job.key, "sub-group-parent", message, fix, path)
        way = [sub.name]
        while parents.get(way[-1]) in parents and parents[way[-1]] not in way:
            way.append(parents[way[-1]])
        if parents.get(way[-1]) == sub.name and sub.name not in cyclic:
            cyclic.update(way)
            message = f"the sub-groups form a cycle: {' → '.join([*way, sub.name])}"
            fix = "remove parent from one of them"
            yield where.say("error", "PodGroup", job.key, "sub-group-cycle", message, fix, f"spec.subGroups[{i}]")


def _pods(job: Job, where: Located) -> Iterator[Finding]:
    if not job.tasks:
        return  # that a group has too few pods is reported by itself
    subs = {sub.name: sub for sub in reversed(job.group.spec.sub_groups)}
    inner = {sub.parent for sub in subs.values()}
    named = Counter(task.labels.get(LABEL, "") for task in job.tasks.values())
    strangers = sorted(name for name in named if name and name not in subs)
    for i, sub in enumerate(job.group.spec.sub_groups):
        if sub.name in inner or sub is not subs[sub.name]:
            continue
        path = f"spec.subGroups[{i}]"
        if not named[sub.name]:
            near = nearest(sub.name, strangers)
            message = f"no pod of the group names sub-group {sub.name}"
            message += f", which needs {sub.min_member}" if sub.min_member else ""
            fix = f"pods have the label {LABEL}: {near}: is it meant?" if near else f"label pods {LABEL}: {sub.name}"
            yield where.say(_grave(sub.min_member), "PodGroup", job.key, "sub-group-empty", message, fix, path)
        elif named[sub.name] < sub.min_member:
            message = f"minMember of sub-group {sub.name} is {sub.min_member}, but {named[sub.name]} pods name it"
            fix = f"label more pods {LABEL}: {sub.name}, or lower the number"
            yield where.say("warning", "PodGroup", job.key, "too-few-pods", message, fix, path)
    for name in strangers:
        pod = min(key for key, task in job.tasks.items() if task.labels.get(LABEL) == name)
        message = f"names sub-group {name}, which PodGroup {job.key} does not have: it is in no sub-group"
        yield where.say("warning", "Pod", pod, "sub-group-unknown", message, suggest(name, subs))
