"""Described workload kinds: a state that followed changes is the one that is read afresh, and gangs are never torn."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from builders.manifests import node, pod
from muster import simulate
from muster.cluster.manifests import read
from muster.engine.core.state import State
from muster.model.meta import Object, key
from properties.test_following import picture
from strategies.clusters import state_of
from strategies.profiles import examples

Manifest = dict[str, Any]
TEMPLATE: Manifest = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
NAMES = st.sampled_from(["a", "b"])
SMALL = st.integers(0, 3)
NOTES = st.sampled_from([{}, {"kai.scheduler/batch-min-member": "2"}, {"kai.scheduler/segment-size": "1"}])


def owned(name: str, api_version: str, kind: str, owner: str, labels: dict[str, str]) -> Manifest:
    made = pod(name, labels=labels)
    reference = {"apiVersion": api_version, "kind": kind, "name": owner, "uid": f"u-{kind}-{owner}", "controller": True}
    made["metadata"]["ownerReferences"] = [reference]
    return made


@st.composite
def ray_clusters(draw: st.DrawFn, name: str) -> Manifest:
    group: Manifest = {"groupName": "w", "template": TEMPLATE, "replicas": draw(SMALL)}
    for field in draw(st.sets(st.sampled_from(["minReplicas", "maxReplicas", "numOfHosts"]))):
        group[field] = draw(st.integers(1, 2))
    meta = {"name": name, "namespace": "default", "uid": f"u-RayCluster-{name}", "annotations": draw(NOTES)}
    spec = {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [group]}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": meta, "spec": spec}


@st.composite
def job_sets(draw: st.DrawFn, name: str) -> Manifest:
    jobs = [
        {
            "name": f"j{i}", "replicas": draw(st.integers(1, 2)),
            "template": {"spec": {"parallelism": draw(SMALL), "completions": draw(SMALL), "template": TEMPLATE}},
        }
        for i in range(draw(st.integers(1, 2)))
    ]  # fmt: skip
    meta = {"name": name, "namespace": "default", "uid": f"u-JobSet-{name}", "annotations": draw(NOTES)}
    spec = {"replicatedJobs": jobs}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": meta, "spec": spec}


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Object], list[tuple[bool, Object]]]:
    """Owners and pods, in the versions that they have in turn; True: this one is put, False: it is removed."""
    values = [node("n0", cpu=4)]
    for name in ("a", "b"):
        values.append(draw(ray_clusters(name)))
        values.append(draw(job_sets(name)))
        job_meta = {"name": f"{name}-j0-0", "namespace": "default", "uid": f"u-Job-{name}-j0-0"}
        above = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": name, "uid": f"u-JobSet-{name}"}
        if draw(st.booleans()):
            job_meta["ownerReferences"] = [{**above, "controller": True}]  # type: ignore[assignment]
        values.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": job_meta, "spec": {"template": TEMPLATE}})
        group = draw(st.sampled_from(["headgroup", "w", ""]))
        labels = {"ray.io/cluster": name, "ray.io/group": group}
        values.append(owned(f"ray-{name}", "ray.io/v1", "RayCluster", name, labels))
        labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": "j0"}
        labels["batch.kubernetes.io/job-completion-index"] = "1"
        labelled = draw(st.booleans())
        values.append(owned(f"job-{name}", "batch/v1", "Job", f"{name}-j0-0", labels if labelled else {}))
    second = [draw(ray_clusters(draw(NAMES))), draw(job_sets(draw(NAMES)))]
    objects = list(read([("x", yaml.safe_dump_all(values).encode())]))
    changed = list(read([("y", yaml.safe_dump_all(second).encode())]))
    start = {key_of(o): o for o in objects if draw(st.booleans())}
    events = [(draw(st.integers(0, 3)) > 0, o) for o in draw(st.permutations([*objects, *changed]))]
    return list(start.values()), [*events[: draw(st.integers(0, len(events)))], *((True, o) for o in changed)]


def key_of(one: Object) -> tuple[str, str]:
    return type(one).__name__, key(one)


def seen(state: State) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a cycle reads, and the sub-groups, which only some groups have."""
    shown = picture(state)
    subs = {k: [(s.name, s.min_member) for s in j.group.spec.sub_groups] for k, j in state.jobs.items()}
    return shown, {"groups": subs, "tasks": {k: t.sub_group for k, t in state.tasks.items()}}


@given(histories())
@examples(150)
def test_following_described_owners_is_reading_afresh(history: tuple[list[Object], list[tuple[bool, Object]]]) -> None:
    start, events = history
    state, there = state_of(start), {key_of(o): o for o in start}
    for put, one in events:
        kind, name = key_of(one)
        if put:
            state.upsert(kind, name, one)
            there[kind, name] = one
        else:
            state.remove(kind, name)
            there.pop((kind, name), None)
    assert seen(state) == seen(state_of(list(there.values())))


# --- gangs


def minimums(value: Manifest) -> list[tuple[str, int]]:
    """The name that the pods of each part of a gang begin with, and how many must run; from the manifest alone."""
    name, spec = value["metadata"]["name"], value["spec"]
    if value["kind"] == "RayCluster":
        group = spec["workerGroupSpecs"][0]
        least = min(group.get("minReplicas", group["replicas"]), group.get("maxReplicas", 99))
        return [(f"default/{name}-head", 1), (f"default/{name}-w-worker-", least * group.get("numOfHosts", 1))]
    found = []
    for job in spec["replicatedJobs"]:
        inner = job["template"]["spec"]
        pods = min(inner["parallelism"], inner["completions"])
        found.append((f"default/{name}-{job['name']}-", job["replicas"] * pods))
    return found


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=3))
@examples(60)
def test_of_a_described_gang_the_minimum_is_bound_or_nothing(data: st.DataObject, cpus: list[int]) -> None:
    workloads = [data.draw(ray_clusters("ray")), data.draw(job_sets("set")), data.draw(ray_clusters("more"))]
    for value in workloads:
        value["metadata"].pop("annotations", None)
    nodes = [node(f"n{i}", cpu=cpu) for i, cpu in enumerate(cpus)]
    binds = simulate(cluster=[*nodes, *workloads]).binds
    for value in workloads:
        parts = minimums(value)
        bound = {prefix: sum(1 for pod in binds if pod.startswith(prefix)) for prefix, _ in parts}
        assert not any(bound.values()) or all(bound[prefix] >= least for prefix, least in parts), (value, binds)


@given(st.data())
@examples(40)
def test_a_described_gang_that_fits_alone_is_bound(data: st.DataObject) -> None:
    value = data.draw(st.one_of(ray_clusters("g"), job_sets("g")))
    value["metadata"].pop("annotations", None)
    parts = minimums(value)
    needed = sum(least for _, least in parts)
    binds = simulate(cluster=[node("n0", cpu=max(needed, 1)), value]).binds
    assert len(binds) >= needed
    assert all(sum(1 for pod in binds if pod.startswith(prefix)) >= least for prefix, least in parts)
