"""A state that followed changes one by one is the state that reads the outcome afresh."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from builders.queued_jobs import made
from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import Effect
from muster.engine.core.jobs import Job, Status
from muster.engine.core.plan import Plan
from muster.engine.core.reading import PREEMPTABLE
from muster.engine.core.state import State
from muster.engine.evictions.promises import PromiseRecord
from muster.model.core import Node, Pod
from muster.model.meta import Object, key, timestamp
from strategies.clusters import GROUP, NOW, Cluster, clusters, crowds, state_of
from strategies.configurations import configurations
from strategies.profiles import examples


def picture(state: State) -> dict[str, Any]:
    """Everything a cycle reads, free of the order in which it came."""
    state.refresh()
    nodes, axis = state.nodes, state.axis
    view = nodes.everything()
    rows = {
        (account, name): getattr(view, account)[row].tolist()
        for account in ("idle", "future_idle", "used", "load", "alloc")
        for name, row in axis.rows.items()
    }
    return {
        "names": nodes.names,
        "rows": {at: row for at, row in rows.items() if any(row)},
        "nonzero": view.nonzero.tolist(),
        "labels": [nodes.labels.of(i) for i in range(len(nodes))],
        "on": [sorted(tasks) for tasks in nodes.on],
        "promised": nodes.pipelined,
        "tasks": {
            k: (t.uid, t.status, t.node, t.priority, t.role, t.preemptable, t.best_effort, t.gated, t.nominated,
                t.created, t.serial, t.shape.amounts, t.job.key if t.job else None)
            for k, t in state.tasks.items()
        },
        "jobs": {
            k: (j.created, j.queue_name, j.queue.name if j.queue else None, j.priority, j.min_available, j.roles,
                j.min_resources, phase_of(state, j), sorted(j.tasks), j.count, j.best_effort_pending, some(j.allocated),
                some(j.total))
            for k, j in state.jobs.items()
        },
        "plain pods": sorted(sorted(k for k, j in state.jobs.items() if j.plain_class is pod_class)
                             for pod_class in {j.plain_class for j in state.jobs.values()}),
        "queues": {
            k: (q.created, q.weight, q.priority, q.open, q.parent, q.reclaimable, q.capability, q.guarantee,
                q.deserved, q.annotations, sorted(q.jobs))
            for k, q in state.queues.items()
        },
        "census": sorted(
            (a.example.namespace, sorted(a.example.labels.items()), a.count, sorted(a.count_by_node.items()))
            for a in state.census.update(state)
        ),
        "set aside": {k: (r.code, r.message()) for k, r in state.set_aside.items()},
    }  # fmt: skip


def phase_of(state: State, job: Job) -> str:
    """The phase. Where no object keeps it, "Running" stays until a cycle finds it untrue; a fresh state has none."""
    waiting = job.count[Status.PENDING] + job.count[Status.RELEASING] == len(job.tasks)
    return "waiting" if waiting and job.key not in state.objects["PodGroup"] else job.phase


def some(amounts: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Object], list[tuple[str, Object]]]:
    """Where it began, and what came, changed or went since; the last change of an object is what stands."""
    objects = list(draw(clusters()).objects)
    start = [o for o in objects if draw(st.booleans())]
    events: list[tuple[str, Object]] = []
    for one in draw(st.permutations(objects)):
        how = draw(st.integers(0, 5))
        if one not in start or how == 1:
            events.append(("put", one))
        if how == 2:
            events.append(("put", changed(draw, one)))
        if how in (3, 4):
            events.append(("gone", one))
        if how == 4:
            events.append(("put", one))
    return start, events


def changed(draw: st.DrawFn, old: Object) -> Object:
    if isinstance(old, Pod):
        phase = draw(st.sampled_from(["Running", "Succeeded", "Pending"]))
        node = draw(st.sampled_from(["", "n0", "n1", "gone"]))
        return replace(old, spec=replace(old.spec, node_name=node), status=replace(old.status, phase=phase))
    if isinstance(old, Node):
        offered = {"cpu": 9, "memory": "9Gi", "pods": 9, "new.io/thing": 3}
        return replace(old, status=replace(old.status, allocatable=offered))
    name = {"name": old.metadata.name, "namespace": old.metadata.namespace}
    if old.kind == "Queue":
        return made("scheduling.volcano.sh/v1beta1", "Queue", name, spec={"capability": {"rare.io/thing": 1}})
    if old.kind == "PodGroup":
        spec = {"minMember": 1, "queue": "q0", "priorityClassName": "high"}
        return made("scheduling.volcano.sh/v1beta1", "PodGroup", name, spec=spec, status={"phase": "Inqueue"})
    if old.kind == "PriorityClass":
        return made("scheduling.k8s.io/v1", "PriorityClass", name, value=7, globalDefault=True)
    return old


def followed(start: list[Object], events: list[tuple[str, Object]]) -> tuple[State, list[Object]]:
    """The state after the events, and the objects that are there then."""
    state = state_of(start)
    state.census.update(state)
    there = {(type(o).__name__, key(o)): o for o in start}
    for what, one in events:
        kind, name = type(one).__name__, key(one)
        if what == "put":
            state.upsert(kind, name, one)
            there[kind, name] = one
        else:
            state.remove(kind, name)
            there.pop((kind, name), None)
    return state, list(there.values())


@given(histories())
@examples(150)
def test_following_changes_is_reading_afresh(history: tuple[list[Object], list[tuple[str, Object]]]) -> None:
    state, there = followed(*history)
    assert picture(state) == picture(state_of(there))


@given(histories())
@examples(150)
def test_pods_that_change_together_are_read_as_if_one_by_one(
    history: tuple[list[Object], list[tuple[str, Object]]]
) -> None:
    start, events = history
    state, there = followed(start, [event for event in events if not isinstance(event[1], Pod)])
    pods = {key(one): one for what, one in events if isinstance(one, Pod) and what == "put"}
    state.upsert_pods(pods)
    kept = {key(one): one for one in there if isinstance(one, Pod)} | pods
    assert picture(state) == picture(state_of([*(one for one in there if not isinstance(one, Pod)), *kept.values()]))


def moved(dice: random.Random, pod: Pod) -> Pod:
    """Mostly a change of the node and the status alone, which keeps the task; sometimes one more."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    status = replace(
        status, phase=dice.choice(["Pending", "Running", "Succeeded"]), start_time=dice.choice([None, timestamp(NOW)]),
        nominated_node_name=dice.choice(["", "n0"]),
    )  # fmt: skip
    spec = replace(spec, node_name=dice.choice([spec.node_name, "", "n0", "n1", "gone"]))
    more = dice.randrange(12)
    if more == 0:
        meta = replace(meta, labels={**meta.labels, "app": dice.choice("ab")})
    elif more == 1:
        meta = replace(meta, annotations={**meta.annotations, PREEMPTABLE: dice.choice(["true", "false"])})
    elif more == 2:
        meta = replace(meta, deletion_timestamp=timestamp(NOW))
    elif more == 3:
        meta = replace(meta, uid=f"{meta.name}-{dice.random()}", creation_timestamp=timestamp(NOW))
    elif more == 4:
        spec = replace(spec, priority=dice.choice([3, None]))
    return replace(pod, metadata=meta, spec=spec, status=status)


