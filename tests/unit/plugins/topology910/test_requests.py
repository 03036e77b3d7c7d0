"""What a job may request: totals, pods and sizes."""

from __future__ import annotations

import pytest

from builders.ascend import board, chip_group, chip_pod, decide, session_of, state_of
from muster.model.core import Pod


def refusal(*sizes: int | str, **arguments: object) -> str | None:
    pods = [chip_pod(f"j-{i}", size, job="j") for i, size in enumerate(sizes)]
    state = state_of(board("n"), chip_group("j", len(sizes)), *pods)
    session, chips = session_of(state, **arguments)
    reason = chips.valid(state.jobs["d/j"])
    session.close()
    return None if reason is None else f"{reason.code}: {reason.message()}"


@pytest.mark.parametrize("sizes", [(1,), (2,), (4,), (8,), (8, 8), (8, 8, 8), (0, 0), (0, 1), (0, 8, 8)])
def test_served(sizes: tuple[int, ...]) -> None:
    assert refusal(*sizes) is None


@pytest.mark.parametrize("total", [3, 5, 6, 7, 9, 10, 15, 17, 20])
def test_a_total_that_is_not_served(total: int) -> None:
    reported = refusal(total)
    assert reported is not None
    assert reported.startswith(f"chip-total: job d/j requests {total} chips in all, not 1, 2, 4, 8 or a multiple of 8")


@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (4, 4), (1,) * 8, (2, 6)])
def test_up_to_eight_chips_are_one_pods(sizes: tuple[int, ...]) -> None:
    reported = refusal(*sizes)
    assert reported is not None
    assert f"chip-pods: job d/j requests {sum(sizes)} chips with {len(sizes)} pods" in reported


@pytest.mark.parametrize("sizes", [(16,), (4, 4, 4, 4), (8, 4, 4), (12, 4)])
def test_above_eight_every_pod_asks_for_eight(sizes: tuple[int, ...]) -> None:
    reported = refusal(*sizes)
    assert reported is not None
    assert f"job d/j requests 16 chips with {len(sizes)} pods" in reported and "every pod requests 8" in reported


def test_chips_are_whole() -> None:
    reported = refusal("500m")
    assert reported is not None and "parts of a chip" in reported


def test_an_argument_lets_each_pod_ask_for_itself() -> None:
    assert refusal(1, 1, 4, topology910__eachPod=True) is None
    reported = refusal(1, 3, topology910__eachPod=True)
    assert reported is not None and "a pod that requests 3 chips" in reported


@pytest.mark.parametrize("sizes", [(1, 1), (4, 4, 4), (8, 1)])
def test_the_refusal_names_the_argument_that_would_help(sizes: tuple[int, ...]) -> None:
    reported = refusal(*sizes)
    assert reported is not None and reported.endswith("(topology910.eachPod: true serves each pod by itself)")


@pytest.mark.parametrize("sizes", [(3,), (16,), (1, 3)])
def test_the_refusal_does_not_name_an_argument_that_would_not_help(sizes: tuple[int, ...]) -> None:
    reported = refusal(*sizes)
    assert reported is not None and "eachPod" not in reported


def owned(*sizes: int, least: str = "") -> list[Pod]:
    notes = {"scheduling.volcano.sh/group-min-member": least} if least else {}
    return [chip_pod(f"w-{i}", size, owner="w", notes=notes) for i, size in enumerate(sizes)]


def test_pods_without_a_pod_group_are_served_one_by_one() -> None:
    plan = decide(state_of(board("n", no_network=[0]), *owned(4, 4)))
    assert sorted(plan.devices.values()) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_pod_of_an_odd_size_does_not_stop_its_siblings() -> None:
    plan = decide(state_of(board("n"), *owned(2, 3)))
    assert plan.binds == {"d/w-0": "n"}
    assert "boards 910, which serve pods of 1, 2, 4, 8 chips, not 3" in plan.reasons["d/w-1"].text


@pytest.mark.parametrize(
    ("least", "arguments"), [("2", {}), ("", {"topology910__eachPod": False}), ("1", {"topology910__eachPod": False})]
)
def test_pods_with_a_minimum_or_by_argument_are_one_job(least: str, arguments: dict[str, object]) -> None:
    plan = decide(state_of(board("n"), *owned(2, 2, least=least)), **arguments)
    assert not plan.binds
    assert "4 chips with 2 pods" in plan.reasons["d/w-0"].text and "topology910.eachPod" in plan.reasons["d/w-0"].text


def test_an_argument_that_is_neither_true_nor_false_is_not_given() -> None:
    plan = decide(state_of(board("n"), *owned(2, 2)), topology910__eachPod="perhaps")
    assert len(plan.binds) == 2


def test_pods_that_are_finished_or_terminating_do_not_count() -> None:
    over = chip_pod("j-0", 4, job="j", on="n", phase="Failed")
    terminating = chip_pod("j-1", 4, job="j", on="n", terminating=True)
    state = state_of(board("n"), chip_group("j"), over, terminating, chip_pod("j-2", 4, job="j"))
    session, chips = session_of(state)
    assert chips.valid(state.jobs["d/j"]) is None
    session.close()
