"""Looks at the answers of other packages' filters and scores before they are used, so that a wrong one has a name.

Without this the fault would show far away, in arithmetic over all plugins' answers. Our own are not looked at: the
tests hold them to it.
"""

from __future__ import annotations

import numpy as np

from muster.engine.hooks import Floats, NodeFilter, NodeScorer, Verdict
from muster.engine.jobs import Task
from muster.engine.nodes import NodeView

OURS = "muster."


class WrongAnswer(TypeError):
    """A plugin's answer is not of the kind that was asked for."""

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(message)
        self.plugin = plugin


def watch(plugin: str, term: NodeFilter | NodeScorer) -> None:
    """Have every answer of a term looked at, if it is of another package."""
    if type(term).__module__.startswith(OURS) or not hasattr(term, "__dict__") or "watched" in vars(term):
        return
    vars(term)["watched"] = True
    if isinstance(term, NodeScorer):
        _watch_scorer(plugin, term)
    if isinstance(term, NodeFilter):
        _watch_filter(plugin, term)


def _watch_scorer(plugin: str, term: NodeScorer) -> None:
    ask = term.raw

    def raw(task: Task, nodes: NodeView) -> Floats:
        answer = ask(task, nodes)
        if not _numbers(answer, len(nodes), "fiub"):
            raise WrongAnswer(plugin, f"raw gives {_shown(answer)} instead of an array of {len(nodes)} numbers")
        if np.isnan(answer).any():
            raise WrongAnswer(plugin, "raw gives NaN, which is neither more nor less than any score")
        return answer

    vars(term)["raw"] = raw


def _watch_filter(plugin: str, term: NodeFilter) -> None:
    ask = term.filter

    def filter(task: Task, nodes: NodeView) -> Verdict:
        answer = ask(task, nodes)
        if not isinstance(answer, Verdict) or not _numbers(answer.code, len(nodes), "iu"):
            raise WrongAnswer(plugin, f"filter gives {_shown(answer)} instead of a Verdict with {len(nodes)} codes")
        if len(answer.code) and not 0 <= answer.code.min() <= answer.code.max() <= len(answer.reasons):
            raise WrongAnswer(plugin, f"filter gives a code without a reason: it has {len(answer.reasons)} reasons")
        return answer

    vars(term)["filter"] = filter


def _numbers(answer: object, count: int, kinds: str) -> bool:
    return isinstance(answer, np.ndarray) and answer.shape == (count,) and answer.dtype.kind in kinds


def _shown(answer: object) -> str:
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype} of shape {answer.shape}"
    return f"a {type(answer).__name__}" if answer is not None else "None"
