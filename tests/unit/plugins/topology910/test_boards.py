"""Findings of `muster validate` about boards."""

from __future__ import annotations

from builders.ascend import board, chip_pod, session_of, state_of
from muster.model.core import Node, Pod


def reported(*objects: Node | Pod, **arguments: object) -> list[str]:
    session, chips = session_of(state_of(*objects), **arguments)
    found = type(chips).examine(session)
    session.close()
    assert all(finding.severity == "warning" and finding.fix for finding in found)
    return [f"{finding.object}: {finding.message}" for finding in found]


def test_boards_whose_lists_agree_are_not_mentioned() -> None:
    worn = board("b", [0, 1, 2, 4, 5, 6, 7], offers=7, faulty=[3])
    assert (
        reported(board("a"), worn, chip_pod("run", 1, on="b", held=[3]), chip_pod("bound", 2, on="a", held=[0, 1]))
        == []
    )


def test_lists_that_disagree_name_their_node() -> None:
    assert reported(board("a"), board("b", [0, 1, 2, 3])) == [
        "Node b: has 4 chips listed as free but 8 idle: waiting for the device plugin to list chips 4-7"
    ]
    assert reported(board("a", offers=7, faulty=[1])) == ["Node a: has chip 1 listed as free and as unhealthy"]
    twice = [chip_pod(name, 1, on="a", held=[3]) for name in ("x", "y")]
    assert reported(board("a", [0, 1, 2, 4, 5, 6, 7]), *twice) == ["Node a: has chip 3 named by two pods (d/x, d/y)"]


def test_a_failed_chip_that_no_list_names_is_reported() -> None:
    (message,) = reported(board("a", range(1, 8), offers=7), chip_pod("run", 1, on="a", held=[0]))
    assert "7 healthy chips but 8 listed as free or held by pods" in message


def test_pods_that_ask_for_more_than_the_board_has_are_reported() -> None:
    crowd = [chip_pod(name, 8, on="a") for name in ("x", "y")]
    assert reported(board("a", ""), *crowd) == ["Node a: has pods that request 16 chips where 8 are healthy"]


def test_lists_that_cannot_be_read_or_are_missing_name_their_node() -> None:
    missing, bad = reported(board("a", None), board("b", "0,1"))
    assert missing.startswith("Node a: has chips but no list of them")
    assert bad.startswith("Node b: has a list of chips that cannot be read")


def test_an_unknown_type_lists_the_known_ones() -> None:
    (message,) = reported(board("a", kind="modul"), board("b", kind="modul"))
    assert message == (
        "Node a: has the unknown accelerator-type modul (and 1 more): its chips are used as a board 910; "
        "known are 910, 910B-16, 910B-8, 910C, card, half, module, module-910b-16, module-910b-8, module-a3-16, "
        "module-a3-16-super-pod"
    )
    assert reported(board("a", kind="modul"), topology910__layout__modul="910") == []


def test_an_unknown_type_is_a_warning_of_every_run() -> None:
    session, _ = session_of(state_of(board("a", kind="modul")))
    (message,) = session.warnings
    assert message.startswith("Node a has the unknown accelerator-type modul") and "did you mean module?" in message
    session.close()
