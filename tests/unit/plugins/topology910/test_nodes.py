"""topology910 over nodes: who is refused and why, in what order the others come, and which chips are given."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from builders.ascend import RESOURCE, board, brute, chip_group, chip_pod, decide, names, session_of, state_of
from muster.engine.core.hooks import Batch
from muster.engine.core.state import State
from muster.engine.placement.trace import explain


def every_board() -> list[tuple[str, int, int, int]]:
    """(name, healthy, free left, free right) of all states that can be, for every number of healthy chips."""
    states = product(range(8, 0, -1), range(5), range(5))
    return [(f"h{h}-{left}-{right}", h, left, right) for h, left, right in states if left + right <= h]


def all_states(request_: int) -> State:
    objects = []
    for name, healthy, left, right in every_board():
        free = [*range(left), *range(4, 4 + right)]
        objects.append(board(name, free, offers=healthy))
        if busy := healthy - left - right:
            objects.append(chip_pod(f"busy-{name}", busy, on=name))
    return state_of(*objects, chip_pod("p", request_))


@pytest.mark.parametrize("request_", [1, 2, 4, 8])
def test_all_states_and_capacities_are_ordered_as_the_design_reads(request_: int) -> None:
    state = all_states(request_)
    session, chips = session_of(state)
    task, view = state.tasks["d/p"], state.nodes.everything()
    code, score = chips.filter(task, view).code, chips.raw(task, view)
    keys = {}
    for name, healthy, left, right in every_board():
        node = state.nodes.rank[name]
        read = brute(left, right, request_)
        assert (code[node] == 0) == (read is not None), name
        if read is not None:
            keys[node] = (-healthy, read[0], read[1])
    ranked = sorted(keys, key=lambda node: keys[node])
    for better, worse in pairwise(ranked):
        assert (score[better] > score[worse]) == (keys[better] < keys[worse])
        assert score[better] >= score[worse]
    session.close()


def test_one_step_in_the_order_outweighs_everybody_elses_points() -> None:
    state = all_states(1)
    session, chips = session_of(state)
    score = chips.raw(state.tasks["d/p"], state.nodes.everything())
    steps = np.diff(np.unique(score[score > 0]))
    assert steps.min() >= 1_000_000
    session.close()


def test_the_weight_is_an_argument() -> None:
    state = state_of(board("n"), chip_pod("p", 1))
    one, default = (session_of(state, **given)[1] for given in ({"topology910__weight": 1}, {}))
    task, view = state.tasks["d/p"], state.nodes.everything()
    assert default.raw(task, view)[0] == 1_000_000 * one.raw(task, view)[0]


def test_rings_count_and_not_numbers() -> None:
    state = state_of(board("n", [0, 4], offers=2), chip_pod("p", 2))
    plan = decide(state)
    assert not plan.binds
    assert "1 node(s) had rings 1+1 free, 2 needed in one ring" in plan.reasons["d/p"].text


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (board("n", None), "node(s) had chips but no list of them"),
        (board("n", "Ascend910-0, Ascend910-1"), "node(s) had a list of chips that cannot be read"),
        (board("n", "Ascend910-8"), "Ascend910-8 is not one of the 8 chips of the board"),
        (board("n", "Ascend910-1,Ascend910-1"), "Ascend910-1 is named twice"),
        (board("n", [0, 1, 2]), "3 chips listed as free but 8 idle: waiting for the device plugin to list chips 3-7"),
        (board("n", "", offers=0), "node(s) had no Ascend 910 chips"),
        (board("n", [1, 2, 3, 5, 6, 7], offers=6, faulty=[0, 4]), "rings 3+3 healthy, 4 needed in one ring"),
        (board("n", [0, 1, 4], offers=3), "rings 2+1 free, 4 needed in one ring"),
    ],
)
def test_a_node_that_cannot_serve_gives_the_reason_and_stops_nothing_else(node: object, why: str) -> None:
    state = state_of(node, board("sound"), chip_pod("p", 4))  # type: ignore[arg-type]
    assert decide(state).binds == {"d/p": "sound"}
    session, _ = session_of(state)
    reported = explain(session, state.tasks["d/p"])["n"]
    assert any(why in text for _, _, text in reported.reasons), reported.reasons
    session.close()


def test_a_healthier_board_comes_first_in_any_group() -> None:
    worn = board("worn", [0], offers=7, faulty=[7])
    state = state_of(worn, chip_pod("busy", 6, on="worn"), board("whole"), chip_pod("p", 1))
    assert decide(state).binds == {"d/p": "whole"}


def test_a_worn_board_is_used_where_no_whole_one_fits() -> None:
    worn = board("worn", [0, 1, 2, 4, 5, 6, 7], offers=7, faulty=[3])
    state = state_of(worn, board("whole", [0, 4]), chip_pod("busy", 6, on="whole"), chip_pod("p", 4))
    plan = decide(state)
    assert plan.binds == {"d/p": "worn"} and plan.devices == {"d/p": [4, 5, 6, 7]}


def test_chips_without_network_serve_single_pods_only() -> None:
    one = state_of(board("n", no_network=[5]), chip_pod("p", 8))
    assert decide(one).devices == {"d/p": list(range(8))}
    two = state_of(
        board("a", no_network=[5]),
        board("b"),
        chip_group("j", 2),
        chip_pod("j-0", 8, job="j"),
        chip_pod("j-1", 8, job="j"),
    )
    plan = decide(two)
    assert not plan.binds
    text = plan.reasons["d/j-0"].text + plan.reasons["d/j-1"].text
    assert "rings 4+3 healthy for a job of several pods, all 8 needed" in text


def test_pods_without_chips_are_neither_filtered_nor_scored() -> None:
    state = state_of(board("n", None), chip_pod("p", 0))
    session, chips = session_of(state)
    task = state.tasks["d/p"]
    assert [term.batch(task) for term in (*chips.filters(), *chips.scorers())] == [Batch.SKIP] * 5
    assert chips.signature(task) is None
    session.close()
    assert decide(state).binds == {"d/p": "n"}


def test_a_cluster_without_chips_is_left_alone() -> None:
    state = state_of(board("n", None, offers=0), chip_pod("p", 1))
    session, chips = session_of(state)
    assert chips.batch(state.tasks["d/p"]) == Batch.SKIP
    session.close()
    plan = decide(state)
    assert "Insufficient huawei.com/Ascend910" in plan.reasons["d/p"].text
    assert plan.warnings == []


def test_labels_choose_the_layout() -> None:
    mesh = board("mesh", range(8), kind="module-910b-8")
    state = state_of(mesh, board("rings"), chip_pod("p", 3))
    plan = decide(state)
    assert plan.binds == {"d/p": "mesh"} and plan.devices == {"d/p": [0, 1, 2]}
    session, _ = session_of(state)
    reported = explain(session, state.tasks["d/p"])["rings"]
    assert next(text for _, _, text in reported.reasons) == "node(s) had boards 910, which do not serve such a job"
    session.close()


def test_arguments_choose_the_layout() -> None:
    state = state_of(board("n", range(16), offers=16, kind="box"), chip_pod("p", 10))
    assert not decide(state).binds
    for given in ({"topology910__layout": "910B-16"}, {"topology910__layout__box": "910B-16"}):
        plan = decide(state, **given)
        assert plan.devices == {"d/p": [0, 1, 2, 3, 4, 8, 9, 10, 11, 12]}


@pytest.mark.parametrize(
    ("kind", "given", "size", "want", "chips"),
    [
        ("card", {}, 2, 2, [0, 1]),
        ("half", {}, 4, 2, [0, 1]),
        ("910C", {}, 16, 6, [0, 1, 2, 3, 4, 5]),
        ("module-a3-16", {}, 16, 6, [0, 1, 2, 3, 4, 5]),
        ("", {"topology910__layout": "910C"}, 16, 6, [0, 1, 2, 3, 4, 5]),
        ("", {"topology910__layout": 910}, 8, 4, [0, 1, 2, 3]),
    ],
)
def test_a_label_or_an_argument_chooses_the_layout(
    kind: str, given: dict[str, object], size: int, want: int, chips: list[int]
) -> None:
    plan = decide(state_of(board("n", range(size), offers=size, kind=kind), chip_pod("p", want)), **given)
    assert plan.devices == {"d/p": chips} and not plan.warnings


def test_a_job_that_no_layout_serves_is_reported_of_the_argument_that_would_help() -> None:
    state = state_of(board("n"), chip_group("j", 2), chip_pod("j-0", 1, job="j"), chip_pod("j-1", 1, job="j"))
    session, _ = session_of(state)
    reported = explain(session, state.tasks["d/j-0"])["n"]
    assert any("topology910.eachPod: true serves each pod by itself" in text for _, _, text in reported.reasons)
    session.close()


def test_explain_says_group_rank_and_ring() -> None:
    state = state_of(board("n", [0, 1, 4, 5, 6]), chip_pod("busy", 3, on="n"), chip_pod("p", 2))
    session, _ = session_of(state)
    reported = explain(session, state.tasks["d/p"])["n"]
    assert reported.notes == {"topology910": "group A, rank 3, ring 0-3 (rings 2+3 free, 8 healthy)"}
    assert reported.terms["topology910"].keys() == {"healthy", "group", "rank"}
    assert sum(reported.terms["topology910"].values()) == reported.scores["topology910"]
    session.close()


def test_chips_and_their_time_are_written_with_the_binding() -> None:
    state = state_of(board("n"), chip_pod("a", 1), chip_pod("b", 2))
    plan = decide(state, now=1700000000.5)
    (a,), (b,) = plan.effects["d/a"], plan.effects["d/b"]
    assert a.kind == "annotations" and a.key == "d/a"
    assert plan.devices == {"d/a": [0], "d/b": [4, 5]}
    assert a.values[RESOURCE] == names(plan.devices["d/a"])
    assert sorted(int(e.values["predicate-time"]) for e in (a, b)) == [1700000000500000000, 1700000000500000001]


def test_the_time_is_later_than_any_on_the_node_whatever_the_clock_says() -> None:
    late = {"predicate-time": "1900000000000000000"}
    served = {"predicate-time": "18446744073709551615"}
    state = state_of(
        board("n", range(2, 8)),
        chip_pod("waits", 1, on="n", held=[0], notes=late),
        chip_pod("served", 1, on="n", held=[1], notes=served),
        chip_pod("p", 4),
    )
    assert decide(state, now=1.0).effects["d/p"][0].values["predicate-time"] == "1900000000000000001"
