"""Finds pods that could never be placed, even in an empty cluster: their group does not exist, no node is large enough,
or no node matches their selectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from muster.config.names import nearest, suggest
from muster.engine.core.hooks import Batch, Bools, Scope
from muster.engine.core.jobs import Status, Task
from muster.engine.core.native_groups import GROUPS, WORKLOADS, group_of
from muster.engine.core.podgroups import GROUP
from muster.engine.core.resources import total_of
from muster.engine.core.session import Session
from muster.model.finding import Finding, Severity
from muster.model.quantity import display
from muster.validation.locator import Locator

_ENDED = (Status.SUCCEEDED, Status.FAILED)


def pod_findings(session: Session, locator: Locator) -> Iterator[Finding]:
    """Checks every pod; pods that no plugin distinguishes are reported once."""
    state = session.state
    equal_pods: dict[tuple[str, int], list[Task]] = {}
    foreign: Counter[str] = Counter()
    missing: dict[tuple[str, str, str], list[Task]] = {}  # (kind, namespace, name) → the pods that refer to it
    for key, task in sorted(state.tasks.items()):
        yield from _group(session, task, locator)
        yield from _node(task, locator)
        for kind, name in _missing_references(session, task):
            missing.setdefault((kind, "" if kind == "PriorityClass" else task.namespace, name), []).append(task)
        if state.needs_node(task) and task.job is not None:
            equal_pods.setdefault((task.job.key, session.signature(task)), []).append(task)
        elif task.pod.spec.scheduler_name not in state.ours and not task.pod.spec.node_name:
            foreign[task.pod.spec.scheduler_name] += 1
            if foreign[task.pod.spec.scheduler_name] == 1:
                name = task.pod.spec.scheduler_name
                message = f"is for the scheduler {name}, like all pods with that schedulerName: muster ignores them"
                fix = f"--scheduler-name {name} takes them"
                yield locator.finding("notice", "Pod", key, "other-scheduler", message, fix)
    for (kind, namespace, name), tasks in missing.items():
        yield _missing_object(session, kind, namespace, name, tasks, locator)
    for tasks in equal_pods.values():
        for message, fix in _over_capability(session, tasks[0]):
            yield locator.finding("error", "Pod", tasks[0].key, "over-capability", message + _more(tasks), fix)
    if not len(state.nodes):
        if equal_pods:
            yield Finding("warning", "", None, "", "no-nodes", "there are no nodes: no pod can be placed")
        return
    reasons: dict[int, tuple[str, str, str] | None] = {}  # pods of one signature are placed alike, whatever their job
    for (_, signature), tasks in equal_pods.items():
        if signature not in reasons:
            reasons[signature] = _never(session, tasks[0])
        found = reasons[signature]
        if found is not None:
            code, message, fix = found
            yield locator.finding("error", "Pod", tasks[0].key, code, message + _more(tasks), fix)


def _more(tasks: list[Task]) -> str:
    return f" (and {len(tasks) - 1} more like it)" if len(tasks) > 1 else ""


def _group(session: Session, task: Task, locator: Locator) -> Iterator[Finding]:
    reason = session.state.set_aside.get(task.key)
    if reason is None:
        return
    severity: Severity = "error" if task.node < 0 else "warning"
    fix = ""
    if reason.code == "no-group":
        native = group_of(task.pod)
        named = native.split("/")[1] if native else task.annotations.get(GROUP, "")
        table = session.state.objects["PodGroup" if not native else GROUPS if native.count("/") == 1 else WORKLOADS]
        near = nearest(named, [key.partition("/")[2] for key in table if key.startswith(f"{task.namespace}/")])
        field = "annotation" if not native else "field"
        what = "PodGroup" if not native or native.count("/") == 1 else "Workload"
        fix = f"did you mean {near}?" if near else f"create the {what}, or take the {field} away"
    yield locator.finding(severity, "Pod", task.key, reason.code, reason.message(), fix)


def _node(task: Task, locator: Locator) -> Iterator[Finding]:
    name = task.pod.spec.node_name
    if name and task.node < 0 and task.status not in _ENDED:
        message = f"is on node {name}, which is not there: what it uses is not counted anywhere"
        yield locator.finding("warning", "Pod", task.key, "no-node", message, "put the node into the input as well")


def _missing_references(session: Session, task: Task) -> Iterator[tuple[str, str]]:
    """Yields kind and name of the objects that the pod refers to and that do not exist."""
    spec, objects = task.pod.spec, session.state.objects
    name = spec.priority_class_name
    if name and spec.priority is None and name not in objects["PriorityClass"] and not name.startswith("system-"):
        yield "PriorityClass", name
    if spec.volumes and session.state.needs_node(task):
        for volume in spec.volumes:
            claim = volume.persistent_volume_claim
            if claim is not None and f"{task.namespace}/{claim.claim_name}" not in objects["PersistentVolumeClaim"]:
                yield "PersistentVolumeClaim", claim.claim_name


def _missing_object(
    session: Session, kind: str, namespace: str, name: str, tasks: list[Task], locator: Locator
) -> Finding:
    first = tasks[0].key
    existing = list(session.state.objects[kind])
    if kind == "PriorityClass":
        message = f"priorityClassName is {name}, and there is no such PriorityClass: Kubernetes refuses such a pod"
        fix = suggest(name, existing)
        return locator.finding("warning", "Pod", first, "priority-class", message + _more(tasks), fix)
    message = f"uses the claim {name}, and there is no such PersistentVolumeClaim in namespace {namespace}: it waits"
    near = nearest(name, [key.partition("/")[2] for key in existing if key.startswith(f"{namespace}/")])
    fix = f"did you mean {near}?" if near else "add the claim to the input"
    return locator.finding("error", "Pod", first, "no-claim", message + _more(tasks), fix)


def _over_capability(session: Session, task: Task) -> Iterator[tuple[str, str]]:
    """Yields message and fix for each queue that limits the pod and whose capability is below the pod's request."""
    quotas = {plugin.name: plugin for plugin in session.plugins if plugin.name in ("proportion", "capacity")}
    queue = task.job.queue if task.job is not None and quotas else None
    in_tree = "capacity" in quotas and quotas["capacity"].option.enabled("enableHierarchy")
    seen: set[str] = set()
    while queue is not None and queue.name not in seen:
        seen.add(queue.name)
        for name, amount in sorted(task.shape.amounts.items()):
            most = queue.capability.get(name)
            if most is not None and amount > most:
                asked, there = display(name, amount), display(name, most)
                message = f"requests {asked} of {name}, more than the capability {there} of queue {queue.name}"
                yield message, f"raise capability of queue {queue.name}, or request less"
        queue = session.queues.get(queue.parent) if in_tree else None


