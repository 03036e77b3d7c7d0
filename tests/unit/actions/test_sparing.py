"""Claims made one after the other evict no more than all of them need together."""

from __future__ import annotations

from muster.actions import preempt, reclaim
from muster.cycle.outcome import outcome
from muster.engine.session import Session
from muster.model.meta import Object
from queued_jobs import job, made, node, queue, session, world

HIGH = made("scheduling.k8s.io/v1", "PriorityClass", {"name": "high"}, value=9)


def crowd(claimers: str = "q", size: int = 3, **more: object) -> list[Object]:
    """A pod of one core (which goes first), one of two cores, and a gang of two that want a core each."""
    return [
        node("n1", cpu=size),
        HIGH,
        queue("q"),
        queue("p"),
        *job("z", running=1, asks={"cpu": 1}, least=0),
        *job("w", running=1, asks={"cpu": 2}, least=0),
        *job("c", claimers, waiting=2, least=2, priorityClassName="high", **more),
    ]


def evicted(live: Session) -> list[str]:
    return [eviction.pod for eviction in outcome(live).evictions]


def test_preempt_gives_back_the_first_victim_when_the_second_is_enough_for_both() -> None:
    live = session(world(crowd()), "priority", "gang", "predicates")
    preempt.run(live)
    assert evicted(live) == ["d/w-0"]
    assert outcome(live).pipelined == {"d/c-0": "n1", "d/c-1": "n1"}


def test_reclaim_does_so_as_well() -> None:
    live = session(world(crowd("p")), "gang", "predicates")
    reclaim.run(live)
    assert evicted(live) == ["d/w-0"]


def test_both_go_where_both_are_needed() -> None:
    live = session(world(crowd(asks={"cpu": "1500m"})), "priority", "gang", "predicates")
    preempt.run(live)
    assert sorted(evicted(live)) == ["d/w-0", "d/z-0"]


def test_what_is_given_back_is_as_it_was() -> None:
    state = world(crowd())
    before = state.nodes.rows.tobytes()
    live = session(state, "priority", "gang", "predicates")
    preempt.run(live)
    assert state.tasks["d/z-0"].status.name == "RUNNING"
    live.close()
    assert state.nodes.rows.tobytes() == before
