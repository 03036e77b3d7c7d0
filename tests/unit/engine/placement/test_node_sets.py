"""The fold over plugins that divide nodes, by itself: plugins made here, no topology."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from builders.manifests import state_of
from builders.racks import gang, gpu_node, members
from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.host import hosted
from muster.engine.core.hooks import NodeSet, NodeSetError, NodeSets, Plugin
from muster.engine.core.jobs import Job, Task
from muster.engine.core.session import Message, Session
from muster.engine.placement.node_sets import FAILED, divide_nodes

Parts = list[list[int]]


class Divider(Plugin, NodeSets):
    """Answers by a function of the set's nodes; None: not relevant."""

    def __init__(self, name: str, divide: Callable[[list[int]], Parts | None]) -> None:
        super().__init__(Arguments({}), PluginOption(name, {}, Arguments({})))
        self.name = name  # type: ignore[misc]
        self.divide = divide
        self.asked: list[list[int]] = []

    def node_sets(self, job: Job, tasks: Sequence[Task], nodes: NodeSet) -> tuple[bool, list[NodeSet]]:
        self.asked.append(nodes.index.tolist())
        parts = self.divide(nodes.index.tolist())
        if parts is None:
            return False, []
        return True, [NodeSet(np.array(part, np.int64)) for part in parts]


def folded(*plugins: Divider, count: int = 7) -> tuple[list[list[int]] | None, list[str], Job]:
    """The sets, the log up to level 7, and the job."""
    lines: list[str] = []

    def log(level: int, message: Message) -> None:
        lines.append(f"V{level}: {message if isinstance(message, str) else message()}")

    state = state_of(*[gpu_node(f"Node{i + 1}") for i in range(count)], gang("job", 1), *members("job", 1))
    config = Config(("allocate",), (Tier(tuple(p.option for p in plugins)),))
    session = Session(state, config, [list(plugins)], 0.0, log)
    job = session.jobs["d/job"]
    sets = divide_nodes(session, job, list(job.tasks.values()))
    return None if sets is None else [s.index.tolist() for s in sets], lines, job


def halves(nodes: list[int]) -> Parts:
    middle = (len(nodes) + 1) // 2
    return [nodes[:middle], nodes[middle:]]


def test_without_a_divider_there_is_nothing_to_try() -> None:
    assert folded()[0] is None


def test_one_plugin_divides_all_nodes_in_its_own_order() -> None:
    plugin = Divider("P", lambda nodes: [[4, 5], [0], [1, 2, 3]])
    assert folded(plugin)[0] == [[4, 5], [0], [1, 2, 3]]
    assert plugin.asked == [[0, 1, 2, 3, 4, 5, 6]]


def test_the_second_plugin_divides_each_set_of_the_first_depth_first() -> None:
    first = Divider("P", lambda nodes: [[0, 1], [2, 3, 4], [5, 6]])
    second = Divider("R", halves)
    assert folded(first, second)[0] == [[0], [1], [2, 3], [4], [5], [6]]
    assert second.asked == [[0, 1], [2, 3, 4], [5, 6]]


def test_a_node_may_be_in_none_one_or_several_sets_and_a_set_may_be_empty() -> None:
    assert folded(Divider("P", lambda nodes: [[0, 1], [1, 2], []]))[0] == [[0, 1], [1, 2], []]


def test_a_plugin_that_is_not_relevant_leaves_the_sets_alone() -> None:
    silent = Divider("P", lambda nodes: None)
    assert folded(silent)[0] is None
    assert folded(silent, Divider("R", halves))[0] == [[0, 1, 2, 3], [4, 5, 6]]
    assert folded(Divider("R", halves), Divider("P", lambda nodes: None))[0] == [[0, 1, 2, 3], [4, 5, 6]]


def test_relevance_is_asked_set_by_set() -> None:
    second = Divider("R", lambda nodes: halves(nodes) if 0 in nodes else None)
    assert folded(Divider("P", halves), second)[0] == [[0, 1], [2, 3], [4, 5, 6]]


