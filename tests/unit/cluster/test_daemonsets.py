"""DaemonSets: one pod for each node that may have it."""

from __future__ import annotations

from builders.embedded import bind_all, cluster, pods_of, selector, template
from builders.manifests import node, typed
from muster.model.batch import DaemonSet, DaemonSetSpec
from muster.model.core import Node, Pod
from muster.model.meta import ObjectMeta
from muster.model.selectors import node_matches


def daemon_set() -> DaemonSet:
    spec = DaemonSetSpec(selector=selector(), template=template())
    return DaemonSet(metadata=ObjectMeta(name="agent", namespace="default"), spec=spec)


def pinned(pod: Pod) -> str:
    affinity = pod.spec.affinity
    assert affinity is not None and affinity.node_affinity is not None and affinity.node_affinity.required is not None
    return affinity.node_affinity.required.node_selector_terms[0].match_fields[0].values[0]


def test_every_node_gets_one_pod_that_only_it_can_have() -> None:
    c = cluster(node("a"), node("b"), daemon_set())
    made = pods_of(c).values()
    assert sorted(pinned(p) for p in made) == ["a", "b"]
    for found in made:
        affinity = found.spec.affinity
        assert affinity is not None and affinity.node_affinity is not None and affinity.node_affinity.required
        assert [n for n in "ab" if node_matches(affinity.node_affinity.required, n, {})] == [pinned(found)]


def test_taints_and_selectors_keep_pods_away_but_cordons_do_not() -> None:
    own = {"key": "own", "value": "x", "effect": "NoSchedule"}
    tainted = node("tainted", labels={"os": "l"}, taints=[own])
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    cordoned = node("cordoned", labels={"os": "l"}, taints=[cordon])
    other = node("other")
    made = daemon_set()
    made.spec.template.spec.node_selector = {"os": "l"}
    c = cluster(tainted, cordoned, other, made)
    assert [pinned(p) for p in pods_of(c).values()] == ["cordoned"]


def test_a_new_node_gets_its_pod_and_a_lost_one_loses_it() -> None:
    c = cluster(node("a"), daemon_set())
    c.store.create(typed(node("b")))
    c.step()
    assert sorted(pinned(p) for p in pods_of(c).values()) == ["a", "b"]
    c.store.delete(Node, "a")
    c.step()
    assert [pinned(p) for p in pods_of(c).values()] == ["b"]


def test_an_evicted_pod_is_made_anew_for_its_node() -> None:
    c = cluster(node("a"), daemon_set())
    bind_all(c, "a")
    (before,) = pods_of(c)
    c.store.evict(f"default/{before}", by="default/x", rule="preempt")
    c.step()
    assert list(pods_of(c)) == [before]
    c.advance(1030.0)
    (after,) = pods_of(c).values()
    assert (after.metadata.name != before, pinned(after)) == (True, "a")


def test_a_pod_that_runs_there_already_is_counted() -> None:
    first = cluster(node("a"), node("b"), daemon_set())
    bind_all(first, "a")
    again = cluster(*(obj for group in first.store.everything().values() for obj in group.values()))
    assert len([p for p in pods_of(again).values() if p.metadata.deletion_timestamp is None]) == 2
