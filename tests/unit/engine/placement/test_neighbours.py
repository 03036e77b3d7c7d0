"""Equal tasks next to each other in order share domains."""

from __future__ import annotations

import numpy as np

from muster.engine.placement.batch import neighbours

RACKS = np.array([[0, 0, 1, 1]])  # nodes 0 and 1 in one rack, 2 and 3 in another


def test_picks_of_one_rack_stand_together_in_the_order_of_the_first() -> None:
    assert neighbours([2, 0, 3, 1], RACKS) == [2, 3, 0, 1]


def test_picks_of_one_node_stand_together() -> None:
    assert neighbours([0, 1, 0, 1], RACKS) == [0, 0, 1, 1]


def test_wider_domains_come_before_narrower_ones() -> None:
    levels = np.array([[0, 0, 0, 1], [0, 1, 0, 2]])
    assert neighbours([0, 3, 1, 2], levels) == [0, 2, 1, 3]
