"""Two configurations are compared on one input."""

from __future__ import annotations

from builders.files import PACKING, SPREADING, manifests, scheduler
from builders.manifests import node, pod
from muster.sim.result import Comparison
from muster.sim.simulate import simulate


def compared(*documents: dict[str, object]) -> Comparison:
    found = manifests(*documents)
    runs = [simulate(scheduler(c), found.objects, 0.0, ("muster",)) for c in (PACKING, SPREADING)]
    return Comparison(("pack.yaml", "spread.yaml"), *runs)


def test_packing_and_spreading_differ_in_placements_and_fragmentation() -> None:
    answer = compared(node("n1", cpu=4), node("n2", cpu=4), pod("a"), pod("b"), pod("whole", cpu="4"))
    assert answer.first.pending == {}
    assert answer.second.pending.keys() == {"default/whole"}
    assert answer.placements["default/whole"] == ("n2", None)
    assert answer.pending["default/whole"][0] is None
    assert answer.fragmentation == {"cpu": (None, 1.0)}


def test_the_first_answer_keeps_its_keys_and_the_other_stands_beside_it() -> None:
    reported = compared(node("n1", cpu=4), node("n2", cpu=4), pod("a"), pod("b")).to_dict()
    assert {"binds", "pending", "evicts", "summary", "other", "differences"} <= reported.keys()
    other, differences = reported["other"], reported["differences"]
    assert isinstance(other, dict) and isinstance(differences, dict)
    assert other["binds"] != reported["binds"]
    assert differences["configurations"] == ["pack.yaml", "spread.yaml"]
    assert differences["queues"] == {"default": [{"cpu": "2", "pods": "2"}] * 2}


def test_equal_runs_do_not_differ() -> None:
    answer = compared(node("n1", cpu=4), pod("a"))
    assert answer.placements == {}
    assert answer.evicts == ([], [])
