"""Plugins of other packages: their errors and wrong answers name them, before anything is computed with an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from builders.manifests import node, queue, state_of
from builders.queued_jobs import job
from muster.actions import allocate
from muster.config.types import Arguments, Config, PluginOption, Tier
from muster.cycle.answer_checks import CHECKS
from muster.cycle.host import PluginError, WrongAnswer, hosted
from muster.cycle.registry import extension_points
from muster.engine.core.hooks import (
    JobOrder,
    NodeFilter,
    NodeScorer,
    Plugin,
    Preemptable,
    Reason,
    Scope,
    Verdict,
    VictimHints,
)
from muster.engine.core.jobs import Job, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.requirements import Requirement
from muster.engine.core.session import Session
from muster.engine.core.state import State
from muster.plugins.priority import Priority


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


def made(**answers: Any) -> Theirs:
    return hosted(Theirs, "theirs-package 1.0")(**answers)


def placed(plugin: Plugin) -> int:
    state = state_of(node("n1", cpu=10), node("n2", cpu=10), queue("q"), job("a", waiting=2))
    live = Session(state, Config(("allocate",), (Tier((plugin.option,)),), {}), [[plugin]], 0.0)
    allocate.run(live)
    return sum(len(move.tasks) for move in live.committed)


@pytest.mark.parametrize(
    ("score", "says"),
    [
        ([None], "raw returns None instead of an array of 2 numbers"),
        ([[1.0, 2.0]], "raw returns a list instead of an array of 2 numbers"),
        ([7.0], "raw returns 7.0 instead"),
        ([np.zeros(3)], r"raw returns an array of float64 of shape \(3,\) instead"),
        ([np.array(["a", "b"])], "raw returns an array of <U1"),
        ([np.array([1.0, np.nan])], "there is NaN among them"),
    ],
)
def test_a_score_that_is_none_is_the_plugins_fault(score: Any, says: str) -> None:
    with pytest.raises(WrongAnswer, match=says) as caught:
        placed(made(score=score))
    assert str(caught.value).startswith("plugin theirs of package theirs-package 1.0 fails: ")


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        (True, "filter returns True instead of a Verdict with 2 codes"),
        (Verdict(np.zeros(1, np.uint16)), "filter returns a Verdict instead of a Verdict with 2 codes"),
        (Verdict(np.ones(2, np.uint16)), "a reason for every code: it has 0 reasons"),
        (Verdict(np.array([0, 2], np.uint16), [Reason("no", "no")]), "a reason for every code: it has 1 reasons"),
    ],
)
def test_a_verdict_that_is_none_is_the_plugins_fault(verdict: Any, says: str) -> None:
    with pytest.raises(WrongAnswer, match=says) as caught:
        placed(made(verdict=verdict))
    assert str(caught.value).startswith("plugin theirs of package theirs-package 1.0 fails: ")


def test_right_answers_are_used_cycle_after_cycle() -> None:
    plugin = made()
    assert [placed(plugin), placed(plugin)] == [2, 2]


class Failing(Plugin, NodeFilter, JobOrder, Preemptable):
    name = "failing"

    def open(self, session: Session) -> None:
        raise ValueError("no such\n  file")

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        raise KeyError("rack")

    def job_key(self, job: Job) -> Any:
        return "first"

    def preemptable(self, claimer: Task, candidates: Sequence[Task]) -> Any:
        return [True]

    @classmethod
    def check(cls, arguments: Arguments) -> Any:
        raise ZeroDivisionError

    @classmethod
    def required_by(cls, state: State) -> Iterator[Requirement]:
        raise RuntimeError("late")
        yield


FAILING = hosted(Failing)(Arguments({}), PluginOption("failing"))


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda: FAILING.open(None), "open raises ValueError: no such file"),
        (lambda: FAILING.filter(None, None), "filter raises KeyError: 'rack'"),
        (lambda: FAILING.job_key(None), "job_key returns a str instead of a number"),
        (lambda: FAILING.preemptable(None, [None, None]), "a list instead of None, or a list of 2 answers"),
        (lambda: FAILING.check(Arguments({})), "check raises ZeroDivisionError: no message"),
        (lambda: FAILING.required_by(None), "required_by raises RuntimeError: late"),
        (lambda: hosted(Failing)(), "__init__ raises TypeError"),  # type: ignore[call-arg]
    ],
)
def test_an_error_names_the_plugin_its_package_and_the_method(ask: Callable[[], object], text: str) -> None:
    with pytest.raises(PluginError, match=text) as caught:
        ask()
    assert caught.value.plugin == "failing"
    assert str(caught.value).startswith(f"plugin failing of package {__name__.partition('.')[0]} fails: ")


def test_a_method_that_the_plugin_does_not_implement_stays_the_default() -> None:
    """The engine asks only the plugins that have a signature of their own."""
    assert type(FAILING).signature is Plugin.signature


class Term(NodeFilter):
    term = "odd"
    scope = Scope.STATIC

    def filter(self, task: Task, nodes: NodeView) -> Any:
        return None


class Parts(Plugin, NodeFilter):
    name = "parts"

    def filters(self) -> Sequence[NodeFilter]:
        return (Term(),)

    def filter(self, task: Task, nodes: NodeView) -> Verdict:
        raise NotImplementedError


def test_the_terms_of_a_plugin_are_checked_too() -> None:
    plugin = hosted(Parts)(Arguments({}), PluginOption("parts"))
    assert [(term.term, term.scope) for term in plugin.filters()] == [("odd", Scope.STATIC)]
    with pytest.raises(WrongAnswer, match=r"plugin parts of package .* filter returns None instead of a Verdict"):
        placed(plugin)


def test_built_in_plugins_are_used_as_they_are() -> None:
    assert hosted(Priority) is Priority
    assert hosted(hosted(Parts)) is not Parts and hosted(hosted(Parts)).__mro__[1] is Parts


def test_every_check_is_of_a_method_of_the_interface() -> None:
    points = [Plugin, *extension_points().values(), VictimHints]
    assert {name for name in CHECKS if name != "terms"} <= {name for point in points for name in vars(point)}
