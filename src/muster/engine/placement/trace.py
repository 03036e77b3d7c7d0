"""Why: every filter's verdict and every term's score for one task, from the same functions that decide.

Nothing here is computed for a placement. When a task finds no node its first causes are counted at that
moment, in kube-scheduler's format; `explain` returns all of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field

from muster.engine.core.hooks import Batch, Bools, Floats, Index, NodeNotes, Picture, Reason, Scope, Verdict
from muster.engine.core.jobs import Task
from muster.engine.core.nodes import MoveKind, NodeView
from muster.engine.placement.answers import Answers
from muster.engine.placement.node_sets import name_of
from muster.engine.placement.turns import Turn, TurnKind
from muster.model.quantity import display

if TYPE_CHECKING:
    from muster.engine.core.session import Session

SET_TERM = "node set"  # the term of the scores that hold inside a node set
REST_OF_GROUP = "node(s) could not hold the rest of the group"
FIT = "resources"  # under this name explain shows the engine's check of requests against what is free


def resource_verdicts(task: Task, view: NodeView) -> list[Verdict]:
    """The fit of requests, one verdict per requested resource, as kube-scheduler counts them."""
    axis = view.nodes.axis
    verdicts = []
    for row, amount in axis.needs(task.shape.amounts):
        name, free = axis.name(row), view.future_idle[row]
        text = "Too many pods" if name == "pods" else f"Insufficient {name}"
        code = np.where(free >= amount, 0, np.where(view.alloc[row] < amount, 2, 1)).astype(np.uint16)
        verdicts.append(Verdict(code, [Reason("insufficient", text), Reason("insufficient", text, resolvable=False)]))
    return verdicts


def verdicts(session: Session, task: Task, *, with_fit: bool = True) -> list[tuple[str, Verdict]]:
    """(plugin, verdict on all nodes): what never changes first, then the fit, then what depends on load."""
    view = session.state.nodes.everything()
    found: list[tuple[Scope, str, Verdict]] = []
    for plugin, term in session.placement.filters:
        if term.batch(task) != Batch.SKIP:
            found.append((term.scope, plugin, term.filter(task, view)))
    if with_fit:
        found += [(Scope.NODE, FIT, v) for v in resource_verdicts(task, view)]
    rank = {FIT: 0}
    found.sort(key=lambda f: (f[0], rank.get(f[1], 1)))
    return [(plugin, verdict) for _, plugin, verdict in found]


def fit_error(session: Session, task: Task, *, with_fit: bool = True, within: Index | None = None) -> str:
    """`0/N nodes are available: 80 Insufficient nvidia.com/gpu, 40 …`: each node's first cause, counted.

    Over all nodes, unless asked for a set of them. Causes that no eviction cures on any node come first.
    """
    if not session.explains:
        return ""
    every = len(session.state.nodes)
    if not every:
        return "0/0 nodes are available: no nodes in the cluster."
    total = every if within is None else len(within)
    counts: Counter[str] = Counter()
    temporary = {REST_OF_GROUP}  # texts of causes that may pass: on some node an eviction would help
    settled: Bools = np.full(every, within is not None)
    settled[within if within is not None else slice(0)] = False
    fit_seen: Bools = np.zeros(every, np.bool_)
    found = verdicts(session, task, with_fit=with_fit)
    if within is None:
        apart = [one for divider in session.dividers for one in divider.outside(task)]
        found = [*(("", Verdict.of(mask, Reason("outside", text, resolvable=False))) for mask, text in apart), *found]
    for plugin, verdict in found:
        if plugin == FIT:
            refused = (verdict.code > 0) & ~settled
            fit_seen |= refused
        else:
            refused = (verdict.code > 0) & ~settled & ~fit_seen
            settled |= refused
        for k, reason in enumerate(verdict.reasons if refused.any() else (), start=1):
            at = np.flatnonzero(refused & (verdict.code == k))
            fixed = {reason.text: len(at)} if isinstance(reason.text, str) else None
            texts = Counter(map(reason.message, at.tolist())) if fixed is None else fixed
            counts.update(texts)
            if reason.resolvable:
                temporary.update(text for text, n in texts.items() if n)
    # A job tried on sets of nodes, or a plugin's count: single nodes would do, but not for all of the group.
    counts[REST_OF_GROUP] += int((~settled & ~fit_seen).sum())
    message = sorted((text in temporary, text, n) for text, n in counts.items() if n)
    return f"0/{total} nodes are available: " + ", ".join(f"{n} {text}" for _, text, n in message) + "."


class NodeTrace(Struct):
    """One node's part of an explanation."""

    feasible: bool  # no filter refuses it, and its capacity suffices now or once terminating pods have ended
    candidate: bool = False  # one of the nodes between which the scores decide: in the node set, and fits now
    reasons: list[tuple[str, Reason, str]] = field(default_factory=list)  # plugin, reason, its text for this node
    scores: dict[str, float] = field(default_factory=dict)
    terms: dict[str, dict[str, float]] = field(default_factory=dict)
    total: float = 0.0
    notes: dict[str, str] = field(default_factory=dict)  # plugin → its description of the node
    pictures: list[Picture] = field(default_factory=list)


