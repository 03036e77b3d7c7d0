"""A control plane with Kubernetes' own PodGroups: the feature gates of 1.36 are on, v1alpha2 is served."""

from __future__ import annotations

from builders.manifests import Manifest, manifest
from live.api import Api, Plain
from live.controlplane import PARTS, ControlPlane
from live.muster_process import muster_pod

GATES = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true,WorkloadAwarePreemption=true"
FLAGS = {
    "kube-apiserver": [
        f"--feature-gates={GATES},DRAWorkloadResourceClaims=true",
        "--runtime-config=scheduling.k8s.io/v1alpha2=true",
    ],
    "kube-controller-manager": [f"--feature-gates={GATES},WorkloadWithJob=true"],
    "kube-scheduler": [f"--feature-gates={GATES}"],
}
VERSION = "scheduling.k8s.io/v1alpha2"
PREEMPT = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: topology
"""


def native_plane() -> ControlPlane:
    return ControlPlane(parts=PARTS, flags=FLAGS)


def native_group(namespace: str, name: str, minimum: int, **spec: object) -> Manifest:
    policy = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    return manifest(VERSION, "PodGroup", name, namespace=namespace, spec={"schedulingPolicy": policy, **spec})


def native_pod(namespace: str, name: str, group: str, cpu: str = "1", **more: object) -> Manifest:
    return muster_pod(namespace, name, cpu=cpu, schedulingGroup={"podGroupName": group}, **more)


def path_of(namespace: str, name: str) -> str:
    return f"/apis/{VERSION}/namespaces/{namespace}/podgroups/{name}"


def condition_of(api: Api, namespace: str, name: str, type_: str = "PodGroupScheduled") -> Plain:
    """The condition of a group; empty if it has none."""
    found = api.get(path_of(namespace, name)).get("status", {}).get("conditions", [])
    return next((one for one in found if one["type"] == type_), {})