@given(crowds(), st.integers(0, 2**32))
@examples(200)
def test_pods_that_move_are_read_as_afresh(cluster: Cluster, seed: int) -> None:
    dice, state = random.Random(seed), cluster.state()
    state.census.update(state)
    there = {(type(o).__name__, key(o)): o for o in cluster.objects}
    pods = [at for at, one in there.items() if isinstance(one, Pod)]
    for kind, name in dice.choices(pods, k=40) if pods else ():
        pod = there[kind, name]
        assert isinstance(pod, Pod)
        task = state.tasks.get(name)
        if task is not None and dice.random() < 0.2:
            task.preemptable, task.gated = False, True  # as back-offs mark it for a cycle
        there[kind, name] = changed_pod = moved(dice, pod)
        state.upsert(kind, name, changed_pod)
    left = {name for name, task in state.tasks.items() if task.gated}
    for name in left:
        state.upsert("Pod", name, state.tasks[name].pod)
    assert picture(state) == picture(state_of(list(there.values())))


@given(histories(), configurations())
@examples(80)
def test_a_cycle_over_either_decides_the_same(
    history: tuple[list[Object], list[tuple[str, Object]]], config: Config
) -> None:
    state, there = followed(*history)
    assert Scheduler(config).cycle(state, NOW) == Scheduler(config).cycle(state_of(there), NOW)


def timeless(plan: Plan) -> Plan:
    """Without topology910's predicate-time: a number that one scheduler gives to a node's pods but once."""
    unstamped = {
        pod: [Effect(e.kind, e.key, {k: v for k, v in e.values.items() if k != "predicate-time"}) for e in effects]
        for pod, effects in plan.effects.items()
    }
    return replace(plan, effects=unstamped)


@given(clusters(), configurations(), st.lists(st.integers(0, 30), max_size=4))
@examples(80)
def test_plugins_that_lived_through_changes_decide_as_new_ones(
    cluster: Cluster, config: Config, gone: list[int]
) -> None:
    """Warm and cold: one scheduler sees the cluster change between its cycles, another only the end.

    Groups in memory are left out, and promises forgotten: that is remembered on purpose.
    """
    left = [o for o in cluster.objects if not isinstance(o, Pod) or GROUP in o.metadata.annotations]
    state, warm = state_of(left), Scheduler(config)
    warm.cycle(state, NOW)
    state.promises = PromiseRecord()
    for which in gone:
        one = left.pop(which % len(left))
        state.remove(type(one).__name__, key(one))
        if not left:
            break
    warm_plan = warm.cycle(state, NOW)
    assert timeless(warm_plan) == timeless(Scheduler(config).cycle(state_of(left), NOW))


@given(clusters(), configurations())
@examples(80)
def test_a_cycle_leaves_the_state_as_it_was(cluster: Cluster, config: Config) -> None:
    state = cluster.state()
    Scheduler(config).session(state, NOW).close()  # the axis may have learned new names
    before, columns = picture(state), state.nodes.rows.tobytes()
    session = Scheduler(config).session(state, NOW)
    for _, run in Scheduler(config).actions:
        run(session)
    session.close()
    assert picture(state) == before
    assert state.nodes.rows.tobytes() == columns
    assert all(task.signature == -1 for task in state.tasks.values())
