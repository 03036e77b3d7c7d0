"""The kubelets: bound pods run, deleted ones go after their grace, those with a run time end."""

from __future__ import annotations

from builders.embedded import cluster, pods_of
from builders.manifests import node, pod, typed
from muster.model.core import Pod


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


def test_a_pod_that_is_leaving_in_the_input_is_seen_leaving() -> None:
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
