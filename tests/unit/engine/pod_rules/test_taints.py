"""Taints and tolerations over all nodes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from builders.filter_clusters import by_node, task
from builders.manifests import node, pod, state_of, typed
from muster.engine.core.state import State
from muster.engine.pod_rules.taints import HARD, SOFT, TolerationResult, Tolerations
from muster.model.core import Pod
from muster.model.selectors import tolerates
from strategies.profiles import examples


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    return {"key": key, "value": value, "effect": effect}


NODES = (
    node("bare"),
    node("gpu", taints=[taint("gpu", "a100")]),
    node("old", taints=[taint("old", effect="PreferNoSchedule"), taint("slow", effect="PreferNoSchedule")]),
    node("leaving", taints=[taint("old", effect="PreferNoSchedule"), taint("leaving", "soon", "NoExecute")]),
    node("shut", unschedulable=True),
)


def toleration(world: State, rule: Tolerations | None = None) -> TolerationResult:
    return (rule or Tolerations()).of(task(world, "p").shape, world.nodes)


def against(*tolerations: dict[str, Any]) -> tuple[State, TolerationResult]:
    world = state_of(*NODES, pod("p", tolerations=list(tolerations)))
    return world, toleration(world)


def keys(found: TolerationResult) -> list[str]:
    texts = [str(found.reasons[k - 1].message()) if k else "" for k in found.refused]
    return [text.partition("{")[2].partition(":")[0] for text in texts]


def test_a_pod_without_tolerations_is_kept_off_by_hard_taints_only() -> None:
    world, found = against()
    assert by_node(world, keys(found)) == {"bare": "", "gpu": "gpu", "leaving": "leaving", "old": "", "shut": ""}


def test_soft_taints_are_counted() -> None:
    world, found = against()
    assert by_node(world, found.disliked) == {"bare": 0, "gpu": 0, "leaving": 1, "old": 2, "shut": 0}
    world, found = against({"key": "old", "operator": "Exists"})
    assert by_node(world, found.disliked) == {"bare": 0, "gpu": 0, "leaving": 0, "old": 1, "shut": 0}


def test_tolerations_match_by_value_by_key_and_by_effect() -> None:
    assert keys(against({"key": "gpu", "value": "a100"})[1]) == ["", "", "leaving", "", ""]
    assert keys(against({"key": "gpu", "value": "h100"})[1]) == ["", "gpu", "leaving", "", ""]
    assert keys(against({"operator": "Exists", "effect": "NoExecute"})[1]) == ["", "gpu", "", "", ""]
    assert keys(against({"operator": "Exists"})[1]) == [""] * 5


def test_the_first_untolerated_taint_of_the_node_is_named() -> None:
    world = state_of(
        node("n", taints=[taint("one"), taint("two"), taint("three")]), pod("p", tolerations=[{"key": "one"}])
    )
    assert keys(toleration(world)) == ["two"]


def test_a_cordoned_node_takes_pods_that_tolerate_the_cordon() -> None:
    world, found = against()
    assert by_node(world, found.cordoned)["shut"]
    _, found = against({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"})
    assert not found.cordoned.any()


def test_an_unknown_operator_tolerates_nothing() -> None:
    assert keys(against({"key": "gpu", "operator": "About"})[1])[1] == "gpu"


def test_answers_follow_a_changed_taint() -> None:
    world = state_of(*NODES, pod("p"))
    rule = Tolerations()
    assert keys(toleration(world, rule))[0] == ""
    world.upsert("Node", "bare", typed(node("bare", taints=[taint("new")])))
    assert keys(toleration(world, rule)) == ["new", "gpu", "leaving", "", ""]


KEYS, VALUES = st.sampled_from(["", "a", "b", "c"]), st.sampled_from(["", "1", "2"])
EFFECTS = st.sampled_from([*HARD, SOFT])
TAINTS = st.lists(st.builds(taint, KEYS.filter(bool), VALUES, EFFECTS), max_size=3)
TOLERATIONS = st.lists(
    st.fixed_dictionaries({
        "key": KEYS, "value": VALUES, "operator": st.sampled_from(["", "Equal", "Exists", "Lt", "Gt"]),
        "effect": st.sampled_from(["", *HARD, SOFT]),
    }),
    max_size=3,
)  # fmt: skip


@given(st.lists(TAINTS, min_size=1, max_size=5), TAINTS, TOLERATIONS)
@examples(200)
def test_taints_by_number_are_taints_one_by_one(lists: list[Any], later: Any, tolerations: list[Any]) -> None:
    world = state_of(*(node(f"n{i}", taints=some) for i, some in enumerate(lists)), pod("p", tolerations=tolerations))
    rule = Tolerations()
    toleration(world, rule)
    world.upsert("Node", "n0", typed(node("n0", taints=later)))
    found = toleration(world, rule)
    asked = world.tasks["default/p"].pod
    assert isinstance(asked, Pod)
    for i, each in enumerate(world.nodes.objects):
        against = [t for t in each.spec.taints if not any(tolerates(one, t) for one in asked.spec.tolerations)]
        hard = [f"{{{t.key}: {t.value}}}" for t in against if t.effect in HARD]
        code = int(found.refused[i])
        assert (str(found.reasons[code - 1].message()) if code else "").endswith(hard[0] if hard else "")
        assert bool(code) == bool(hard)
        assert found.disliked[i] == sum(t.effect == SOFT for t in against)
