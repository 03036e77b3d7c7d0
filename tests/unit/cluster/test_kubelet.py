"""The kubelets and the device plugin of the embedded cluster."""

from __future__ import annotations

from builders.ascend import RESOURCE, board, chip_pod, names
from builders.embedded import cluster, pods_of
from builders.manifests import node, pod, typed
from muster.cluster.embedded import EmbeddedCluster
from muster.model.core import Node, Pod


def test_a_bound_pod_runs_at_the_next_step() -> None:
    c = cluster(node("n"), pod("a"))
    c.store.bind("default/a", "n")
    assert c.step()
    status = pods_of(c)["a"].status
    assert (status.phase, status.start_time) == ("Running", "1970-01-01T00:16:40Z")
    assert {x.type: x.status for x in status.conditions}["Ready"] == "True"
    assert not c.step()


def test_the_input_is_as_it_was_written_until_the_first_step() -> None:
    c = cluster(node("n"), pod("a", on="n", phase=""))
    assert pods_of(c)["a"].status.phase == ""
    c.step()
    assert pods_of(c)["a"].status.phase == "Running"


def test_a_pod_on_a_node_that_is_not_there_does_not_run_until_it_is() -> None:
    c = cluster(pod("a", on="n", phase=""))
    c.step()
    assert pods_of(c)["a"].status.phase == ""
    c.store.create(typed(node("n")))
    c.step()
    assert pods_of(c)["a"].status.phase == "Running"


def test_a_deleted_pod_goes_when_its_grace_is_over() -> None:
    c = cluster(node("n"), pod("a", on="n", phase="Running"))
    c.store.delete(Pod, "default/a", grace=20)
    c.step()
    assert c.next_time() == 1020.0
    c.advance(1019.0)
    assert list(pods_of(c)) == ["a"]
    c.advance(1020.0)
    assert pods_of(c) == {}
    assert c.next_time() is None


def test_a_pod_that_is_terminating_in_the_input_is_seen_terminating() -> None:
    old = typed(pod("a", on="n", phase="Running"))
    old.metadata.deletion_timestamp = "1970-01-01T00:00:10Z"
    c = cluster(node("n"), old)
    c.step()
    assert list(pods_of(c)) == ["a"]
    moment = c.next_time()
    assert moment == 1001.0
    c.advance(moment)
    assert pods_of(c) == {}


def test_a_pod_that_leaves_without_ever_having_had_a_node_goes_too() -> None:
    old = typed(pod("a"))
    old.metadata.deletion_timestamp = "1970-01-01T00:00:10Z"
    c = cluster(old)
    c.advance(1001.0)
    assert pods_of(c) == {}


def test_a_pod_succeeds_only_if_its_run_time_is_given() -> None:
    short = pod("short", on="n", phase="", annotations={"muster.io/run-seconds": "5"})
    long = pod("long", on="n", phase="")
    c = cluster(node("n"), short, long)
    c.step()
    assert c.next_time() == 1005.0
    c.advance(1005.0)
    assert {name: p.status.phase for name, p in pods_of(c).items()} == {"short": "Succeeded", "long": "Running"}
    assert c.next_time() is None


def test_a_length_that_is_no_number_is_reported_once_and_the_pod_runs_on() -> None:
    odd = typed(pod("a", on="n", phase=""))
    odd.metadata.annotations = {"muster.io/run-seconds": "soon"}
    c = cluster(node("n"), odd)
    c.step()
    c.step()
    assert [note.reason for note in c.store.events] == ["BadAnnotation"]
    assert pods_of(c)["a"].status.phase == "Running"


def cluster_of(*objects: Node | Pod) -> EmbeddedCluster:
    held: dict[str, dict[str, Node | Pod]] = {}
    for item in objects:
        held.setdefault(type(item).__name__, {})[item.metadata.name] = item
    return EmbeddedCluster(held, now=0.0)


def listed(of: EmbeddedCluster) -> str:
    return of.store.get(Node, "n").metadata.annotations[RESOURCE]


def test_the_input_stays_as_it_was_written() -> None:
    here = cluster_of(board("n"), chip_pod("run", 2, on="n", held=[0, 1]))
    here.step()
    assert listed(here) == names(range(8))


def test_a_pod_that_starts_takes_its_chips_off_the_list() -> None:
    here = cluster_of(board("n"), chip_pod("p", 2))
    here.store.bind("d/p", "n", {RESOURCE: names([4, 5])})
    here.step()
    assert listed(here) == names([0, 1, 2, 3, 6, 7])


def test_a_pod_that_is_gone_gives_them_back_but_for_faulty_ones() -> None:
    here = cluster_of(board("n", [2, 3], offers=7, faulty=[1]), chip_pod("run", 2, on="n", held=[0, 1]))
    here.store.delete(Pod, "d/run", grace=0)
    here.step()
    assert listed(here) == names([0, 2, 3])


def test_mounted_chips_come_back_and_not_those_asked_for() -> None:
    run = chip_pod("run", 1, on="n", held=[0], notes={"huawei.com/AscendReal": names([5])})
    here = cluster_of(board("n", [0, 1]), run)
    here.store.delete(Pod, "d/run", grace=0)
    here.step()
    assert listed(here) == names([0, 1, 5])


def test_no_more_chips_come_back_than_the_node_offers() -> None:
    here = cluster_of(board("n", [2, 3, 4, 5, 6, 7], offers=7), chip_pod("run", 2, on="n", held=[0, 1]))
    here.store.delete(Pod, "d/run", grace=0)
    here.step()
    assert listed(here) == names([0, 2, 3, 4, 5, 6, 7])


def test_chips_that_another_pod_names_stay_in_use() -> None:
    here = cluster_of(board("n", [2, 3]), chip_pod("a", 1, on="n", held=[0]), chip_pod("b", 2, on="n", held=[0, 1]))
    here.store.delete(Pod, "d/b", grace=0)
    here.step()
    assert listed(here) == names([1, 2, 3])


def test_a_list_that_cannot_be_read_is_left_alone() -> None:
    here = cluster_of(board("n", "0,1"), chip_pod("run", 1, on="n", held=[0]))
    here.store.delete(Pod, "d/run", grace=0)
    here.step()
    assert listed(here) == "0,1"
