"""Conditions that are written late: what the binding reported stays."""

from __future__ import annotations

import pytest

from live.api import Api, until
from live.bad_way import BadWay
from live.conftest import HOME, MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, all_placed, condition, gang

pytestmark = pytest.mark.usefixtures("crds")


def test_no_running_pod_keeps_the_condition_of_one_that_waits(
    api: Api, namespace: str, make_nodes: MakeNodes, control_plane: ControlPlane, rights: None
) -> None:
    make_nodes(1, prefix="small", resources={"cpu": "1"})
    names = gang(api, namespace, "many", 40, cpu="100m")
    with BadWay(control_plane, api.token_of(HOME, "muster-scheduler"), 0.0) as way:
        # The statuses are on their way, and eight at a time wait to be, when the gang gets its node.
        way.slow = lambda method, path: 2.0 if method == "PATCH" and path.endswith("/status") else 0.0
        with Scheduler(way.kubeconfig):
            until("a status to arrive", lambda: way.answers["status", 200])
            make_nodes(1)
            all_placed(api, namespace, names, 60)
            idle = 0

            def none_under_way() -> bool:
                nonlocal idle
                idle = 0 if way.delayed else idle + 1
                return idle > 10

            until("no status to be on its way", none_under_way, 90, every=0.2)
    wrong = [name for name in names if condition(api, namespace, name).get("status") != "True"]
    assert wrong == []
    refused = sum(count for (what, code), count in way.answers.items() if what == "status" and code == 422)
    assert refused == 0
    # At most those that were on their way when the pods were bound came too late.
    assert sum(count for (what, code), count in way.answers.items() if what == "status" and code == 409) <= 8
