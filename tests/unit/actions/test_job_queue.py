"""JobQueue: placements that change the order of queues take effect on the next job."""

from __future__ import annotations

from random import Random

import pytest

from builders.manifests import Manifest, node, queue, state_of
from builders.queued_jobs import job, named, option, session
from muster.actions.allocate import JobStep, eligible
from muster.actions.job_queue import JobQueue, QueueTree
from muster.engine.core.session import Session
from muster.engine.core.state import State


def tree(seed: int) -> list[Manifest | list[Manifest]]:
    """A dozen queues up to three levels down, each with a few pods that wait."""
    dice = Random(seed)
    inner = [queue("root")]
    names = ["root"]
    for i in range(4):
        parent = dice.choice(names)
        inner.append(queue(f"team{i}", parent=parent, deserved={"cpu": dice.randint(30, 90)}))
        names.append(f"team{i}")
    leaves = [queue(f"q{i}", parent=dice.choice(names), deserved={"cpu": dice.randint(2, 40)}) for i in range(12)]
    return [*inner, *leaves, *(job(f"j{i}", f"q{i}", waiting=dice.randint(1, 6)) for i in range(12))]


def paths(seed: int) -> list[Manifest | list[Manifest]]:
    """The same for hierarchical drf."""
    dice = Random(seed)
    made: list[Manifest | list[Manifest]] = []
    for i in range(10):
        path = "/".join(["root", *(dice.choice("ab") for _ in range(dice.randint(0, 2))), f"q{i}"])
        weights = "/".join(["1", *(str(dice.randint(1, 4)) for _ in range(3))])
        notes = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
        asks = {"cpu": f"{dice.randint(500, 999)}m"}  # no two shares are equal
        made += [queue(f"q{i}", annotations=notes), job(f"j{i}", f"q{i}", waiting=dice.randint(1, 4), asks=asks)]
    return made


def never_behind_another(live: Session) -> int:
    """Play allocate; how many jobs there were."""
    waiting = eligible(live)
    jobs, count = JobQueue(live, [live.jobs[key] for key in waiting]), 0
    while (first := jobs.pop()) is not None:
        mine, chosen = first
        others = {j.queue_name for key, j in live.jobs.items() if waiting.get(key)} - {mine.name}
        ahead = [name for name in others if live.queue_cmp(live.queues[name], mine) < 0]
        assert not ahead, f"first {count} of {mine.name}"
        if JobStep(live, mine, chosen).run(waiting[chosen.key]) and waiting[chosen.key]:
            jobs.push(chosen)
        jobs.push_queue(mine)
        count += 1
    return count


@pytest.mark.parametrize("seed", range(12))
def test_capacity_gives_the_turn_to_the_first_queue_of_the_tree(seed: int) -> None:
    state = state_of(node(cpu=400), *tree(seed))
    assert never_behind_another(session(state, option("capacity", enableHierarchy=True))) >= 12


@pytest.mark.parametrize("seed", range(12))
def test_drf_gives_the_turn_to_the_first_queue_of_the_tree(seed: int) -> None:
    state = state_of(node(cpu=12, pods=500), *paths(seed))
    assert never_behind_another(session(state, option("drf", enableHierarchy=True))) >= 10


def test_a_resource_that_runs_out_moves_queues_that_had_no_turn() -> None:
    device = {"cpu": 1, "nvidia.com/gpu": 1}

    def at(name: str, weight: int) -> Manifest:
        notes = {"volcano.sh/hierarchy": f"root/{name}", "volcano.sh/hierarchy-weights": f"1/{weight}"}
        return queue(name, annotations=notes)

    state = state_of(
        node(cpu=100, resources={"nvidia.com/gpu": 2}), at("a", 100), at("b", 100), at("c", 1),
        job("ja", "a", running=1, waiting=1, asks=device), job("jb", "b", waiting=2, asks=device),
        job("jc", "c", running=1, waiting=2),
    )  # fmt: skip
    live = session(state, option("drf", enableHierarchy=True))
    waiting = eligible(live)
    jobs = JobQueue(live, [live.jobs[key] for key in waiting])
    order = []
    while (first := jobs.pop()) is not None:
        order.append(first[0].name)
        if JobStep(live, *first).run(waiting[first[1].key]) and waiting[first[1].key]:
            jobs.push(first[1])
        jobs.push_queue(first[0])
    # b takes the last device: a, which is before c by its share, has nothing to gain any more and goes behind it.
    assert order[:3] == ["b", "c", "c"]


def taken(state: State, *plugins: object) -> list[str]:
    tree = QueueTree(session(state, *plugins), state.queues.values())  # type: ignore[arg-type]
    found = []
    while (popped := tree.pop()) is not None:
        found.append(popped.name)
    return found


def test_what_is_not_put_back_is_gone() -> None:
    state = state_of(
        node(cpu=10), queue("root"), queue("b", parent="root"), queue("a", parent="t"), queue("t", parent="root")
    )
    assert taken(state, option("capacity", enableHierarchy=True)) == ["a", "b", "default", "root", "t"]
    assert taken(state) == ["a", "b", "default", "root", "t"]


def test_a_queue_that_is_put_back_comes_again() -> None:
    state = state_of(node(cpu=10), queue("b"), queue("a"))
    tree = QueueTree(session(state), [named(state, "b"), named(state, "a")])
    assert tree.pop() is named(state, "a")
    tree.push(named(state, "a"))
    assert [tree.pop(), tree.pop(), tree.pop()] == [named(state, "a"), named(state, "b"), None]
