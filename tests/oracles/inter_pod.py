"""Pods with affinity and spread constraints, and a plain reading of kube-scheduler's rules for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.config.types import Config
from muster.engine.core.jobs import Task
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.model.core import Node, Pod, PodAffinityTerm
from muster.model.kinds import decode_as
from muster.model.meta import LabelSelector, Object
from muster.model.selectors import matches
from muster.plugin_checks.pod_features import affinity as affinity  # for its users

HOST, ZONE = "kubernetes.io/hostname", "zone"


def host(name: str, zone: str = "", labels: Mapping[str, str] | None = None, **spec: Any) -> Node:
    """A node with its hostname label, and a zone if it has one; `labels` given are all it has."""
    own = labels if labels is not None else {HOST: name, **({ZONE: zone} if zone else {})}
    offered = {"cpu": "8", "memory": "16Gi", "pods": 110}
    meta = {"name": name, "labels": own}
    return decode_as(Node, {"metadata": meta, "spec": spec, "status": {"allocatable": offered}})


def near(app: str, key: str = ZONE, **more: Any) -> dict[str, Any]:
    """A pod affinity term: pods of the app, within a value of the label."""
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def spread(app: str | None, key: str = ZONE, skew: int = 1, soft: bool = False, **more: Any) -> dict[str, Any]:
    """A spread constraint over pods of the app ("" is the empty selector, None no selector)."""
    selector: dict[str, Any] = {} if app is None else {"labelSelector": {"matchLabels": {"app": app}} if app else {}}
    when = "ScheduleAnyway" if soft else "DoNotSchedule"
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, **selector, **more}


def app(name: str, of: str, on: str = "", namespace: str = "default", terminating: bool = False, **spec: Any) -> Pod:
    """A pod with the label `app`, and other `labels` and `owners` if given."""
    meta = {
        "name": name,
        "namespace": namespace,
        "labels": {"app": of, **spec.pop("labels", {})},
        "ownerReferences": spec.pop("owners", []),
        "deletionTimestamp": "2024-01-01T00:00:00Z" if terminating else None,
    }
    spec["containers"] = [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}]
    spec["nodeName"] = on
    return decode_as(Pod, {"metadata": meta, "spec": spec, "status": {"phase": "Running" if on else "Pending"}})


def cluster(*objects: Object) -> State:
    """A state of any objects."""
    found: dict[str, dict[str, Object]] = {}
    for o in objects:
        key = f"{o.metadata.namespace or 'default'}/{o.metadata.name}" if o.namespaced else o.metadata.name
        found.setdefault(type(o).__name__, {})[key] = o
    state = State()
    state.load(found)
    return state


def session(state: State) -> Session:
    """A cycle without plugins."""
    return Session(state, Config(), [], now=0.0)


def task(state: State, name: str) -> Task:
    return state.tasks[f"default/{name}"]


# --- a plain reading, pod by pod and node by node


def _meant(term: PodAffinityTerm, holder: Task, other: Task, namespaces: Mapping[str, Mapping[str, str]]) -> bool:
    here = not term.namespaces and term.namespace_selector is None and other.namespace == holder.namespace
    there = {"kubernetes.io/metadata.name": other.namespace, **namespaces.get(other.namespace, {})}
    if not (here or other.namespace in term.namespaces or matches(term.namespace_selector, there)):
        return False
    return matches(term.label_selector, other.labels)


def affinity_code(state: State, task: Task, placed: Mapping[str, int], node: int) -> int:
    """0, or 1 affinity, 2 anti-affinity, 3 the anti-affinity of a pod that is there. `placed`: pod → its node."""
    labels = state.nodes.labels
    wanted = task.pod.spec.affinity
    others = [(state.tasks[key], at) for key, at in placed.items()]
    required = wanted.pod_affinity.required if wanted and wanted.pod_affinity else []
    anti = wanted.pod_anti_affinity.required if wanted and wanted.pod_anti_affinity else []
    if required:
        here = labels.of(node)
        if any(term.topology_key not in here for term in required):
            return 1
        both = [at for other, at in others if all(_meant(term, task, other, {}) for term in required)]
        near_to = {
            (t.topology_key, labels.of(at)[t.topology_key])
            for at in both
            for t in required
            if t.topology_key in labels.of(at)
        }
        if not all((t.topology_key, here[t.topology_key]) in near_to for t in required):
            first = not near_to and all(_meant(term, task, task, {}) for term in required)
            if not first:
                return 1

    def together(key: str, at: int) -> bool:
        value = labels.of(node).get(key)
        return value is not None and labels.of(at).get(key) == value

    if any(_meant(t, task, other, {}) and together(t.topology_key, at) for other, at in others for t in anti):
        return 2
    for other, at in others:
        own = other.pod.spec.affinity
        for term in own.pod_anti_affinity.required if own and own.pod_anti_affinity else []:
            if _meant(term, other, task, {}) and together(term.topology_key, at):
                return 3
    return 0


def spread_code(state: State, task: Task, placed: Mapping[str, int], node: int) -> int:
    """0, or 1 the label is missing, 2 the skew is too large. Without node affinity and taints."""
    labels = state.nodes.labels
    hard = [c for c in task.pod.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]
    counted = [i for i in range(len(state.nodes)) if all(c.topology_key in labels.of(i) for c in hard)]
    for c in hard:
        here = labels.of(node).get(c.topology_key)
        if here is None:
            return 1
        selector = c.label_selector
        number = {labels.of(i)[c.topology_key]: 0 for i in counted}
        for key, at in placed.items():
            other = state.tasks[key]
            alive = other.pod.metadata.deletion_timestamp is None
            if at in counted and alive and other.namespace == task.namespace and _picks(selector, other):
                number[labels.of(at)[c.topology_key]] += 1
        least = min(number.values()) if number and len(number) >= (c.min_domains or 1) else 0
        if number.get(here, 0) + matches(selector, task.labels) - least > c.max_skew:
            return 2
    return 0


def _picks(selector: LabelSelector | None, other: Task) -> bool:
    empty = selector is not None and not selector.match_labels and not selector.match_expressions
    return not empty and matches(selector, other.labels)
