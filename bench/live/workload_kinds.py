"""`python bench/live workload-kinds`: many RayClusters whose pods must be bound as complete gangs."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import click
from scene import NAMESPACE, PODS, create_all, node, scene

from live.api import Api, until
from live.muster_process import Scheduler
from live.operators import define, ray_cluster

PODS_PER_NODE = 32


@click.command("workload-kinds")
@click.option("--clusters", default=500, show_default=True, help="How many RayClusters.")
@click.option("--pods", default=16, show_default=True, help="The pods of each, the head among them.")
def workload_kinds(clusters: int, pods: int) -> None:
    """Create RayClusters on nodes for three fifths of them, then add the missing nodes."""
    first = clusters * 3 // 5
    with scene(first * pods // PODS_PER_NODE) as plane:
        api = plane.api
        define(api, "ray.io/v1", "RayCluster", "rayclusters")
        with Scheduler(plane.kubeconfig) as muster:
            begun = time.monotonic()
            with ThreadPoolExecutor(16) as pool:
                list(pool.map(lambda i: ray_cluster(api, NAMESPACE, f"ray{i}", pods - 1), range(clusters)))
            created = time.monotonic() - begun
            until("three fifths", lambda: sum(bound(api).values()) >= first * pods, 300, 1)
            time.sleep(5)
            halfway = Counter(bound(api).values())
            more = [node(i) for i in range(first * pods // PODS_PER_NODE, clusters * pods // PODS_PER_NODE)]
            create_all(api, more)
            until("all", lambda: sum(bound(api).values()) == clusters * pods, 300, 1)
            faults = muster.metric("muster_faults_total")
            record = {
                "clusters": clusters,
                "pods of each": pods,
                "seconds of creation": round(created, 1),
                "seconds until all were bound": round(time.monotonic() - begun, 1),
                "clusters by bound pods while nodes were missing": {str(n): c for n, c in sorted(halfway.items())},
                "complete gangs at the end": sum(n == pods for n in bound(api).values()),
                "faults": faults,
            }
    click.echo(json.dumps(record, indent=2))


def bound(api: Api) -> Counter[str]:
    """RayCluster → its pods that have a node."""
    pods = api.list(PODS)
    return Counter(one["metadata"]["labels"]["ray.io/cluster"] for one in pods if one["spec"].get("nodeName"))