def _never(session: Session, task: Task) -> tuple[str, str, str] | None:
    """Returns why no node could ever run the pod (code, message, fix); None if one could."""
    nodes = session.state.nodes
    needs = nodes.axis.needs(task.shape.amounts)
    for row, amount in needs:
        most = int(nodes.alloc[row].max())
        if amount > most:
            name = nodes.axis.name(row)
            asked, there = display(name, amount), display(name, most)
            none = "no node has any" if most == 0 else f"no node has more than {there}"
            near = nearest(name, [n for n, total in total_of(nodes).items() if total]) if most == 0 else None
            fix = f"did you mean {near}?" if near else "request less, or add a larger node"
            return "too-large", f"requests {asked} of {name}, but {none}", fix
    excluded: Bools = np.zeros(len(nodes), np.bool_)
    for row, amount in needs:
        excluded |= nodes.alloc[row] < amount
    counts: Counter[str] = Counter({"too small": int(excluded.sum())})
    codes: set[str] = {"too-large"} if excluded.any() else set()
    view = nodes.everything()
    for _, term in session.placement.filters:
        if term.scope != Scope.STATIC or term.batch(task) == Batch.SKIP:
            continue
        verdict = term.filter(task, view)
        for k, reason in enumerate(verdict.reasons, start=1):
            at = np.flatnonzero((verdict.code == k) & ~excluded) if not reason.resolvable else np.zeros(0, np.int64)
            if len(at):
                counts.update(reason.message(int(node)) for node in at)
                codes.add(reason.code)
                excluded[at] = True
    if not excluded.all():
        return None
    summary = ", ".join(f"{n} {text}" for text, n in sorted(counts.items()) if n)
    code = codes.pop() if len(codes) == 1 else "never-fits"
    fix = _selector_fix(session, task) or "change the pod, or add a node"
    return code, f"no node could ever take it: {summary}", fix


def _selector_fix(session: Session, task: Task) -> str:
    """Suggests the nearest existing label for the first entry of the nodeSelector that matches no node."""
    objects = session.state.nodes.objects
    keys = {key for node in objects for key in node.metadata.labels}
    for key, value in sorted(task.pod.spec.node_selector.items()):
        values = {node.metadata.labels[key] for node in objects if key in node.metadata.labels}
        if key not in keys:
            return f"no node has the label {key}: {suggest(key, keys)}"
        if value not in values:
            return f"no node has {key}={value}: {suggest(value, values)}"
    return ""
