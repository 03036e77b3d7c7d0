"""Domain trees: permuted nodes, sums upwards, cuts."""

from __future__ import annotations

import numpy as np

from muster.engine.domains.domain_tree import DomainTree, tree_of


def two_zones() -> DomainTree:
    """Nodes 0 … 6; node 4 is outside; racks 0 and 1 exist in both zones."""
    codes = np.array([[0, 1, 0, 1, -1, 0, 1], [0, 0, 1, 1, -1, 0, 0]])
    return tree_of("tree", ["zone", "rack"], codes, [["a", "b"], ["r0", "r1"]])


def test_a_domain_is_a_whole_path() -> None:
    tree = two_zones()
    assert tree.paths == [["/"], ["a", "b"], ["a/r0", "a/r1", "b/r0", "b/r1"]]
    assert tree.ids[2].tolist() == [0, 2, 1, 3, -1, 0, 2]


def test_nodes_of_a_domain_are_sorted() -> None:
    cut = two_zones().everything
    assert [cut.nodes(2, segment).tolist() for segment in range(4)] == [[0, 5], [2], [1, 6], [3]]
    assert cut.nodes(1, 1).tolist() == [1, 3, 6]
    assert cut.nodes(0, 0).tolist() == [0, 1, 2, 3, 5, 6]


def test_sums_go_upwards_for_several_rows_at_once() -> None:
    cut = two_zones().everything
    values = np.array([[1, 2, 4, 8, 16, 32, 64], [1] * 7])[:, cut.order]
    root, zones, racks = cut.sums(cut.count(values))
    assert racks.tolist() == [[33, 4, 66, 8], [2, 1, 2, 1]]
    assert zones.tolist() == [[37, 74], [3, 3]]
    assert root.tolist() == [[111], [6]]


def test_a_cut_knows_only_its_nodes_but_keeps_their_names() -> None:
    cut = two_zones().cut(np.array([3, 4, 6]))
    assert cut.members.tolist() == [3, 6]
    assert [cut.path(2, segment) for segment in range(2)] == ["b/r0", "b/r1"]
    assert cut.sums(cut.count(np.ones((1, 2), np.int64)))[1].tolist() == [[2]]


def test_a_cut_of_nothing_is_empty_at_every_level() -> None:
    cut = two_zones().cut(np.array([4]))
    assert [sums.shape[1] for sums in cut.sums(cut.count(np.zeros((1, 0), np.int64)))] == [0, 0, 0]


def test_nodes_may_be_missing_in_a_level_between() -> None:
    codes = np.array([[0, 0, 0], [0, -1, -1], [0, 1, 2]])
    tree = tree_of("tree", ["3", "2", "1"], codes, [["top"], ["mid"], ["x", "y", "z"]])
    cut = tree.everything
    assert cut.tiers[2].real.tolist() == [False, True]
    assert tree.paths[3] == ["top/y", "top/z", "top/mid/x"]
    assert [s.tolist() for s in cut.sums(cut.count(np.ones((1, 3), np.int64)))] == [[[3]], [[3]], [[2, 1]], [[1, 1, 1]]]


def test_a_tree_without_levels_has_no_nodes() -> None:
    tree = tree_of("tree", [], np.empty((0, 4), np.int64), [])
    assert len(tree.everything.members) == 0 and tree.level("rack") is None
