"""The nodes, pods and groups of scheduler_perf's templates, each decoded on its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from muster.model.core import Node, Pod
from muster.model.meta import Object
from muster.model.native import NativePodGroup
from muster.model.storage import CSINode, PersistentVolume, PersistentVolumeClaim

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"
INIT, MEASURED = "sched-0", "sched-1"  # namespaces of the running and of the measured pods
EBS = "ebs.csi.aws.com"
ATTACHABLE = 39  # volumes of that driver per node

_node = msgspec.json.Decoder(Node)
_pod = msgspec.json.Decoder(Pod)
_group = msgspec.json.Decoder(NativePodGroup)
_volume = msgspec.json.Decoder(PersistentVolume)
_claim = msgspec.json.Decoder(PersistentVolumeClaim)
_csi_node = msgspec.json.Decoder(CSINode)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def node(
    name: str, labels: Mapping[str, str] | None = None, *, pods: int = 110, taint: str = "", extra: str = ""
) -> Node:
    """Returns node-default (4 CPUs and 32Gi); with `taint` node-with-taint."""
    offer = f'"cpu":"4","memory":"32Gi","pods":"{pods}"{extra}'
    taints = f'"taints":[{{"key":"{taint}","effect":"NoSchedule"}}]' if taint else ""
    return _node.decode(
        f'{{"metadata":{{"name":"{name}","labels":{_text({HOST: name, **(labels or {})})}}},"spec":{{{taints}}},'
        f'"status":{{"allocatable":{{{offer}}},"conditions":[{{"type":"Ready","status":"True"}}]}}}}'.encode()
    )


def owner(replica_set: str) -> str:
    reference = f'{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"{replica_set}","controller":true}}'
    return f'"ownerReferences":[{reference}],'


def node_name(i: int) -> str:
    return f"scheduler-perf-{i:05}"


def nodes(count: int, key: str = "", values: tuple[str, ...] = ()) -> Iterator[Node]:
    """Returns nodes whose label `key` has the values in turn."""
    for i in range(count):
        yield node(node_name(i), {key: values[i % len(values)]} if key else None)


TERMINATING = '"deletionTimestamp":"2026-01-01T01:00:00Z","deletionGracePeriodSeconds":3600,'
DEFAULT_REQUEST = '"cpu":"100m","memory":"500Mi"'  # of pod-default


def pod(
    name: str, space: str = MEASURED, *, request: str = DEFAULT_REQUEST, labels: str = "", spec: str = "",
    place: str = "", meta: str = "",
) -> Pod:  # fmt: skip
    """Returns pod-default with other requests, labels and further fields of spec and metadata as JSON text.

    `place` is the node of a running pod.
    """
    phase, where = ("Running", f'"nodeName":"{place}",') if place else ("Pending", "")
    meta += f'"labels":{{{labels}}},' if labels else ""
    amounts = f'"resources":{{"requests":{{{request}}},"limits":{{{request}}}}},' if request else ""
    return _pod.decode(
        f'{{"metadata":{{"name":"{name}","namespace":"{space}","uid":"{space}-{name}",{meta}'
        f'"creationTimestamp":"2026-01-01T00:00:00Z"}},"spec":{{"schedulerName":"muster",{where}{spec}"containers":'
        f'[{{"name":"pause","image":"pause:3.10",{amounts}"ports":[{{"containerPort":80}}]}}]}},'
        f'"status":{{"phase":"{phase}"}}}}'.encode()
    )


def running(count: int, node_count: int, **fields: str) -> Iterator[Pod]:
    """Returns pods that run before the measurement, evenly on the nodes."""
    for i in range(count):
        yield pod(f"init-{i:05}", INIT, place=node_name(i % node_count), **fields)


def waiting(count: int, **fields: str) -> Iterator[Pod]:
    """Returns the measured pods."""
    for i in range(count):
        yield pod(f"pod-{i:05}", **fields)


# --- rules of pods, as JSON text

_SPACES = f'"namespaces":["{MEASURED}","{INIT}"]'


def _term(colour: str, key: str) -> str:
    return f'{{"labelSelector":{{"matchLabels":{{"color":"{colour}"}}}},"topologyKey":"{key}",{_SPACES}}}'


def required(kind: str, colour: str, key: str) -> str:
    """Returns a required podAffinity or podAntiAffinity."""
    terms = f'"requiredDuringSchedulingIgnoredDuringExecution":[{_term(colour, key)}]'
    return f'"affinity":{{"{kind}":{{{terms}}}}},'


def preferred(kind: str, colour: str, key: str) -> str:
    """Returns a preferred podAffinity or podAntiAffinity."""
    terms = f'[{{"weight":1,"podAffinityTerm":{_term(colour, key)}}}]'
    return f'"affinity":{{"{kind}":{{"preferredDuringSchedulingIgnoredDuringExecution":{terms}}}}},'


def node_affinity(part: str, key: str, *values: str) -> str:
    """Returns a required node affinity by label (`matchExpressions`) or field (`matchFields`)."""
    term = {part: [{"key": key, "operator": "In", "values": list(values)}]}
    terms = _text({"nodeSelectorTerms": [term]})
    return f'"affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{terms}}}}},'


def spreading(skew: int, key: str, otherwise: str, label: str, value: str, more: str = "") -> str:
    selector = f'"labelSelector":{{"matchLabels":{{"{label}":"{value}"}}}}'
    rule = f'"maxSkew":{skew},"topologyKey":"{key}","whenUnsatisfiable":"{otherwise}",{selector}{more}'
    return f'"topologySpreadConstraints":[{{{rule}}}],'


# --- volumes


def claim_spec(name: str) -> str:
    return f'"volumes":[{{"name":"vol","persistentVolumeClaim":{{"claimName":"{name}"}}}}],'


def bound_volume(index: str, space: str, *, in_tree: bool) -> Iterator[Object]:
    """Returns a PersistentVolume and the claim that is bound to it."""
    source = (
        f'"awsElasticBlockStore":{{"volumeID":"vol-{index}"}}' if in_tree
        else f'"csi":{{"driver":"{EBS}","volumeHandle":"vol-{index}"}}'
    )  # fmt: skip
    reference = f'"claimRef":{{"namespace":"{space}","name":"pvc-{index}"}}'
    yield _volume.decode(
        f'{{"metadata":{{"name":"pv-{index}"}},"spec":{{"accessModes":["ReadOnlyMany"],"capacity":{{"storage":"1Gi"}},'
        f'{reference},"persistentVolumeReclaimPolicy":"Retain",{source}}},"status":{{"phase":"Bound"}}}}'.encode()
    )
    yield _claim.decode(
        f'{{"metadata":{{"name":"pvc-{index}","namespace":"{space}","annotations":'
        f'{{"pv.kubernetes.io/bind-completed":"true"}}}},"spec":{{"accessModes":["ReadOnlyMany"],'
        f'"volumeName":"pv-{index}","resources":{{"requests":{{"storage":"1Gi"}}}}}},'
        '"status":{"phase":"Bound"}}'.encode()
    )


def csi_node(name: str, *, migrated: bool) -> CSINode:
    notes = (
        '"annotations":{"storage.alpha.kubernetes.io/migrated-plugins":"kubernetes.io/aws-ebs"},' if migrated else ""
    )
    driver = f'{{"name":"{EBS}","nodeID":"{name}","allocatable":{{"count":{ATTACHABLE}}}}}'
    return _csi_node.decode(f'{{"metadata":{{{notes}"name":"{name}"}},"spec":{{"drivers":[{driver}]}}}}'.encode())


# --- native groups


def native_group(name: str, space: str, least: int, *, key: str = "", priority: int = 0) -> NativePodGroup:
    where = f',"schedulingConstraints":{{"topology":[{{"key":"{key}"}}]}}' if key else ""
    return _group.decode(
        f'{{"apiVersion":"scheduling.k8s.io/v1beta1","kind":"PodGroup","metadata":{{"name":"{name}",'
        f'"namespace":"{space}","creationTimestamp":"2026-01-01T00:00:00Z"}},"spec":{{"schedulingPolicy":'
        f'{{"gang":{{"minCount":{least}}}}}{where},"priority":{priority}}}}}'.encode()
    )


def member_spec(group: str, priority: int = 0) -> str:
    return f'"schedulingGroup":{{"podGroupName":"{group}"}},"priority":{priority},'
