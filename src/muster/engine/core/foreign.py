"""Checks the answers of other packages' filters, scores and node sets before they are used, and names the plugin.

Without this the fault would show far away, in arithmetic over all plugins' answers. Our own are not looked at: the
tests hold them to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from muster.engine.core.hooks import Floats, Index, NodeFilter, NodeScorer, NodeSet, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import NodeView

OURS = "muster."


class WrongAnswer(TypeError):
    """A plugin's answer is not of the kind that was asked for."""

    def __init__(self, plugin: str, message: str) -> None:
        super().__init__(message)
        self.plugin = plugin


def is_foreign(plugin: object) -> bool:
    return not type(plugin).__module__.startswith(OURS)


def usable_sets(plugin: str, answer: Iterable[NodeSet], within: NodeSet) -> tuple[list[NodeSet], Index]:
    """The answer of `node_sets` as a list (it may be a generator), each set inside the given one, in node order.

    Also returns the nodes that had to be left out, since they are not in the given set.
    """
    if not isinstance(answer, Iterable):
        raise WrongAnswer(plugin, f"node_sets gives {_shown(answer)} instead of a list of NodeSets")
    sets, left_out = [], [np.empty(0, np.int64)]
    for one in answer:
        if not isinstance(one, NodeSet):
            raise WrongAnswer(plugin, f"node_sets gives {_shown(one)} instead of a NodeSet")
        index = np.asarray(one.index)
        if index.ndim != 1 or (len(index) and index.dtype.kind not in "iu"):
            raise WrongAnswer(plugin, f"a NodeSet's index is {_shown(index)} instead of an array of node numbers")
        if one.score is not None and np.shape(one.score) != index.shape:
            raise WrongAnswer(plugin, f"a NodeSet has {len(index)} nodes and {np.size(one.score)} scores")
        kept, first = np.unique(index.astype(np.int64), return_index=True)
        inside = np.isin(kept, within.index)
        left_out.append(kept[~inside])
        score = None if one.score is None else np.asarray(one.score, np.float64)[first[inside]]
        sets.append(replace(one, index=kept[inside], score=score, freed=within.freed))
    return sets, np.unique(np.concatenate(left_out))


def watch(plugin: str, term: NodeFilter | NodeScorer) -> None:
    """Have every answer of a term looked at, if it is of another package."""
    if not is_foreign(term) or not hasattr(term, "__dict__") or "watched" in vars(term):
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
