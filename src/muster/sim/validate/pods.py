"""Pods that could never be placed, however empty the cluster: no group, no node large enough, none that is selected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from muster.config.names import nearest, suggest
from muster.engine.core.axis import show
from muster.engine.core.hooks import Batch, Bools, Scope
from muster.engine.core.jobs import Status, Task
from muster.engine.core.podgroups import GROUP
from muster.engine.core.session import Session
from muster.model.finding import Finding, Severity
from muster.sim.opening import waits
from muster.sim.validate.places import Located

_ENDED = (Status.SUCCEEDED, Status.FAILED)


def pod_findings(session: Session, where: Located) -> Iterator[Finding]:
    state = session.state
    alike: dict[tuple[str, int], list[Task]] = {}
    others: Counter[str] = Counter()
    absent: dict[tuple[str, str, str], list[Task]] = {}  # (kind, namespace, name) of what a pod names → the pods
    for key, task in sorted(state.tasks.items()):
        yield from _group(session, task, where)
        yield from _node(task, where)
        for kind, name in _named(session, task):
            absent.setdefault((kind, "" if kind == "PriorityClass" else task.namespace, name), []).append(task)
        if waits(state, task) and task.job is not None:
            alike.setdefault((task.job.key, session.signature(task)), []).append(task)
        elif task.pod.spec.scheduler_name not in state.ours and not task.pod.spec.node_name:
            others[task.pod.spec.scheduler_name] += 1
            if others[task.pod.spec.scheduler_name] == 1:
                name = task.pod.spec.scheduler_name
                message = f"is for the scheduler {name}, as all pods with that schedulerName: they are left alone"
                yield where.say("notice", "Pod", key, "other-scheduler", message, f"--scheduler-name {name} takes them")
    for (kind, namespace, name), tasks in absent.items():
        yield _absent(session, kind, namespace, name, tasks, where)
    for tasks in alike.values():
        for message, fix in _over_capability(session, tasks[0]):
            yield where.say("error", "Pod", tasks[0].key, "over-capability", message + _more(tasks), fix)
    if not len(state.nodes):
        if alike:
            yield Finding("warning", "", None, "", "no-nodes", "there are no nodes: no pod can be placed")
        return
    known: dict[int, tuple[str, str, str] | None] = {}  # pods of one signature fare alike, whatever their job
    for (_, signature), tasks in alike.items():
        if signature not in known:
            known[signature] = _never(session, tasks[0])
        found = known[signature]
        if found is not None:
            code, message, fix = found
            yield where.say("error", "Pod", tasks[0].key, code, message + _more(tasks), fix)


def _more(tasks: list[Task]) -> str:
    return f" (and {len(tasks) - 1} more like it)" if len(tasks) > 1 else ""


def _group(session: Session, task: Task, where: Located) -> Iterator[Finding]:
    reason = session.state.set_aside.get(task.key)
    if reason is None:
        return
    severity: Severity = "error" if task.node < 0 else "warning"
    fix = ""
    if reason.code == "no-group":
        here = [key.partition("/")[2] for key in session.state.jobs if key.startswith(f"{task.namespace}/")]
        near = nearest(task.annotations.get(GROUP, ""), here)
        fix = f"did you mean {near}?" if near else "create the PodGroup, or take the annotation away"
    yield where.say(severity, "Pod", task.key, reason.code, reason.say(), fix)


def _node(task: Task, where: Located) -> Iterator[Finding]:
    name = task.pod.spec.node_name
    if name and task.node < 0 and task.status not in _ENDED:
        message = f"is on node {name}, which is not there: what it uses is not counted anywhere"
        yield where.say("warning", "Pod", task.key, "no-node", message, "put the node into the input as well")


def _named(session: Session, task: Task) -> Iterator[tuple[str, str]]:
    """Kind and name of the objects that the pod names and that do not exist."""
    spec, objects = task.pod.spec, session.state.objects
    name = spec.priority_class_name
    if name and spec.priority is None and name not in objects["PriorityClass"] and not name.startswith("system-"):
        yield "PriorityClass", name
    if spec.volumes and waits(session.state, task):
        for volume in spec.volumes:
            claim = volume.persistent_volume_claim
            if claim is not None and f"{task.namespace}/{claim.claim_name}" not in objects["PersistentVolumeClaim"]:
                yield "PersistentVolumeClaim", claim.claim_name


def _absent(session: Session, kind: str, namespace: str, name: str, tasks: list[Task], where: Located) -> Finding:
    first = tasks[0].key
    existing = list(session.state.objects[kind])
    if kind == "PriorityClass":
        message = f"priorityClassName is {name}, and there is no such PriorityClass: Kubernetes refuses such a pod"
        return where.say("warning", "Pod", first, "priority-class", message + _more(tasks), suggest(name, existing))
    message = f"uses the claim {name}, and there is no such PersistentVolumeClaim in namespace {namespace}: it waits"
    near = nearest(name, [key.partition("/")[2] for key in existing if key.startswith(f"{namespace}/")])
    fix = f"did you mean {near}?" if near else "add the claim to the input"
    return where.say("error", "Pod", first, "no-claim", message + _more(tasks), fix)


def _over_capability(session: Session, task: Task) -> Iterator[tuple[str, str]]:
    """Message and fix for each queue, of those that limit the pod, whose capability is below the pod's request."""
    quotas = {plugin.name: plugin for plugin in session.plugins if plugin.name in ("proportion", "capacity")}
    queue = task.job.queue if task.job is not None and quotas else None
    in_tree = "capacity" in quotas and quotas["capacity"].option.enabled("enableHierarchy")
    seen: set[str] = set()
    while queue is not None and queue.name not in seen:
        seen.add(queue.name)
        for name, amount in sorted(task.shape.amounts.items()):
            most = queue.capability.get(name)
            if most is not None and amount > most:
                asked, there = show(name, amount), show(name, most)
                message = f"asks for {asked} of {name}, more than the capability {there} of queue {queue.name}"
                yield message, f"raise capability of queue {queue.name}, or ask for less"
        queue = session.queues.get(queue.parent) if in_tree else None


