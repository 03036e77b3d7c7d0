"""Deployments: one ReplicaSet per template, roll-outs that never have too many pods."""

from __future__ import annotations

from msgspec.structs import replace

from builders.embedded import bind_all, cluster, owned_by, pods_of, selector, template
from builders.manifests import node, pod
from muster.model.batch import Deployment, DeploymentSpec, ReplicaSet, UpdateStrategy
from muster.model.meta import ObjectMeta
from muster.model.pod_states import is_healthy


def deployment(replicas: int = 4, strategy: str = "") -> Deployment:
    spec = DeploymentSpec(replicas=replicas, selector=selector(), template=template())
    spec.strategy = UpdateStrategy(type=strategy) if strategy else None
    return Deployment(metadata=ObjectMeta(name="web", namespace="default"), spec=spec)


def test_the_replica_set_is_named_after_the_template() -> None:
    c = cluster(deployment(2))
    (made,) = c.store.list(ReplicaSet).items
    hash_ = made.metadata.labels["pod-template-hash"]
    assert made.metadata.name == f"web-{hash_}"
    assert {p.metadata.labels["pod-template-hash"] for p in pods_of(c).values()} == {hash_}
    assert all(name.startswith(f"web-{hash_}-") for name in pods_of(c))
    assert len(pods_of(c)) == 2


def test_a_deployment_read_back_with_everything_it_made_makes_nothing_more() -> None:
    first = cluster(node("n"), deployment(3))
    bind_all(first, "n")
    again = cluster(*(obj for group in first.store.everything().values() for obj in group.values()))
    assert sorted(pods_of(again)) == sorted(pods_of(first))
    assert not again.step()


def test_pods_whose_replica_set_is_not_in_the_input_are_counted() -> None:
    old = [
        pod(f"web-abc-{i}", on="n", phase="Running", labels={"app": "web"}, meta=owned_by("ReplicaSet/web-abc"))
        for i in "xy"
    ]
    c = cluster(node("n"), deployment(3), *old)
    assert [s.metadata.name for s in c.store.list(ReplicaSet).items] == ["web-abc"]
    assert len(pods_of(c)) == 3


def test_bare_pods_that_match_are_counted() -> None:
    c = cluster(deployment(3), pod("a", labels={"app": "web"}), pod("b", labels={"app": "web"}))
    assert len(pods_of(c)) == 3
    assert {"a", "b"} <= set(pods_of(c))


def test_a_new_template_takes_over_step_by_step_and_never_with_more_pods_than_asked_for() -> None:
    c = cluster(node("n"), deployment(4))
    bind_all(c, "n")
    current = c.store.get(Deployment, "default/web")
    c.store.update(replace(current, spec=replace(current.spec, template=template(cpu="2"))))
    least = 4
    for _ in range(60):
        c.step()
        assert len(pods_of(c)) <= 4
        least = min(least, sum(1 for p in pods_of(c).values() if is_healthy(p)))
        bind_all(c, "n")
        moment = c.next_time()
        if moment is None:
            break
        c.advance(moment)
    amounts = [p.spec.containers[0].resources for p in pods_of(c).values()]
    assert [r.requests["cpu"] for r in amounts if r is not None] == ["2"] * 4
    assert least == 3
    assert c.store.get(Deployment, "default/web").status.updated_replicas == 4


def test_recreate_ends_all_old_pods_before_new_ones_come() -> None:
    c = cluster(node("n"), deployment(2, "Recreate"))
    bind_all(c, "n")
    old = set(pods_of(c))
    c.store.patch(Deployment, "default/web", {"spec": {"template": {"spec": {"hostNetwork": True}}}})
    c.step()
    assert set(pods_of(c)) == old
    c.advance(1030.0)
    assert len(pods_of(c)) == 2 and not set(pods_of(c)) & old


def test_scaling_follows_the_deployment() -> None:
    c = cluster(node("n"), deployment(4))
    bind_all(c, "n")
    c.store.patch(Deployment, "default/web", {"spec": {"replicas": 1}})
    c.step()
    c.advance(1030.0)
    assert len(pods_of(c)) == 1
