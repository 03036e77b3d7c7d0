"""Metrics of a running scheduler: what they say is what the cluster has, and nothing of what it had."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders.manifests import queue
from live.api import Api, place, until
from live.conftest import HOME, MakeNodes
from live.muster_process import Scheduler, all_placed, gang, muster_pod, read_group

pytestmark = pytest.mark.usefixtures("crds", "namespaces_deleted")

NODE_GROUPS = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodegroup}, {name: nodeorder}]
"""


def test_a_deleted_queue_and_its_groups_are_gone_from_the_metrics(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(1, labels={"volcano.sh/nodegroup-name": f"{namespace}-nodes"})
    affinity = {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [f"{namespace}-nodes"]}}
    red = api.create(queue(f"{namespace}-red", weight=3, affinity=affinity))
    with Scheduler(scheduler_kubeconfig, config=NODE_GROUPS) as muster:

        def message(line: str) -> bool:
            return line in muster.probe("/metrics")[1]

        all_placed(api, namespace, gang(api, namespace, "g", 2, queue=f"{namespace}-red"))
        gang(api, namespace, "large", 20, queue=f"{namespace}-red")
        name = f'queue_name="{namespace}-red"'
        until("what it holds", lambda: message(f"volcano_queue_allocated_milli_cpu{{{name}}} 2000.0"))
        assert message(f"volcano_queue_weight{{{name}}} 3.0")
        groups = f'{{nodegroup_name="{namespace}-nodes",{name}}}', f'{{{name},nodegroup_name="{namespace}-nodes"}}'
        assert any(message(f"volcano_queue_nodegroup_allocated_milli_cpu{labels} 2000.0") for labels in groups)
        until("what waits", lambda: message(f'volcano_unschedule_task_count{{job_id="{namespace}/large"}} 20.0'))
        assert muster.metric("muster_pending_pods") == 20
        api.delete(f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
        for one in ("g", "large"):
            api.delete(place(read_group(api, namespace, one)))
        api.delete(place(red))
        # The node group is still there.
        until("no trace of it", lambda: not message(f"{namespace}-red") and not message(f"{namespace}/"))
        assert muster.metric("muster_nodegroup_allocatable_milli_cpu") == 8000


def test_only_the_leader_has_metrics_of_the_cluster(
    api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path
) -> None:
    make_nodes(2)
    lease = f"{HOME}/muster-scheduler"
    with Scheduler(scheduler_kubeconfig, elect=True, lease=lease) as first:
        until("a leader", lambda: first.leads())
        api.create(muster_pod(namespace, "a"))
        all_placed(api, namespace, ["a"])
        until("its figures", lambda: first.metric("muster_nodes") == 2)
        with Scheduler(scheduler_kubeconfig, elect=True, lease=lease) as second:
            assert second.metric("muster_nodes") == 0 and second.metric("volcano_queue_weight") == 0
            # Somebody takes the lease away: it must not go on telling what it saw.
            path = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/muster-scheduler"
            api.merge(path, {"spec": {"holderIdentity": "somebody-else"}})
            until("the loss", lambda: not first.leads(), 10)
            until("nothing stale", lambda: first.metric("muster_nodes") == 0, 10)
