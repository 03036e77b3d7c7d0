"""The same native groups for kube-scheduler and for muster, one after the other on one control plane.

The groups are the random ones of `oracles.group_placement` that an exhaustive search can place. Each has nodes of its
own, so that they do not compete.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from builders.manifests import Manifest, manifest
from live.api import Api, live_node, until
from live.muster_process import create_all
from oracles.group_placement import RandomGroup

LOW, HIGH = "native-low", "native-high"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups"
SETTLED_S = 60.0  # so long nothing more is bound


def create_nodes(api: Api, cases: Sequence[RandomGroup]) -> None:
    """The nodes of all groups, and the two priority classes."""
    for name, value in ((LOW, 1), (HIGH, 1000)):
        api.apply(manifest("scheduling.k8s.io/v1", "PriorityClass", name, meta={"namespace": None}, value=value))
    nodes = [one for case in cases for one in case.nodes]
    create_all(
        api,
        [
            live_node(one["metadata"]["name"], one["metadata"]["labels"], cpu=one["status"]["allocatable"]["cpu"])
            for one in nodes
        ],
    )
    until("the nodes", lambda: _ready(api) >= len(nodes), 300, 1)


def placed_by(
    api: Api, namespace: str, cases: Sequence[RandomGroup], scheduler: str, run: AbstractContextManager[object],
    seconds: float = 600.0,
) -> int:  # fmt: skip
    """How many of the groups this scheduler places whole, until it binds nothing more."""
    api.create(manifest("v1", "Namespace", namespace, namespace=""))
    until("its account", lambda: not api.gone(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"), 60)
    create_all(api, [_changed(one, namespace, "muster") for case in cases for one in case.running])
    count = sum(len(case.running) for case in cases)
    until("the victims run", lambda: _running(api, namespace) >= count, 120, 1)
    with run:
        create_all(api, [_changed(case.group, namespace, scheduler) for case in cases])
        create_all(api, [_changed(one, namespace, scheduler) for case in cases for one in case.pods])
        wanted = {case.group["metadata"]["name"]: len(case.pods) for case in cases}
        bound = _settle(lambda: _bound(api, namespace), sum(wanted.values()), seconds)
    api.delete(f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
    until("no pods", lambda: not api.list(f"/api/v1/namespaces/{namespace}/pods"), 120, 1)
    api.delete(GROUPS.format(namespace))
    return sum(bound[name] == count for name, count in wanted.items())


def _settle(asked: Callable[[], Counter[str]], wanted: int, seconds: float) -> Counter[str]:
    """The last answer once it has stayed the same for a while, or everything is there."""
    end, since, last = time.monotonic() + seconds, time.monotonic(), Counter[str]()
    while True:
        now = asked()
        if now != last:
            last, since = now, time.monotonic()
        done = sum(now.values()) == wanted or time.monotonic() - since > SETTLED_S
        if done or time.monotonic() > end:
            return last
        time.sleep(0.5)


def _bound(api: Api, namespace: str) -> Counter[str]:
    """Group → how many of its pods have a node."""
    pods = api.list(f"/api/v1/namespaces/{namespace}/pods")
    named = [p["spec"].get("schedulingGroup", {}).get("podGroupName") for p in pods if p["spec"].get("nodeName")]
    return Counter(name for name in named if name)


def _running(api: Api, namespace: str) -> int:
    return sum(p["status"].get("phase") == "Running" for p in api.list(f"/api/v1/namespaces/{namespace}/pods"))


def _ready(api: Api) -> int:
    nodes = api.list("/api/v1/nodes")
    return sum(not node["spec"].get("taints") for node in nodes)


def _changed(one: Manifest, namespace: str, scheduler: str) -> Manifest:
    """The manifest as the API server accepts it: a priority class for a priority, and an image."""
    spec = dict(one["spec"])
    metadata = {**one["metadata"], "namespace": namespace}
    if one["kind"] == "Pod":
        containers = [{**container, "image": "app:1"} for container in spec["containers"]]
        spec |= {"schedulerName": scheduler, "containers": containers, "terminationGracePeriodSeconds": 1}
        spec["priorityClassName"] = HIGH if spec.pop("priority", 0) else LOW
    elif spec.pop("priority", 0):
        spec["priorityClassName"] = HIGH
    return {"apiVersion": one["apiVersion"], "kind": one["kind"], "metadata": metadata, "spec": spec}
