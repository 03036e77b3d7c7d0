"""The embedded cluster: plans are carried out, time goes on, the engine's state follows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from builders.embedded import bind_all, cluster, pods_of, selector, template
from builders.manifests import group, node, pod, typed
from muster.cluster.embedded import EmbeddedCluster
from muster.engine.core.hooks import Effect
from muster.engine.core.plan import Condition, Eviction, Plan, PodReason
from muster.engine.core.state import State
from muster.model.batch import ReplicaSet, ReplicaSetSpec
from muster.model.core import Node, Pod, PodSchedulingGate
from muster.model.meta import ObjectMeta
from muster.model.scheduling import PodGroup
from muster.model.storage import PersistentVolume, PersistentVolumeClaim
from strategies.profiles import examples

GROUP = "scheduling.k8s.io/group-name"
GANG = group("gang", minMember=2)


def notes(c: EmbeddedCluster) -> list[tuple[str, str, str, str]]:
    return [(n.kind, n.key, n.severity.value, n.reason) for n in c.store.events]


def test_a_bound_pod_has_its_node_its_annotations_and_an_event() -> None:
    c = cluster(node("n"), pod("a"))
    effects = {"default/a": [Effect("annotations", "default/a", {"chips": "0,1"})]}
    outcome = c.apply(Plan(binds={"default/a": "n"}, effects=effects))
    assert outcome.bound == {"default/a": "n"}
    assert pods_of(c)["a"].metadata.annotations == {"chips": "0,1"}
    assert notes(c) == [("Pod", "default/a", "Normal", "Scheduled")]
    assert c.store.events[0].message == "Successfully assigned default/a to n"


def test_claims_are_settled_with_the_binding() -> None:
    claim, volume = (
        PersistentVolumeClaim(metadata=ObjectMeta(name="d")),
        PersistentVolume(metadata=ObjectMeta(name="v")),
    )
    c = cluster(node("n"), pod("a"), claim, volume)
    c.apply(Plan(binds={"default/a": "n"}, effects={"default/a": [Effect("claim", "default/d", {"volumeName": "v"})]}))
    assert c.store.get(PersistentVolumeClaim, "default/d").spec.volume_name == "v"


def test_a_binding_that_fails_is_reported_and_stops_nothing() -> None:
    c = cluster(node("n"), pod("a"), pod("b"))
    effects = {"default/a": [Effect("claim", "default/absent", {"selectedNode": "n"})]}
    outcome = c.apply(Plan(binds={"default/a": "n", "default/gone": "n", "default/b": "n"}, effects=effects))
    assert outcome.bound == {"default/b": "n"}
    assert sorted(outcome.failed) == ["default/a", "default/gone"]
    assert pods_of(c)["a"].spec.node_name == ""


def test_an_evicted_pod_and_its_group_hear_of_it() -> None:
    victim = typed(pod("v", on="n", phase="Running"))
    victim.metadata.annotations = {GROUP: "gang"}
    c = cluster(node("n"), victim, GANG)
    c.apply(Plan(evictions=[Eviction("default/v", "n", "default/p", "preempt")]))
    assert pods_of(c)["v"].metadata.annotations["muster.io/evicted-by"] == "default/p"
    assert notes(c) == [("PodGroup", "default/gang", "Warning", "Evict")]


def test_a_victim_does_not_learn_names_of_another_namespace() -> None:
    c = cluster(node("n"), pod("v", on="n", phase="Running"))
    c.apply(Plan(evictions=[Eviction("default/v", "n", "secret/p", "reclaim")]))
    found = pods_of(c)["v"].metadata.annotations
    assert found == {"muster.io/evicted-by": "a pod of another namespace", "muster.io/evicted-rule": "reclaim"}
    assert "secret" not in c.store.events[0].message


def test_a_waiting_pod_gets_its_reason_once() -> None:
    c = cluster(pod("a"))
    plan = Plan(reasons={"default/a": PodReason("no-room", "0/1 nodes are available: 1 Insufficient cpu")})
    c.apply(plan)
    (condition,) = pods_of(c)["a"].status.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
    assert condition.message == "0/1 nodes are available: 1 Insufficient cpu"
    before = c.store.version
    c.apply(plan)
    assert c.store.version == before
    assert notes(c) == [("Pod", "default/a", "Warning", "FailedScheduling")]


def test_a_gated_pod_is_left_alone() -> None:
    gated = typed(pod("a"))
    gated.spec.scheduling_gates = [PodSchedulingGate(name="wait")]
    c = cluster(gated)
    c.apply(Plan(reasons={"default/a": PodReason("gated", "the pod is gated")}))
    assert pods_of(c)["a"].status.conditions == []


def test_a_pod_for_which_others_are_evicted_is_nominated_until_it_is_bound() -> None:
    c = cluster(node("n"), pod("v", on="n", phase="Running"), pod("p"))
    reasons = {"default/p": PodReason("waits", "waits for capacity on n")}
    promised = {"default/p": "n"}
    evictions = [Eviction("default/v", "n", "default/p", "preempt")]
    c.apply(Plan(pipelined=promised, nominated=promised, evictions=evictions, reasons=reasons))
    assert pods_of(c)["p"].status.nominated_node_name == "n"
    c.apply(Plan(pipelined=promised, nominated=promised, reasons=reasons))
    assert pods_of(c)["p"].status.nominated_node_name == "n"
    c.apply(Plan(binds={"default/p": "n"}))
    assert pods_of(c)["p"].status.nominated_node_name == ""


def test_a_group_gets_its_phase_and_the_latest_condition() -> None:
    c = cluster(GANG)
    c.apply(Plan(phases={"default/gang": "Inqueue", "default/podgroup-x": "Running"}))
    c.apply(Plan(conditions={"default/gang": Condition("Unschedulable", "NotEnoughResources", "2/2 tasks")}))
    c.apply(Plan(conditions={"default/gang": Condition("Scheduled", "Ready", "tasks are ready")}))
    before = c.store.version
    c.apply(Plan(conditions={"default/gang": Condition("Scheduled", "Ready", "tasks are ready")}))
    status = c.store.get(PodGroup, "default/gang").status
    assert c.store.version == before
    assert status.phase == "Inqueue"
    assert [(x.type, x.status, x.transition_id) for x in status.conditions] == [
        ("Unschedulable", "False", "2"),
        ("Scheduled", "True", "3"),
    ]
    assert [(n.severity.value, n.reason) for n in c.store.events] == [
        ("Warning", "Unschedulable"),
        ("Normal", "Scheduled"),
    ]


def test_preemption_plays_out_the_victim_goes_and_is_made_anew_by_its_owner() -> None:
    spec = ReplicaSetSpec(replicas=1, selector=selector(), template=template())
    c = cluster(node("n"), ReplicaSet(metadata=ObjectMeta(name="web", namespace="default"), spec=spec), pod("urgent"))
    state = State()
    c.follow(state)
    (victim,) = (name for name in pods_of(c) if name.startswith("web-"))
    c.apply(Plan(binds={f"default/{victim}": "n"}))
    c.step()
    c.apply(Plan(evictions=[Eviction(f"default/{victim}", "n", "default/urgent", "preempt")]))
    c.step()
    moment = c.next_time()
    assert moment == 1030.0
    c.advance(moment)
    c.apply(Plan(binds={"default/urgent": "n"}))
    c.step()
    c.follow(state)
    assert victim not in pods_of(c)
    phases = {name.partition("-")[0]: (p.spec.node_name, p.status.phase) for name, p in pods_of(c).items()}
    assert phases == {"urgent": ("n", "Running"), "web": ("", "")}
    assert f"default/{victim}" not in state.tasks


def columns(state: State) -> object:
    state.refresh()
    tasks = {key: (task.status, task.node, task.job.key if task.job else "") for key, task in state.tasks.items()}
    # The phase of a group that is only in memory is the engine's own affair: no object says it.
    named = state.objects["PodGroup"]
    counts = {key: (job.count, job.phase if key in named else "") for key, job in state.jobs.items()}
    rows = {row: state.nodes.rows[i].tolist() for row, i in state.axis.rows.items()}
    return tasks, counts, rows, np.asarray(state.nodes.names).tolist()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["bind", "evict", "delete", "step", "advance", "node", "group", "pod", "follow"]),
        st.integers(min_value=0, max_value=5),
    ),
    max_size=25,
)


def _do(c: EmbeddedCluster, what: str, n: int) -> None:
    names = sorted(pods_of(c))
    name = f"default/{names[n % len(names)]}" if names else ""
    match what:
        case "bind" if name:
            c.apply(Plan(binds={name: f"n{n % 2}"}))
        case "evict" if name:
            c.apply(Plan(evictions=[Eviction(name, "", "default/x", "reclaim")]))
        case "delete" if name:
            c.store.delete(Pod, name)
        case "step":
            c.step()
        case "advance":
            moment = c.next_time()
            c.advance(c.clock.now() + 1 if moment is None else moment)
        case "node" if not c.store.known(Node, f"n{n}"):
            c.store.create(typed(node(f"n{n}")))
        case "group":
            c.apply(Plan(phases={"default/gang": ("Pending", "Inqueue", "Running")[n % 3]}))
        case "pod" if not c.store.known(Pod, f"default/p{n}"):
            member = typed(pod(f"p{n}"))
            member.metadata.annotations = {GROUP: "gang"}
            c.store.create(member)


@examples(60)
@given(STEPS)
def test_a_state_that_follows_is_the_state_that_reads_everything(steps: list[tuple[str, int]]) -> None:
    spec = ReplicaSetSpec(replicas=2, selector=selector(), template=template())
    c = cluster(
        node("n0"), node("n1"), ReplicaSet(metadata=ObjectMeta(name="web", namespace="default"), spec=spec), GANG
    )
    following = State()
    c.follow(following)
    for what, n in steps:
        if what == "follow":
            c.follow(following)
        else:
            _do(c, what, n)
    c.follow(following)
    fresh = State()
    c.follow(fresh)
    assert columns(following) == columns(fresh)


def test_the_same_input_gives_the_same_bytes() -> None:
    def play() -> object:
        spec = ReplicaSetSpec(replicas=3, selector=selector(), template=template())
        c = cluster(node("n"), ReplicaSet(metadata=ObjectMeta(name="web", namespace="default"), spec=spec))
        bind_all(c, "n")
        c.apply(Plan(evictions=[Eviction(f"default/{sorted(pods_of(c))[0]}", "n", "default/x", "reclaim")]))
        c.advance(1100.0)
        return c.store.everything(), list(c.store.events)

    assert play() == play()
