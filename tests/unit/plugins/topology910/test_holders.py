"""topology910 and the pods that hold chips: no chip twice within a cycle or from one to the next, exact undoing."""

from __future__ import annotations

import pytest

from builders.ascend import board, chip_group, chip_pod, decide, names, session_of, state_of
from muster.engine.core.jobs import Status
from muster.engine.core.nodes import MoveKind
from muster.engine.placement.trace import explain


def test_chips_of_a_terminating_pod_are_in_use_though_the_list_shows_them() -> None:
    state = state_of(
        board("n"), chip_pod("old", 4, on="n", held=[0, 1, 2, 3], terminating=True), chip_pod("p", 4), chip_pod("q", 4)
    )
    plan = decide(state)
    assert plan.devices == {"d/p": [4, 5, 6, 7]}
    assert plan.pipelined == {"d/q": "n"}


def test_chips_of_a_bound_pod_are_in_use_before_the_device_plugin_shows_it() -> None:
    state = state_of(board("n"), chip_pod("bound", 2, on="n", held=[0, 1], phase="Pending"), chip_pod("p", 2))
    assert decide(state).devices == {"d/p": [2, 3]}


def test_mounted_chips_are_in_use() -> None:
    mounted = {"huawei.com/AscendReal": names([0])}
    state = state_of(board("n"), chip_pod("run", 1, on="n", notes=mounted), chip_pod("p", 1))
    assert decide(state).devices == {"d/p": [1]}


def test_mounted_chips_replace_those_asked_for() -> None:
    run = chip_pod("run", 2, on="n", held=[0, 1], notes={"huawei.com/AscendReal": names([4, 5])})
    state = state_of(board("n", [0, 1, 2, 3, 6, 7]), run, chip_pod("p", 4))
    assert decide(state).devices == {"d/p": [0, 1, 2, 3]}


@pytest.mark.parametrize("mounted", ["", "rubbish", "Ascend910-99"])
def test_a_list_of_mounted_chips_that_names_none_replaces_nothing(mounted: str) -> None:
    run = chip_pod("run", 1, on="n", held=[0], notes={"huawei.com/AscendReal": mounted})
    assert decide(state_of(board("n"), run, chip_pod("p", 1))).devices == {"d/p": [1]}


def test_a_finished_pod_uses_nothing() -> None:
    state = state_of(board("n"), chip_pod("old", 8, on="n", held=range(8), phase="Succeeded"), chip_pod("p", 8))
    assert decide(state).devices == {"d/p": list(range(8))}


def test_the_list_is_the_authority_where_a_running_pod_names_nothing() -> None:
    state = state_of(board("n", [2, 3, 4, 5, 6, 7]), chip_pod("run", 2, on="n", held="rubbish"), chip_pod("p", 4))
    assert decide(state).devices == {"d/p": [4, 5, 6, 7]}


def test_a_list_that_disagrees_with_what_is_idle_is_waited_for_and_recovers() -> None:
    nameless = chip_pod("run", 2, on="n")
    lagging = state_of(board("n"), nameless, chip_pod("p", 1))
    plan = decide(lagging)
    assert not plan.binds
    assert "8 chips listed as free but 6 idle: waiting for the device plugin" in plan.reasons["d/p"].text
    lagging.upsert("Node", "n", board("n", range(2, 8)))
    assert decide(lagging).devices == {"d/p": [2]}


def test_a_chip_that_two_pods_name_stays_in_use_when_one_of_them_leaves() -> None:
    twice = [chip_pod(name, 1, on="n", held=[3], terminating=name == "a") for name in ("a", "b")]
    state = state_of(board("n", [0, 1, 2, 4, 5, 6, 7]), *twice, chip_pod("p", 4), chip_pod("q", 4))
    plan = decide(state)
    assert plan.devices == {"d/p": [4, 5, 6, 7]} and not plan.pipelined


def test_chips_that_are_idle_but_not_listed_wait_alone() -> None:
    state = state_of(board("n", [0, 1]), chip_pod("p", 2), chip_pod("q", 2))
    plan = decide(state)
    assert plan.devices == {"d/p": [0, 1]}
    why = "2 chips listed as free but 8 idle: waiting for the device plugin to list chips 2-7"
    assert why in plan.reasons["d/q"].text


def test_more_chips_listed_than_there_are_healthy_ones_all_wait() -> None:
    plan = decide(state_of(board("n", offers=7), chip_pod("p", 1)))
    assert "8 chips listed as free but 7 idle: waiting for the device plugin" in plan.reasons["d/p"].text


@pytest.mark.parametrize("offers", [7, 8])
def test_a_chip_listed_as_free_and_as_unhealthy_waits_alone(offers: int) -> None:
    state = state_of(board("n", range(8), offers=offers, faulty=[1]), chip_pod("p", 4))
    assert decide(state).devices == {"d/p": [4, 5, 6, 7]}


@pytest.mark.parametrize("faulty", [[3], []])
@pytest.mark.parametrize("offers", [7, 8])
def test_a_chip_that_fails_under_its_pod_does_not_stop_the_board(faulty: list[int], offers: int) -> None:
    worn = board("n", [0, 1, 2, 4, 5, 6, 7], offers=offers, faulty=faulty)
    state = state_of(worn, chip_pod("run", 1, on="n", held=[3]), chip_pod("p", 4))
    assert decide(state).devices == {"d/p": [4, 5, 6, 7]}


