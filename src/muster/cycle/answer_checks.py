"""Checks the answers of third-party plugins: one check per method of the plugin interface.

A check gets the answer and the arguments of the call, and returns the answer as the engine uses it. It raises `Wrong`
if the answer is invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from muster.engine.core.hooks import Batch, Effect, Floats, Index, NodeSet, Reason, Verdict, Vote
from muster.engine.core.jobs import Queue, Task
from muster.engine.core.nodes import NodeView

__all__ = ["CHECKS", "Check", "Wrong", "sets_inside"]

Check = Callable[..., Any]


class Wrong(Exception):
    """Raised for an invalid answer; the message has the answer and what it should be."""

    def __init__(self, answer: object, wanted: str) -> None:
        super().__init__(f"{_shown(answer)} instead of {wanted}")


def _shown(answer: object) -> str:
    if answer is None or isinstance(answer, bool | int | float | np.integer | np.floating):
        return str(answer)
    if isinstance(answer, np.ndarray):
        return f"an array of {answer.dtype} of shape {answer.shape}"
    return f"a {type(answer).__name__}"


# --- nodes


def _verdict(answer: object, task: Task, nodes: NodeView) -> Verdict:
    if not isinstance(answer, Verdict) or not _is_column(answer.code, len(nodes), "iu"):
        raise Wrong(answer, f"a Verdict with {len(nodes)} codes")
    if len(answer.code) and not 0 <= answer.code.min() <= answer.code.max() <= len(answer.reasons):
        raise Wrong(answer, f"a Verdict with a reason for every code: it has {len(answer.reasons)} reasons")
    return answer


def _raw(answer: object, task: Task, nodes: NodeView) -> Floats:
    return _scores(answer, len(nodes))


def _normalised(answer: object, task: Task, raw: Floats, candidates: object) -> Floats:
    return _scores(answer, len(raw))


def _scores(answer: object, count: int) -> Floats:
    if not _is_column(answer, count, "fiub"):
        raise Wrong(answer, f"an array of {count} numbers")
    assert isinstance(answer, np.ndarray)
    if np.isnan(answer).any():
        raise Wrong(answer, "scores: there is NaN among them, which has no place in an order")
    scores: Floats = answer
    return scores


def _is_column(answer: object, count: int, kinds: str) -> bool:
    return isinstance(answer, np.ndarray) and answer.shape == (count,) and answer.dtype.kind in kinds


def _batch(answer: object, task: Task) -> Batch:
    if isinstance(answer, bool) or not isinstance(answer, int) or answer not in list(Batch):
        raise Wrong(answer, "a Batch")
    return Batch(answer)


def _sets(answer: object, *asked: object) -> tuple[bool, Any]:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise Wrong(answer, "a pair: is the rule relevant to the job, and the NodeSets to try")
    relevant, sets = answer
    if not relevant:
        return False, sets
    if not isinstance(sets, Iterable):
        raise Wrong(sets, "a list of NodeSets")
    found = list(sets)  # it may be a generator
    for one in found:
        if not isinstance(one, NodeSet):
            raise Wrong(one, "a NodeSet")
        index = np.asarray(one.index)
        if index.ndim != 1 or (len(index) and index.dtype.kind not in "iu"):
            raise Wrong(index, "a NodeSet whose index is an array of node numbers")
        if one.score is not None and np.shape(one.score) != index.shape:
            raise Wrong(one, f"a NodeSet with as many scores ({np.size(one.score)}) as nodes ({len(index)})")
    return bool(relevant), found


def sets_inside(sets: Iterable[NodeSet], within: NodeSet) -> tuple[list[NodeSet], Index]:
    """Returns each set without the nodes that are not in `within`, in node order; and these nodes."""
    found, left_out = [], [np.empty(0, np.int64)]
    for one in sets:
        kept, first = np.unique(np.asarray(one.index).astype(np.int64), return_index=True)
        inside = np.isin(kept, within.index)
        left_out.append(kept[~inside])
        score = None if one.score is None else np.asarray(one.score, np.float64)[first[inside]]
        found.append(replace(one, index=kept[inside], score=score, freed=within.freed))
    return found, np.unique(np.concatenate(left_out))


def _effects(answer: object, *asked: object) -> list[Effect]:
    if not isinstance(answer, list | tuple) or not all(isinstance(one, Effect) for one in answer):
        raise Wrong(answer, "a list of Effects")
    return list(answer)


# --- jobs, queues and victims


def _number(answer: object, *asked: object) -> float:
    if not isinstance(answer, bool | int | float | np.integer | np.floating) or answer != answer:
        raise Wrong(answer, "a number")
    return answer  # type: ignore[return-value]


def _whole(answer: object, *asked: object) -> int:
    if isinstance(answer, bool) or not isinstance(answer, int | np.integer) or answer < 0:
        raise Wrong(answer, "a whole number that is not negative")
    return int(answer)


def _admits(answer: object, queue: Queue, task: Task, count: int) -> int:
    if isinstance(answer, bool) or not isinstance(answer, int | np.integer):
        raise Wrong(answer, f"a whole number from 0 to {count}")
    return int(answer)


def _yes_or_no(answer: object, *asked: object) -> bool:
    if not isinstance(answer, bool | np.bool_):
        raise Wrong(answer, "True or False")
    return bool(answer)


def _vote(answer: object, *asked: object) -> Vote:
    if isinstance(answer, bool) or not isinstance(answer, int) or answer not in list(Vote):
        raise Wrong(answer, "a Vote")
    return Vote(answer)


def _reason(answer: object, *asked: object) -> Reason:
    if not isinstance(answer, Reason):
        raise Wrong(answer, "a Reason")
    return answer


def _objection(answer: object, *asked: object) -> Reason | None:
    if answer is not None and not isinstance(answer, Reason):
        raise Wrong(answer, "a Reason, or None")
    return answer


def _victims(answer: object, claimer: Task, candidates: Sequence[Task]) -> list[bool] | None:
    if answer is None:
        return None
    if not isinstance(answer, list | tuple | np.ndarray) or len(answer) != len(candidates):
        raise Wrong(answer, f"None, or a list of {len(candidates)} answers, one per candidate")
    return [bool(one) for one in answer]


def _signature(answer: object, task: Task) -> object:
    try:
        hash(answer)
    except TypeError:
        raise Wrong(answer, "something that can be hashed: a string, a number or a tuple of them") from None
    return answer


def _listed(answer: object, *asked: object) -> list[Any]:
    if not isinstance(answer, Iterable):
        raise Wrong(answer, "a list")
    return list(answer)


CHECKS: dict[str, Check] = {
    "filter": _verdict, "raw": _raw, "normalise": _normalised, "batch": _batch, "flat": _yes_or_no,
    "node_sets": _sets, "group_sets": _sets, "divides": _yes_or_no, "effects": _effects, "concerns": _yes_or_no,
    "wants": _yes_or_no, "signature": _signature, "cluster_signature": _signature, "terms": _listed,
    "valid": _objection, "enqueueable": _vote, "refusal": _reason, "yields": _yes_or_no, "missing": _whole,
    "pipelined": _vote, "starving": _yes_or_no, "job_key": _number, "task_key": _number,
    "queue_cmp": _number, "victim_queue_cmp": _number, "admits": _admits, "quota_refusal": _reason,
    "closed": _objection, "overused": _objection, "preemptive": _yes_or_no, "deserves": _yes_or_no,
    "protects": _objection, "protects_always": _yes_or_no, "protects_queue": _yes_or_no, "inactive": _yes_or_no,
    "never_victim": _yes_or_no, "preemptable": _victims, "reclaimable": _victims,
    "check": _listed, "examine": _listed, "required_by": _listed,
}  # fmt: skip