def explain(session: Session, task: Task, turn: Turn | None = None) -> dict[str, NodeTrace]:
    """Returns every plugin's answer for every node at this moment, infeasible nodes included.

    `turn`: the pod's turn, if this is its moment. Then the candidates are those of the decision.
    """
    nodes = session.state.nodes
    view = nodes.everything()
    refusals: list[list[tuple[str, Reason, str]]] = [[] for _ in nodes.names]
    for plugin, verdict in verdicts(session, task, with_fit=not task.best_effort):
        for node in np.flatnonzero(verdict.code):
            reason = verdict.reasons[int(verdict.code[node]) - 1]
            text = reason.message(int(node))
            if plugin == FIT:
                text += _numbers(task, view, text, int(node))
            refusals[node].append((plugin, reason, text))
    feasible = np.array([not r for r in refusals], np.bool_)
    candidates, scored = _scored(session, task, feasible, turn)
    columns: list[tuple[str, str, Floats]] = []
    for plugin, scorer in session.placement.scorers:
        if scorer.batch(task) == Batch.SKIP or not len(nodes):
            part = np.zeros(len(nodes))
        else:
            part = scorer.raw(task, view)
            if scorer.normalised and scored.any():
                part = scorer.normalise(task, part, scored)
        columns.append((plugin, scorer.term or plugin, part))
    if turn is not None and turn.within is not None and turn.within.score is not None:
        part = np.zeros(len(nodes))
        part[turn.within.index] = turn.within.score
        columns.append((_divider(session, task), SET_TERM, part))
    result = {}
    for i, name in enumerate(nodes.names):
        trace = NodeTrace(bool(feasible[i]), bool(candidates[i]), refusals[i])
        for plugin, term, part in columns:
            value = float(part[i])
            trace.scores[plugin] = trace.scores.get(plugin, 0.0) + value
            trace.terms.setdefault(plugin, {})[term] = value
            trace.total += value
        for describer in session.flat(NodeNotes):
            if message := describer.note(task, i):
                trace.notes[getattr(describer, "name", "")] = message
                if (picture := describer.picture(i)) is not None:
                    trace.pictures.append(picture)
        result[name] = trace
    return result


def _scored(session: Session, task: Task, feasible: Bools, turn: Turn | None) -> tuple[Bools, Bools]:
    """Returns the candidates, and the nodes over which terms are normalised.

    The candidates fit now, or else once capacity is released. If there are none, the terms are normalised over all
    nodes. A set of one node compares nothing, so that its terms are those of the candidates on all nodes.
    """
    within, kind = (None, None) if turn is None or turn.kind != TurnKind.CHOSEN else (turn.within, turn.move)
    if task.best_effort:
        now = Answers(session.placement, task, fit=False).key(MoveKind.ALLOCATE) > -np.inf
    else:
        now = session.placement.fits(task, kind or MoveKind.ALLOCATE)
    able = now if now.any() else feasible
    inside = able
    if within is not None:
        inside = np.zeros(len(feasible), np.bool_)
        inside[within.index] = able[within.index]
        if len(within.index) > 1:
            able = inside
    return inside, able if able.any() else np.ones(len(feasible), np.bool_)


def _divider(session: Session, task: Task) -> str:
    """Returns the plugin that gives the nodes of a set their scores: the last that divides the nodes for the job."""
    return next((name_of(p) for p in reversed(session.dividers) if task.job and p.divides(task.job)), "")


def _numbers(task: Task, view: NodeView, text: str, node: int) -> str:
    axis = view.nodes.axis
    name = "pods" if text == "Too many pods" else text.removeprefix("Insufficient ")
    row = axis.rows[name]
    need, free = task.shape.amounts.get(name, 0), int(view.future_idle[row, node])
    return f" (needs {display(name, need)}, {display(name, free)} free of {display(name, int(view.alloc[row, node]))})"
