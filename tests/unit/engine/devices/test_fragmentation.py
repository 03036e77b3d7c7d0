"""Fragments by the study's rule, read plainly, and the typical pods of a workload."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.engine.devices.fragmentation import FragmentTable, TypicalPod, typical_pods
from strategies.profiles import examples

MODELS = ("", "T4", "A100")
STEPS = st.sampled_from([100, 250, 460, 500, 810, 1000])
pods = st.builds(
    TypicalPod,
    st.sampled_from([0, 500, 2000, 4000]),
    st.integers(0, 3),
    STEPS,
    st.sampled_from([(), ("T4",), ("A100", "T4"), ("P100",)]),
    st.integers(1, 9),
)
nodes = st.tuples(
    st.lists(st.one_of(st.integers(0, 1000), st.just(1000)), min_size=4, max_size=4),
    st.integers(0, 5000),
    st.integers(0, len(MODELS) - 1),
)


def plain_fragment(free: list[int], cpu: int, model: int, typical: list[TypicalPod]) -> int:
    """The rule in words, times the total weight."""
    total = 0
    for pod in typical:
        fitting = [parts for parts in free if parts >= pod.milli]
        allowed = not pod.models or MODELS[model] in pod.models
        usable = pod.gpus > 0 and allowed and cpu >= pod.cpu and len(fitting) >= pod.gpus
        total += pod.weight * (sum(free) - sum(fitting) if usable else sum(free))
    return total


@examples(300)
@given(st.lists(pods, max_size=8), st.lists(nodes, min_size=1, max_size=5), st.integers(1, 1000))
def test_fragments_are_those_of_the_plain_rule(
    typical: list[TypicalPod], cluster: list[tuple[list[int], int, int]], taken: int
) -> None:
    table = FragmentTable(typical, MODELS)
    free, cpu, model = (np.array(column, np.int64) for column in zip(*cluster, strict=True))
    expected = [plain_fragment(*node, typical) for node in cluster]
    assert table.fragments(free, cpu, model).tolist() == expected
    after = table.with_one_more(free, cpu, model, np.full(len(cluster), taken))
    for at, (parts, milli, code) in enumerate(cluster):
        for gpu, has in enumerate(parts):
            if has >= taken:
                left = [*parts[:gpu], has - taken, *parts[gpu + 1 :]]
                assert after[at, gpu] == plain_fragment(left, milli, code, typical)


def test_the_fragmentation_of_a_cluster_is_in_gpus() -> None:
    table = FragmentTable([TypicalPod(1000, 1, 1000)], MODELS)
    free = np.array([[500, 1000], [300, -200]])
    found = table.of_cluster(free, np.array([4000, 4000]), np.zeros(2, np.int64), 4)
    assert found.to_dict() == {"amount": 0.8, "ratio": round(0.8 / 1.8, 6), "idle": 1.8, "total": 4.0}


def test_without_typical_pods_nothing_is_a_fragment() -> None:
    found = FragmentTable((), MODELS).of_cluster(np.array([[500]]), np.array([1]), np.zeros(1, np.int64), 1)
    assert (found.amount, found.idle, found.ratio) == (0.0, 0.5, 0.0)


def test_typical_pods_are_the_most_frequent_until_95_percent() -> None:
    demands = [(1000, 1, 500, ())] * 60 + [(2000, 1, 1000, ())] * 30 + [(0, 0, 0, ())] * 6 + [(9000, 8, 1000, ())] * 4
    assert [(pod.cpu, pod.weight) for pod in typical_pods(demands)] == [(1000, 60), (2000, 30), (0, 6)]
    assert typical_pods(reversed(demands)) == typical_pods(demands)
    assert typical_pods([]) == ()
