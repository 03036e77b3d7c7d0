"""Answers of other packages' plugins: a wrong one is said with the plugin's name, before anything is made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builders.queued_jobs import job, node, queue, world
from muster.actions import allocate
from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.blame import blamed
from muster.engine.core.foreign import WrongAnswer
from muster.engine.core.hooks import NodeFilter, NodeScorer, Plugin, Reason, Scope, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.session import Session


class Theirs(Plugin, NodeFilter, NodeScorer):
    """Of another package, as this file is not in muster."""

    name = "theirs"
    scope = Scope.NODE

    def __init__(self, score: Any = None, verdict: Any = None) -> None:
        super().__init__(Arguments({}), PluginOption("theirs", {}, Arguments({})))
        self.score, self.verdict = score, verdict

    def raw(self, task: Task, nodes: NodeView) -> Any:
        return np.zeros(len(nodes)) if self.score is None else self.score[0]

    def filter(self, task: Task, nodes: NodeView) -> Any:
        return Verdict(np.zeros(len(nodes), np.uint16)) if self.verdict is None else self.verdict


def placed(plugin: Plugin) -> int:
    state = world(node("n1"), node("n2"), queue("q"), job("a", waiting=2))
    live = Session(state, Config(("allocate",), (Tier((plugin.option,)),), {}), [[plugin]], 0.0)
    allocate.run(live)
    return sum(len(move.tasks) for move in live.committed)


@pytest.mark.parametrize(
    ("score", "says"),
    [
        ([None], "raw gives None instead of an array of 2 numbers"),
        ([[1.0, 2.0]], "raw gives a list instead of an array of 2 numbers"),
        ([7.0], "raw gives a float instead"),
        ([np.zeros(3)], r"raw gives an array of float64 of shape \(3,\) instead"),
        ([np.array(["a", "b"])], "raw gives an array of <U1"),
        ([np.array([1.0, np.nan])], "raw gives NaN"),
    ],
)
def test_a_score_that_is_none_is_the_plugins_fault(score: Any, says: str) -> None:
    with pytest.raises(WrongAnswer, match=says) as caught:
        placed(Theirs(score=score))
    assert blamed(caught.value) == "theirs"


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        (True, "filter gives a bool instead of a Verdict with 2 codes"),
        (Verdict(np.zeros(1, np.uint16)), "filter gives a Verdict instead of a Verdict with 2 codes"),
        (Verdict(np.ones(2, np.uint16)), "a code without a reason: it has 0 reasons"),
        (Verdict(np.array([0, 2], np.uint16), [Reason("no", "no")]), "a code without a reason: it has 1 reasons"),
    ],
)
def test_a_verdict_that_is_none_is_the_plugins_fault(verdict: Any, says: str) -> None:
    with pytest.raises(WrongAnswer, match=says) as caught:
        placed(Theirs(verdict=verdict))
    assert blamed(caught.value) == "theirs"


def test_right_answers_are_used_cycle_after_cycle() -> None:
    plugin = Theirs()
    assert [placed(plugin), placed(plugin)] == [2, 2]
