"""Two replicas of the parts that have no tests of their own for it: controllers, pod-groups and the edge gate.

Two schedulers are in test_scheduler_faults, two webhooks in test_webhook_replicas, two extenders in test_groups.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from live.accounts import account_in
from live.api import Api, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.gate_site import REQUIRED as REQUIRED_LABEL
from live.gate_site import bind, made, started
from live.muster_process import read_groups
from live.node_groups import BINDING, LEASE, REQUIRED, path, thing, weights, workload
from live.part_process import Part
from live.test_pod_groups import workload as owner

pytestmark = pytest.mark.usefixtures("crds", "rights")


def pair(stack: ExitStack, plane: ControlPlane, namespace: str, verb: str, *arguments: str) -> tuple[Part, Part]:
    """Two replicas of a part: the one that leads, and the other."""
    own = account_in(plane, namespace, verb)
    lease = ("--lease-name", f"{namespace}/muster-{verb}", *LEASE)
    both = [stack.enter_context(Part(verb, own, *lease, *arguments)) for _ in range(2)]
    leader = until("one leader", lambda: next((one for one in both if one.metric("muster_leader") == 1), None), 40)
    (other,) = (one for one in both if one is not leader)
    assert other.metric("muster_leader") == 0 and other.probe("/readyz")[0] == 200
    return leader, other


def lease_holder(api: Api, namespace: str, verb: str) -> str:
    found = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/muster-{verb}")
    assert found["metadata"]["labels"]["app.kubernetes.io/component"] == verb
    return str(found["spec"]["holderIdentity"])


def test_of_two_controllers_one_works_and_the_other_goes_on_when_it_is_killed(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes
) -> None:
    make_nodes(1, labels={"place": namespace})
    group = api.create(thing("NodeGroup", f"group-{namespace}", spec={"matchLabels": {"place": namespace}}))
    api.create(weights(namespace, **{group["metadata"]["name"]: 1}))

    def bound(name: str) -> bool:
        return api.get(path(namespace, name=name))["metadata"].get("labels", {}).get(BINDING) == "pp"

    with ExitStack() as stack:
        configured = ("--applications", f"{namespace}/groupmanagement-config", "--settle", "1")
        leader, other = pair(stack, control_plane, namespace, "controllers", *configured)
        api.create(workload("Deployment", namespace, 1, REQUIRED, "before"))
        until("it to be bound", lambda: bound("before"), 40)
        first = lease_holder(api, namespace, "controllers")
        leader.kill()
        api.create(workload("Deployment", namespace, 1, REQUIRED, "after"))
        until("the other to bind it", lambda: bound("after"), 60)
        assert lease_holder(api, namespace, "controllers") != first
        assert other.metric("muster_leader") == 1
        leader.start(wait=False)
        until("it to stand by", lambda: leader.probe("/readyz")[0] == 200 and not leader.metric("muster_leader"), 40)
        api.delete(f"/apis/groupmanagement.kubeedge.io/v1alpha1/nodegroups/{group['metadata']['name']}")
        gone = f"/apis/groupmanagement.kubeedge.io/v1alpha1/nodegroups/{group['metadata']['name']}"
        until("the group to go", lambda: api.gone(gone), 40)


def test_of_two_writers_of_pod_groups_one_works_and_the_other_goes_on_when_it_is_killed(
    control_plane: ControlPlane, api: Api, namespace: str
) -> None:
    with ExitStack() as stack:
        leader, other = pair(stack, control_plane, namespace, "pod-groups")
        api.create(owner(namespace, "Deployment", "before", 2, replicas=2))
        until("its group", lambda: len(read_groups(api, namespace)) == 1, 40)
        leader.kill()
        api.create(owner(namespace, "Deployment", "after", 3, replicas=3))
        until("the group of the other", lambda: len(read_groups(api, namespace)) == 2, 60)
        assert other.metric("muster_leader") == 1
        assert sorted(one["spec"]["minMember"] for one in read_groups(api, namespace)) == [2, 3]


def test_two_gates_answer_the_same_also_one_that_was_killed_and_started_again(
    control_plane: ControlPlane, api: Api, namespace: str, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    gates = [started(control_plane, folder) for folder in folders]
    pods = f"/api/v1/namespaces/{namespace}/pods"

    def seen(wanted: int) -> None:
        """Each gate shows as many pods of the namespace, and they are the same."""

        def same() -> bool:
            one, two = (set(gate.client(pods).listed()) for gate in gates)
            return one == two and len(one) == wanted

        until(f"both gates to show {wanted} pods", same, 40)

    with ExitStack() as stack:
        for gate in gates:
            stack.enter_context(gate.part)
        made(api, namespace, "free", 1, {})
        held = made(api, namespace, "held", 2, {REQUIRED_LABEL: "pp"})
        seen(1)
        watchers = [stack.enter_context(gate.client(pods)) for gate in gates]
        until("both to list", lambda: all(len(one.state) == 1 for one in watchers))
        bind(api, held)
        seen(3)
        until("both watches to report them", lambda: all(len(one.state) == 3 for one in watchers), 40)
        assert watchers[0].state.keys() == watchers[1].state.keys()
        gates[0].part.kill()
        made(api, namespace, "later", 1, {REQUIRED_LABEL: "pp"})
        until("the other to answer", lambda: len(gates[1].client(pods).listed()) == 3, 20)
        gates[0].part.start()
        seen(3)
        assert not any("later" in name for gate in gates for name in gate.client(pods).listed())
