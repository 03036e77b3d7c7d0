"""The device plugin of the embedded cluster: the lists of free chips follow the pods."""

from __future__ import annotations

from builders.ascend import RESOURCE, board, chip_pod, names
from muster.cluster.embedded import EmbeddedCluster
from muster.model.core import Node, Pod


def cluster(*objects: Node | Pod) -> EmbeddedCluster:
    held: dict[str, dict[str, Node | Pod]] = {}
    for item in objects:
        held.setdefault(type(item).__name__, {})[item.metadata.name] = item
    return EmbeddedCluster(held, now=0.0)


def listed(of: EmbeddedCluster) -> str:
    return of.store.get(Node, "n").metadata.annotations[RESOURCE]


def test_the_input_stays_as_it_was_written() -> None:
    here = cluster(board("n"), chip_pod("run", 2, on="n", held=[0, 1]))
    here.step()
    assert listed(here) == names(range(8))


def test_a_pod_that_starts_takes_its_chips_off_the_list() -> None:
    here = cluster(board("n"), chip_pod("p", 2))
    here.store.bind("d/p", "n", {RESOURCE: names([4, 5])})
    here.step()
    assert listed(here) == names([0, 1, 2, 3, 6, 7])


def test_a_pod_that_is_gone_gives_them_back_but_for_faulty_ones() -> None:
    here = cluster(board("n", [2, 3], offers=7, faulty=[1]), chip_pod("run", 2, on="n", held=[0, 1]))
    here.store.delete(Pod, "d/run", grace=0)
    here.step()
    assert listed(here) == names([0, 2, 3])


def test_mounted_chips_come_back_and_not_those_asked_for() -> None:
    run = chip_pod("run", 1, on="n", held=[0], notes={"huawei.com/AscendReal": names([5])})
    here = cluster(board("n", [0, 1]), run)
    here.store.delete(Pod, "d/run", grace=0)
    here.step()
    assert listed(here) == names([0, 1, 5])


def test_no_more_chips_come_back_than_the_node_offers() -> None:
    here = cluster(board("n", [2, 3, 4, 5, 6, 7], offers=7), chip_pod("run", 2, on="n", held=[0, 1]))
    here.store.delete(Pod, "d/run", grace=0)
    here.step()
    assert listed(here) == names([0, 2, 3, 4, 5, 6, 7])


def test_chips_that_another_pod_names_stay_in_use() -> None:
    here = cluster(board("n", [2, 3]), chip_pod("a", 1, on="n", held=[0]), chip_pod("b", 2, on="n", held=[0, 1]))
    here.store.delete(Pod, "d/b", grace=0)
    here.step()
    assert listed(here) == names([1, 2, 3])


def test_a_list_that_cannot_be_read_is_left_alone() -> None:
    here = cluster(board("n", "0,1"), chip_pod("run", 1, on="n", held=[0]))
    here.store.delete(Pod, "d/run", grace=0)
    here.step()
    assert listed(here) == "0,1"