def _never(session: Session, task: Task) -> tuple[str, str, str] | None:
    """Why no node could ever take the pod (code, message, what to do); None if one could."""
    nodes = session.state.nodes
    request = task.shape.request(nodes.axis)
    for row, amount in enumerate(request.tolist()):
        most = int(nodes.alloc[row].max())
        if amount > most:
            name = nodes.axis.names[row]
            asked, there = show(name, amount), show(name, most)
            none = "no node has any" if most == 0 else f"no node has more than {there}"
            near = nearest(name, [n for n, r in nodes.axis.rows.items() if nodes.alloc[r].any()]) if most == 0 else None
            fix = f"did you mean {near}?" if near else "ask for less, or add a larger node"
            return "too-large", f"asks for {asked} of {name}, but {none}", fix
    hopeless: Bools = np.any(nodes.alloc < request[:, None], axis=0)
    counts: Counter[str] = Counter({"too small": int(hopeless.sum())})
    codes: set[str] = {"too-large"} if hopeless.any() else set()
    view = nodes.everything()
    for _, term in session.placement.filters:
        if term.scope != Scope.STATIC or term.batch(task) == Batch.SKIP:
            continue
        verdict = term.filter(task, view)
        for k, reason in enumerate(verdict.reasons, start=1):
            at = np.flatnonzero((verdict.code == k) & ~hopeless) if not reason.resolvable else np.zeros(0, np.int64)
            if len(at):
                counts.update(reason.say(int(node)) for node in at)
                codes.add(reason.code)
                hopeless[at] = True
    if not hopeless.all():
        return None
    said = ", ".join(f"{n} {text}" for text, n in sorted(counts.items()) if n)
    code = codes.pop() if len(codes) == 1 else "never-fits"
    return code, f"no node could ever take it: {said}", _selector_fix(session, task) or "change the pod, or add a node"


def _selector_fix(session: Session, task: Task) -> str:
    """The first label of the nodeSelector that is on no node, with the nearest that is."""
    objects = session.state.nodes.objects
    keys = {key for node in objects for key in node.metadata.labels}
    for key, value in sorted(task.pod.spec.node_selector.items()):
        values = {node.metadata.labels[key] for node in objects if key in node.metadata.labels}
        if key not in keys:
            return f"no node has the label {key}: {suggest(key, keys)}"
        if value not in values:
            return f"no node has {key}={value}: {suggest(value, values)}"
    return ""
