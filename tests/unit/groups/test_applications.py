"""From pods to applications."""

from __future__ import annotations

from typing import Any, cast

import pytest

from builders.node_groups import (
    BINDING,
    BINDING_OVERRIDE,
    REQUIRED,
    REQUIRED_OVERRIDE,
    TEMPLATE,
    deployment,
    nginx_pod,
    owner,
    thing,
)
from muster.groups.applications import (
    Application,
    BindingState,
    OwnerLoop,
    PolicyLabels,
    application_of,
    binding_state,
    hold_reason,
    unbound_reason,
)
from muster.model.core import Pod
from muster.model.meta import Object, key


def found(of: dict[str, Any], *objects: Object) -> Application:
    table = {(type(obj).__name__, key(obj)): obj for obj in objects}
    return application_of(cast(Pod, nginx_pod("p", of=of)), lambda kind, name: table.get((kind, name)))


def test_a_deployments_pods_are_counted_by_their_replica_set() -> None:
    application = found(owner("ReplicaSet", "nginx-1"), *deployment(replicas=7))
    assert str(application) == "Deployment default/nginx"
    assert application.unit == ("ReplicaSet", "default/nginx-1")
    assert application.replicas == 7
    assert application.uid == "uid-deployment-nginx"


@pytest.mark.parametrize(
    ("kind", "version", "spec", "replicas"),
    [
        ("StatefulSet", "apps/v1", {"replicas": 3}, 3),
        ("ReplicationController", "v1", {}, 1),
        ("DaemonSet", "apps/v1", {}, None),
        ("Job", "batch/v1", {"parallelism": 4}, 4),
    ],
)
def test_other_workloads_are_counted_whole(kind: str, version: str, spec: dict[str, Any], replicas: int | None) -> None:
    top = thing(version, kind, "w", spec={**spec, "template": TEMPLATE})
    application = found(owner(kind, "w", version), top)
    assert application.object is top
    assert application.unit == (kind, "default/w")
    assert application.replicas == replicas


def test_a_cron_jobs_pods_are_counted_by_their_job() -> None:
    cron = thing("batch/v1", "CronJob", "c", spec={"jobTemplate": {"spec": {"parallelism": 2}}})
    job = thing("batch/v1", "Job", "c-1", owner("CronJob", "c", "batch/v1"), spec={"parallelism": 9})
    application = found(owner("Job", "c-1", "batch/v1"), cron, job)
    assert (application.kind, application.unit, application.replicas) == ("CronJob", ("Job", "default/c-1"), 2)


@pytest.mark.parametrize(
    "of",
    [{}, owner("CloneSet", "x", "apps.kruise.io/v1alpha1"), owner("Job", "x", "batch.volcano.sh/v1alpha1"),
     owner("ReplicaSet", "gone")],
)  # fmt: skip
def test_the_chain_ends_below_an_owner_that_is_not_there_or_not_known(of: dict[str, Any]) -> None:
    application = found(of, *deployment())
    assert application.unit == ("Pod", "default/p")
    assert application.replicas == 1


def test_an_owner_of_the_same_name_but_another_uid_is_another_one() -> None:
    reference = owner("StatefulSet", "w")["ownerReferences"][0]
    of = {"ownerReferences": [{**reference, "uid": "someone-else"}]}
    assert found(of, thing("apps/v1", "StatefulSet", "w", spec={})).kind == "Pod"


def test_a_cycle_of_owners_is_reported() -> None:
    a = thing("apps/v1", "ReplicaSet", "a", owner("Deployment", "b"), spec={})
    b = thing("apps/v1", "Deployment", "b", owner("ReplicaSet", "a"), spec={})
    with pytest.raises(OwnerLoop, match="ReplicaSet default/a → Deployment default/b → ReplicaSet default/a"):
        found(owner("ReplicaSet", "a"), a, b)


@pytest.mark.parametrize(
    ("labels", "stands"),
    [
        ({REQUIRED: "a"}, BindingState.UNBOUND),
        ({REQUIRED: "a", BINDING: "b"}, BindingState.REBINDING),
        ({REQUIRED: "a", BINDING: "a"}, BindingState.BOUND),
        ({}, BindingState.FREE),
        ({BINDING: "a"}, BindingState.STALE),
    ],
)
def test_the_two_labels_make_five_situations(labels: dict[str, str], stands: BindingState) -> None:
    assert binding_state(labels, PolicyLabels.PROPAGATION) == stands
    assert binding_state(labels, PolicyLabels.OVERRIDE) == BindingState.FREE
    assert (unbound_reason(labels, PolicyLabels.PROPAGATION) is not None) == (stands <= BindingState.REBINDING)


def test_the_edge_gate_holds_what_waits_for_either_policy() -> None:
    assert hold_reason({}) is None
    assert hold_reason({REQUIRED: "a", BINDING: "a", BINDING_OVERRIDE: "old"}) is None
    assert hold_reason({REQUIRED: "a"}) == "PropagationPolicy a is required and not bound yet"
    both = {REQUIRED: "a", BINDING: "a", REQUIRED_OVERRIDE: "x", BINDING_OVERRIDE: "y"}
    assert hold_reason(both) == "OverridePolicy x is required, but y is still bound"