def test_an_empty_answer_removes_the_set() -> None:
    second = Divider("R", lambda nodes: [] if 0 in nodes else [nodes])
    assert folded(Divider("P", halves), second)[0] == [[4, 5, 6]]
    third = Divider("S", halves)
    assert folded(Divider("P", lambda nodes: []), third)[0] == []
    assert third.asked == []


def test_an_error_ends_the_fold_and_sets_the_job_aside_with_the_plugins_name_in_the_log() -> None:
    def broken(nodes: list[int]) -> Parts:
        raise NodeSetError("no map of the racks")

    after = Divider("R", halves)
    sets, lines, job = folded(Divider("P", broken), after)
    assert sets == [] and after.asked == []
    assert "V0: P failed to divide the nodes for d/job: no map of the racks" in lines
    assert job.attempt.refusal is not None and job.attempt.refusal.code == FAILED
    assert job.attempt.refusal.message() == "plugin P: no map of the racks"


def test_any_other_error_of_a_plugin_fails_only_the_job_and_its_text_stays_in_the_log() -> None:
    def broken(nodes: list[int]) -> Parts:
        raise KeyError("rack")

    sets, lines, job = folded(Divider("P", broken))
    assert sets == []
    assert "V0: P failed to divide the nodes for d/job: KeyError: 'rack'" in lines
    assert job.attempt.refusal is not None
    reported = job.attempt.refusal.message()
    assert reported.startswith("plugin P: ") and "rack" not in reported


class Raw(Divider):
    """Gives its answer as it is."""

    def __init__(self, answer: Any) -> None:
        super().__init__("P", lambda nodes: None)
        self.answer = answer

    def node_sets(self, job: Job, tasks: Sequence[Task], nodes: NodeSet) -> tuple[bool, list[NodeSet]]:
        return True, self.answer


def some(*nodes: int, score: list[float] | None = None) -> NodeSet:
    return NodeSet(np.array(nodes, np.int64), score=None if score is None else np.array(score))


def test_a_generator_works_like_a_list() -> None:
    """At every verbosity: the log's lines about the answer must not use it up."""
    sets, lines, _ = folded(hosted(Raw)(some(n, n + 1) for n in (0, 2)))
    assert sets == [[0, 1], [2, 3]]
    assert "V4: Result of P logic is 2 subsets" in lines


def test_nodes_outside_the_given_set_are_left_out_and_reported() -> None:
    first = Divider("first", lambda nodes: [[0, 1, 2]])
    sets, lines, _ = folded(first, hosted(Raw)([some(2, 5, 0, score=[3.0, 2.0, 1.0]), some(99)]))
    assert sets == [[0, 2], []]
    output = "plugin P returned nodes outside its node set for d/job: Node6, number 99; left out"
    assert f"V0: {output}" in lines


@pytest.mark.parametrize("answer", [None, 3, [None], [[0, 1]], [NodeSet(np.array(["a"]))]])  # type: ignore[arg-type]
def test_what_is_no_list_of_sets_is_reported_with_the_plugins_name(answer: Any) -> None:
    sets, lines, job = folded(hosted(Raw)(answer))
    assert sets == []
    assert any(line.startswith("V0: P failed to divide the nodes for d/job: ") for line in lines)
    assert job.attempt.refusal is not None and job.attempt.refusal.message().startswith("plugin P: ")


@pytest.mark.parametrize("name", ["topology", "mine"])
def test_the_log_is_the_designs(name: str) -> None:
    _, lines, _ = folded(Divider(name, lambda nodes: [[0, 1], [2, 5], [3, 4, 6]]))
    assert lines == [
        f"V4: Performing {name} logic",
        f"V4: Result of {name} logic is 3 subsets",
        f"V7: Result of {name} logic is [Node1, Node2], [Node3, Node6], [Node4, Node5, Node7]",
    ]
