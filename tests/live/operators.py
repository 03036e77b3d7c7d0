"""Plays operators of workload kinds: their custom resources, and objects with pods as the operators create them."""

from __future__ import annotations

from builders.manifests import manifest
from live.api import Api, Plain, until
from live.conftest import served
from live.muster_process import muster_pod


def define(api: Api, api_version: str, kind: str, plural: str) -> Plain:
    """Creates the custom resource of a namespaced kind, without a schema, and waits until it is served."""
    group, _, version = api_version.partition("/")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    made = api.create(
        manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", namespace="", spec=spec)
    )
    until(f"{plural} to be served", lambda: served(api, f"/apis/{api_version}/{plural}"))
    return made


def ray_cluster(api: Api, namespace: str, name: str, workers: int, *, minimum: int | None = None) -> list[Plain]:
    """A RayCluster and its pods, as KubeRay creates them."""
    template = {"spec": muster_pod(namespace, name)["spec"]}
    group = {"groupName": "small", "replicas": workers, "template": template}
    if minimum is not None:
        group["minReplicas"] = minimum
    spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": [group]}
    owner = api.create(manifest("ray.io/v1", "RayCluster", name, namespace=namespace, spec=spec))
    pods = []
    for i in range(workers + 1):
        role = ("head", "headgroup") if i == 0 else ("worker", "small")
        labels = {"ray.io/cluster": name, "ray.io/node-type": role[0], "ray.io/group": role[1]}
        pods.append(api.create(owned(muster_pod(namespace, f"{name}-{role[0]}-{i}x"), owner, labels)))
    return pods


def owned(pod: Plain, owner: Plain, labels: dict[str, str]) -> Plain:
    meta = owner["metadata"]
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"name": meta["name"], "uid": meta["uid"]}
    pod["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    pod["metadata"].setdefault("labels", {}).update(labels)
    return pod