@pytest.mark.parametrize("faulty", [[0], []])
def test_a_chip_that_fails_under_a_pod_that_names_none_does_not_stop_the_board(faulty: list[int]) -> None:
    state = state_of(board("n", range(2, 8), offers=7, faulty=faulty), chip_pod("run", 2, on="n"), chip_pod("p", 4))
    assert decide(state).devices == {"d/p": [4, 5, 6, 7]}


def test_a_chip_in_use_that_may_have_failed_is_not_promised() -> None:
    terminating = chip_pod("old", 1, on="n", held=[3], terminating=True)
    rest = chip_pod("rest", 3, on="n", held=[4, 5, 6])
    sound, worn = (board("n", [0, 1, 2, 7], offers=offers) for offers in (8, 7))
    assert decide(state_of(sound, terminating, rest, chip_pod("p", 4))).pipelined == {"d/p": "n"}
    assert decide(state_of(worn, terminating, rest, chip_pod("p", 2))).devices == {"d/p": [0, 1]}
    assert not decide(state_of(worn, terminating, rest, chip_pod("p", 4))).pipelined


def test_a_gang_that_fails_gives_its_chips_back() -> None:
    state = state_of(
        board("a"),
        board("b", [0, 1, 2, 3]),
        chip_pod("busy", 4, on="b"),
        chip_group("big", 2),
        chip_pod("big-0", 8, job="big"),
        chip_pod("big-1", 8, job="big"),
        chip_pod("small", 4),
    )
    plan = decide(state)
    assert plan.binds == {"d/small": "b"} and plan.devices == {"d/small": [0, 1, 2, 3]}


def test_undoing_restores_the_chips_in_any_order() -> None:
    state = state_of(
        board("n"), chip_pod("old", 2, on="n", held=[0, 1]), chip_pod("p", 1), chip_pod("q", 2), chip_pod("r", 2)
    )
    session, chips = session_of(state)
    at = chips.boards.at(0)
    assert at is not None
    before = (at.free, at.coming, at.reserved, chips.boards.numbers(MoveKind.ALLOCATE, False).tolist())
    made = [session.statement() for _ in range(4)]
    made[0].allocate([state.tasks["d/p"]], [0])
    made[1].evict(state.tasks["d/old"], None, "preempt")
    made[2].pipeline([state.tasks["d/q"]], [0])
    made[3].allocate([state.tasks["d/r"]], [0])
    held = {name: chips.devices(state.tasks[f"d/{name}"]) for name in "pqr"}
    assert held == {"p": [2], "q": None, "r": [6, 7]}
    assert (at.coming, at.reserved) == (0b11, 0b110000)
    for number in (1, 3, 0, 2):
        made[number].rollback()
    assert (at.free, at.coming, at.reserved, chips.boards.numbers(MoveKind.ALLOCATE, False).tolist()) == before
    session.close()


def test_what_is_kept_for_a_waiting_pod_is_not_given_to_another() -> None:
    state = state_of(
        board("n", [0, 1, 2, 3]),
        chip_pod("old", 4, on="n", held=[4, 5, 6, 7], terminating=True),
        chip_pod("a-whole", 8),
        chip_pod("b-small", 1),
    )
    plan = decide(state)
    assert plan.pipelined == {"d/a-whole": "n"} and not plan.devices


def test_a_broken_ring_can_be_mended_by_eviction() -> None:
    state = state_of(
        board("n", [0, 4]),
        chip_pod("l", 1, on="n", held=[1]),
        chip_pod("rest", 5, on="n", held=[2, 3, 5, 6, 7]),
        chip_pod("p", 2),
    )
    session, _ = session_of(state)
    task = state.tasks["d/p"]
    assert not session.placement.passes(task, 0)
    trial = session.statement()
    trial.evict(state.tasks["d/l"], task, "preempt")
    assert session.placement.passes(task, 0)
    assert not session.placement.fits(task)[0]  # now there are still only single chips
    trial.discard()
    assert state.tasks["d/l"].status == Status.RUNNING
    session.close()


def test_the_picture_shows_chips_in_doubt() -> None:
    session, _ = session_of(state := state_of(board("n", [0, 1, 2, 3]), chip_pod("p", 1)))
    (picture,) = explain(session, state.tasks["d/p"])["n"].pictures
    assert picture.text().splitlines()[1:] == [
        "  ring 0-3  [·][·][·][·]",
        "  ring 4-7  [*][*][*][*]",
        "  · free; * in doubt: the lists disagree",
    ]
    session.close()


def test_the_picture_shows_who_uses_what() -> None:
    worn = board("n", [2, 4, 5], offers=7, faulty=[7], no_network=[4])
    state = state_of(worn, chip_pod("a<b", 2, on="n", held=[0, 1]), chip_pod("dumb", 2, on="n"), chip_pod("p", 1))
    session, _ = session_of(state)
    (picture,) = explain(session, state.tasks["d/p"])["n"].pictures
    assert picture.text().splitlines() == [
        "n  910, 7 healthy",
        "  ring 0-3  [a][a][·][?]",
        "  ring 4-7  [·!][·][?][✗]",
        "  a d/a<b; · free; ✗ faulty; ? not listed as free; ! network faulty",
    ]
    drawn = picture.html()
    assert "chip 0: held by d/a&lt;b" in drawn and "a<b" not in drawn
    session.close()
