"""Sessions: how the answers of several plugins combine at each extension point, and what closing restores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from builders.manifests import group, node, pod, queue, state_of
from builders.queued_jobs import job, named, of, task, tasks
from fakes.plugins import Journal, real, session_of, stub
from muster.config.types import Arguments
from muster.engine.core.hooks import (
    JobEnqueue,
    JobOrder,
    JobPipelined,
    JobReady,
    JobStarving,
    JobValid,
    Ledger,
    Overused,
    Plugin,
    Preemptive,
    QueueOrder,
    QueueQuota,
    Reason,
    TaskOrder,
    VictimQueueOrder,
    Vote,
)
from muster.engine.core.jobs import Status
from muster.engine.core.session import Session, candidates
from muster.engine.core.state import State

YES, NO, ABSTAIN = Vote.PERMIT, Vote.REJECT, Vote.ABSTAIN
WHY, LATER = Reason("why", "because"), Reason("later", "because of that")


def cluster() -> State:
    return state_of(node(cpu=10), queue("q"), queue("r"), job("a", waiting=2), job("b", queue="r", waiting=2))


# --- jobs


def test_the_first_plugin_that_objects_to_a_job_gives_the_reason() -> None:
    state = cluster()
    objecting = [
        stub("fine", JobValid, valid=None),
        stub("one", JobValid, valid=WHY),
        stub("two", JobValid, valid=LATER),
    ]
    assert session_of(state, objecting).valid(of(state, "a")) is WHY
    assert session_of(state, objecting[:1]).valid(of(state, "a")) is None


def test_a_job_is_ready_when_nobody_misses_anything_and_misses_the_most_that_anybody_says() -> None:
    state = cluster()
    lacks = [stub("one", JobReady, missing=1), stub("three", JobReady, missing=3), stub("none", JobReady, missing=0)]
    session = session_of(state, lacks)
    assert session.missing(of(state, "a")) == 3 and not session.ready(of(state, "a"))
    assert session_of(state, lacks[2]).ready(of(state, "a"))
    nobody = session_of(state, stub("mute", JobValid, valid=None))
    assert nobody.ready(of(state, "a")) and nobody.missing(of(state, "a")) == 0


@pytest.mark.parametrize(
    ("tiers", "passes"),
    [
        ([[YES]], True),
        ([[NO]], False),
        ([[ABSTAIN]], True),
        ([], True),
        ([[YES, NO]], False),
        ([[NO, YES]], False),
        ([[YES], [NO]], True),
        ([[YES, ABSTAIN], [NO]], True),
        ([[ABSTAIN], [NO]], False),
        ([[ABSTAIN], [YES], [NO]], True),
        ([[], [NO]], False),
    ],
)
def test_votes_one_rejection_decides_and_a_tier_with_a_permission_ends_the_vote(
    tiers: list[list[Vote]], passes: bool
) -> None:
    state = cluster()
    voting = [[stub(f"p{i}", JobPipelined, JobEnqueue, pipelined=v, enqueueable=v) for i, v in enumerate(tier)]
              for tier in tiers]  # fmt: skip
    session = session_of(state, *voting)
    assert session.pipelined(of(state, "a")) is passes
    assert (session.enqueueable(of(state, "a")) is None) is passes


def refusing(name: str, yields: bool, **switches: bool) -> Plugin:
    return stub(name, JobEnqueue, enqueueable=NO, refusal=WHY, yields=yields, switches=switches)


def test_a_refused_job_reads_which_plugin_does_not_admit_it() -> None:
    state = cluster()
    reason = session_of(state, refusing("quota", yields=False)).enqueueable(of(state, "a"))
    assert reason is not None and reason.code == "why"
    assert reason.message() == "plugin quota does not admit the group: because"
    assert session_of(state, refusing("quota", False, enableJobEnqueued=False)).enqueueable(of(state, "a")) is None


@pytest.mark.parametrize(
    ("yields", "actions", "compatibility", "claims"),
    [
        ((True, True), ("enqueue", "preempt"), "", True),
        ((True, True), ("reclaim", "enqueue"), "", True),
        ((True, False), ("enqueue", "preempt"), "", False),
        ((True, True), ("enqueue", "allocate"), "", False),
        ((True, True), ("enqueue", "preempt"), "volcano", False),
    ],
)
def test_a_refused_job_may_claim_if_everybody_only_lacks_capacity_and_something_evicts(
    yields: tuple[bool, bool], actions: tuple[str, ...], compatibility: str, claims: bool
) -> None:
    state = cluster()
    plugins = [refusing(f"p{i}", one) for i, one in enumerate(yields)]
    session = session_of(state, plugins, actions=actions, compatibility=compatibility)
    session.enqueueable(of(state, "a"))
    assert of(state, "a").attempt.may_evict is claims


def test_every_plugin_learns_of_an_admission() -> None:
    state, learned = cluster(), list[str]()
    tiers = [stub(n, JobEnqueue, enqueueable=YES, enqueued=lambda job, n=n: learned.append(n)) for n in "xyz"]
    session_of(state, tiers[:2], tiers[2]).enqueued(of(state, "a"))
    assert learned == ["x", "y", "z"]


@pytest.mark.parametrize(
    ("tiers", "starving"),
    [([], False), ([[True]], True), ([[True, False]], False), ([[], [True]], True), ([[False], [True]], False),
     ([[True], [False]], True)],
)  # fmt: skip
def test_the_first_tier_that_knows_says_whether_a_job_starves(tiers: list[list[bool]], starving: bool) -> None:
    state = cluster()
    message = [[stub(f"p{i}", JobStarving, starving=one) for i, one in enumerate(tier)] for tier in tiers]
    assert session_of(state, *message).starving(of(state, "a")) is starving


# --- orders


def test_jobs_are_ordered_by_the_first_plugin_that_distinguishes_them_then_by_age_then_by_name() -> None:
    old, new = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    state = state_of(
        queue("q"), job("a", waiting=1, created=new), job("b", waiting=1, created=old), job("c", waiting=1, created=old)
    )
    rank = {"default/a": 1.0, "default/b": 1.0, "default/c": 0.0}
    same = stub("same", JobOrder, job_key=7.0)
    session = session_of(state, same, stub("rank", JobOrder, job_key=lambda job: rank[job.key]))
    assert [j.name for j in session.in_job_order(session.jobs.values())] == ["c", "b", "a"]
    assert session.job_key(of(state, "a"), plugins_only=True) == (7.0, 1.0)
    session = session_of(state, same)
    assert [j.name for j in session.in_job_order(session.jobs.values())] == ["b", "c", "a"]


def test_the_order_of_a_job_follows_what_happens_to_it() -> None:
    state = cluster()
    session = session_of(state, stub("ready", JobOrder, job_key=lambda job: float(job.ready)))
    assert session.job_key(of(state, "a"), plugins_only=True) == (0.0,)
    session.statement().allocate(tasks(state, "a-0", "a-1"), [0, 0])
    assert session.job_key(of(state, "a"), plugins_only=True) == (2.0,)


def test_tasks_are_ordered_by_plugins_before_their_numbers() -> None:
    state = state_of(queue("q"), group("g", "q", phase="Inqueue"), *(pod(f"x-y-{i}", "g") for i in (10, 2, 3)))
    last = stub("last", TaskOrder, task_key=lambda task: float(task.name == "x-y-2"))
    assert [t.name for t in session_of(state, last).in_order(of(state, "g").tasks.values())] == [
        "x-y-3", "x-y-10", "x-y-2"
    ]  # fmt: skip
    off = stub("off", TaskOrder, task_key=lambda task: float(task.name == "x-y-2"), switches={"enableTaskOrder": False})
    assert next(t.name for t in session_of(state, off).in_order(of(state, "g").tasks.values())) == "x-y-2"


def ordered_queues(state: State, *plugins: Plugin) -> Session:
    return session_of(state, list(plugins))


def test_queues_are_ordered_by_the_first_difference_then_by_age_and_name() -> None:
    state = cluster()
    q, r = named(state, "q"), named(state, "r")
    equal = stub("equal", QueueOrder, queue_cmp=0)
    backwards = stub("backwards", QueueOrder, queue_cmp=lambda a, b: -1 if a.name > b.name else 1)
    assert ordered_queues(state, equal).queue_cmp(q, r) < 0 < ordered_queues(state, equal).queue_cmp(r, q)
    session = ordered_queues(state, equal, backwards)
    assert session.queue_cmp(q, r) > 0 > session.queue_cmp(r, q)
    q.created, r.created = 2.0, 1.0
    assert ordered_queues(state, equal).queue_cmp(q, r) > 0


def test_queues_give_up_victims_in_reverse_order_unless_a_plugin_says_otherwise() -> None:
    state = cluster()
    q, r = named(state, "q"), named(state, "r")
    equal = stub("equal", VictimQueueOrder, victim_queue_cmp=0)
    assert ordered_queues(state, equal).victim_queue_cmp(q, r, q) > 0
    own_last = stub("own", VictimQueueOrder, victim_queue_cmp=lambda a, b, own: 1 if a is own else -1)
    assert ordered_queues(state, equal, own_last).victim_queue_cmp(r, q, r) > 0
    assert ordered_queues(state, equal, own_last).victim_queue_cmp(r, q, q) < 0


# --- queues


def quota(name: str, most: int, **more: Any) -> Plugin:
    answers: dict[str, Any] = {"quota_refusal": Reason(name, name), **more}
    return stub(name, QueueQuota, admits=lambda queue, task, count: min(count, most), **answers)


def test_a_queue_takes_as_many_as_every_plugin_admits() -> None:
    state = cluster()
    q, waits = named(state, "q"), task(state, "a-0")
    session = session_of(state, [quota("five", 5), quota("two", 2), quota("three", 3)])
    assert [session.admits(q, waits, count) for count in (1, 2, 9)] == [1, 2, 2]
    assert session.admits(q, waits) == 1 and session.quota_refusal(q, waits) is None
    full = session_of(state, [quota("five", 5), quota("none", 0), quota("never", -1)])
    assert full.admits(q, waits, 4) == 0
    reason = full.quota_refusal(q, waits)
    assert reason is not None and reason.code == "none"


def test_a_quota_that_is_switched_off_admits_all_but_a_closed_queue_stays_closed() -> None:
    state = cluster()
    off = quota("none", 0, closed=WHY, usage=[({"cpu": 1}, {"cpu": 2.0})], switches={"enabledAllocatable": False})
    session = session_of(state, off)
    assert session.admits(named(state, "q"), task(state, "a-0"), 3) == 3
    assert session.usage(named(state, "q")) == [] and session.closed(named(state, "q")) is WHY


def test_only_plugins_that_do_not_list_usage_are_asked_about_what_is_unlisted() -> None:
    state = cluster()
    q, waits = named(state, "q"), task(state, "a-0")
    listed = quota("listed", 0, usage=[({"cpu": 1}, {"cpu": 2.0})])
    assert session_of(state, [listed, quota("two", 2)]).admits_unlisted(q, waits, 2)
    assert not session_of(state, [listed, quota("two", 2)]).admits_unlisted(q, waits, 3)
    assert session_of(state, listed).usage(q) == [({"cpu": 1}, {"cpu": 2.0})]


def test_one_plugin_is_enough_to_call_a_queue_overused_and_to_forbid_a_claim() -> None:
    state = cluster()
    q, waits = named(state, "q"), task(state, "a-0")
    fine = stub("fine", Overused, Preemptive, overused=None, preemptive=True)
    strict = stub("strict", Overused, Preemptive, overused=WHY, preemptive=False, deserves=False)
    off = stub("off", Preemptive, preemptive=False, deserves=False, switches={"enablePreemptive": False})
    assert session_of(state, fine).overused(q) is None and session_of(state, fine).preemptive(q, waits)
    assert session_of(state, [fine, strict]).overused(q) is WHY
    assert not session_of(state, [fine, strict]).preemptive(q, waits)
    assert session_of(state, [fine, off]).preemptive(q, waits)
    assert not session_of(state, [fine, off]).deserves(q, {"cpu": 1}), "no switch lets a queue take beyond its share"
    assert session_of(state, fine).deserves(q, {"cpu": 1})


# --- the cycle


def test_jobs_without_their_queue_are_not_in_the_session() -> None:
    state = state_of(node(cpu=10), queue("q"), job("a", waiting=1), job("lost", queue="nowhere", waiting=1))
    assert list(session_of(state, real("gang")).jobs) == ["default/a"]


def test_signatures_distinguish_shapes_and_what_plugins_read_besides() -> None:
    state = state_of(
        node(cpu=10),
        queue("q"),
        group("g", "q", phase="Inqueue"),
        pod("a", "g"),
        pod("b", "g", labels={"x": "y"}),
        pod("c", "g", requests={"cpu": 2}),
    )
    a, b, c = tasks(state, "a", "b", "c")
    session = session_of(state, real("gang"))
    assert session.signature(a) == session.signature(b) != session.signature(c)
    session.close()
    reads = stub("labels", signature=lambda task: tuple(task.labels))
    session = session_of(state, [real("gang"), reads])
    assert len({session.signature(t) for t in (a, b, c)}) == 3
    session.close()
    assert a.signature == b.signature == -1


def test_shared_objects_are_made_once_and_follow_moves_if_they_are_ledgers() -> None:
    class Followed(Ledger):
        def __init__(self, session: Session) -> None:
            self.count = 0

        def allocated(self, move: Any) -> None:
            self.count += 1

        def released(self, move: Any) -> None:
            self.count -= 1

    state, found = cluster(), list[Followed]()
    asks: Callable[[Session], None] = lambda session: found.append(session.shared(Followed))  # noqa: E731
    session = session_of(state, [stub("one", open=asks), stub("two", open=asks)])
    assert found[0] is found[1]
    statement = session.statement()
    statement.allocate(tasks(state, "a-0"), [0])
    assert found[0].count == 1
    statement.discard()
    assert found[0].count == 0


def test_closing_takes_back_what_was_committed_and_reserved_and_admitted() -> None:
    state = state_of(node(cpu=10), queue("q"), job("a", waiting=2, phase="Pending"), job("old", running=1, least=0))
    before = state.nodes.rows.copy()
    journal = Journal()
    session = session_of(state, [real("gang"), journal])
    first, second = session.statement(), session.statement()
    first.evict(task(state, "old-0"), None, "preempt")
    first.allocate(tasks(state, "a-0"), [0])
    second.pipeline(tasks(state, "a-1"), [0])
    first.commit()
    second.keep()
    of(state, "a").phase = "Inqueue"
    session.close()
    assert (state.nodes.rows == before).all()
    assert [t.status for t in tasks(state, "a-0", "a-1", "old-0")] == [Status.PENDING, Status.PENDING, Status.RUNNING]
    assert of(state, "a").phase == "Pending"
    assert [entry[1] for entry in journal.entries[3:]] == ["PIPELINE", "ALLOCATE", "EVICT"]


def test_plugins_are_opened_in_order_and_closed_in_reverse() -> None:
    seen: list[str] = []
    stubs = [
        stub(n, open=lambda s, n=n: seen.append(f"+{n}"), close=lambda s, n=n: seen.append(f"-{n}")) for n in "xyz"
    ]
    session_of(cluster(), stubs[:2], stubs[2]).close()
    assert seen == ["+x", "+y", "+z", "-z", "-y", "-x"]


def test_candidates_wait_and_are_not_gated() -> None:
    gates = [{"name": "wait"}]
    state = state_of(
        node(cpu=10),
        queue("q"),
        group("g", "q", phase="Inqueue"),
        pod("runs", "g", "n1"),
        pod("gated", "g", schedulingGates=gates),
        pod("waits", "g"),
    )
    assert [t.name for t in candidates(of(state, "g"))] == ["waits"]


def test_an_action_reads_its_own_arguments() -> None:
    given = {"preempt": Arguments({"some": True})}
    session = session_of(cluster(), real("gang"), configurations=given)
    assert session.arguments("preempt") is given["preempt"] and not dict(session.arguments("reclaim"))
