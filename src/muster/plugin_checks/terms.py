"""Checks of filters and scores: each node is answered by itself, as the declared scope, batch and signature promise."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import numpy as np

from muster.cycle.host import PluginError
from muster.engine.core.hooks import Batch, NodeFilter, NodeScorer, Scope
from muster.engine.core.jobs import Status, Task
from muster.engine.core.nodes import MoveKind, NodeView
from muster.engine.core.session import Session
from muster.plugin_checks import CheckFailed, require
from muster.plugin_checks.choices import Choices

__all__ = ["check_copies", "check_scopes", "check_signatures", "check_single_columns", "check_skips", "check_slices"]

Term = NodeFilter | NodeScorer
KINDS = (MoveKind.ALLOCATE, MoveKind.PIPELINE)


def terms(session: Session, plugin: str = "") -> list[tuple[str, Term]]:
    """The filters and scores of a plugin (of all plugins), each with a name for messages."""
    both: list[tuple[str, Term]] = [*session.placement.filters, *session.placement.scorers]
    return [
        (f"{'filter' if isinstance(term, NodeFilter) else 'score'} {term.term}".strip() + f" of plugin {name}", term)
        for name, term in both
        if not plugin or name == plugin
    ]


def answer(term: Term, task: Task, view: NodeView) -> list[object]:
    """Per column the refusal's code (the reason's, not its number), or the score."""
    if isinstance(term, NodeFilter):
        verdict = term.filter(task, view)
        return [verdict.reasons[code - 1].code if code else "" for code in verdict.code.tolist()]
    raw: list[object] = term.raw(task, view).tolist()
    return raw


def _whole(session: Session, kind: MoveKind) -> NodeView:
    view = session.state.nodes.everything()
    view.kind = kind
    return view


def _some(session: Session, index: Iterable[int], kind: MoveKind) -> NodeView:
    view = session.state.nodes.some(np.array(list(index), np.int64))
    view.kind = kind
    return view


def _pending(session: Session) -> list[Task]:
    return [t for t in session.state.tasks.values() if t.status == Status.PENDING and t.job is not None]


def _asked(session: Session, plugin: str) -> list[tuple[str, Term, Task]]:
    return [
        (name, term, task)
        for task in _pending(session)
        for name, term in terms(session, plugin)
        if term.batch(task) != Batch.SKIP
    ]


def _place(session: Session, task: Task, node: int, kind: MoveKind) -> None:
    statement = session.statement()
    (statement.allocate if kind == MoveKind.ALLOCATE else statement.pipeline)([task], [node])
    statement.commit()


def _fitting(session: Session, task: Task, kind: MoveKind) -> list[int]:
    found: list[int] = np.flatnonzero(session.placement.fits(task, kind)).tolist()
    return found


def check_slices(session: Session, choices: Choices, plugin: str = "") -> None:
    """The answer for some nodes is that part of the answer for all nodes."""
    kind = choices.one_of(KINDS)
    last = len(session.state.nodes) - 1
    index = [choices.integer(0, last) for _ in range(choices.integer(1, 6))]
    for name, term, task in _asked(session, plugin):
        every = answer(term, task, _whole(session, kind))
        alone = answer(term, task, _some(session, index, kind))
        expected = [every[i] for i in index]
        require(
            alone == expected, "slice",
            f"the {name} answers {alone} for pod {task.key} when asked about the nodes {index} alone, but {expected} "
            "when asked about all nodes. Compute each column from that column of the view (nodes.index has "
            "its node), never from its position or from len(nodes)",
        )  # fmt: skip


def check_single_columns(session: Session, choices: Choices, plugin: str = "") -> None:
    """What a term computes for one column in plain Python is what it answers for many columns, bit by bit."""
    kind, nodes = choices.one_of(KINDS), session.state.nodes
    numbers = np.arange(1, nodes.rows.size + 1).reshape(nodes.rows.shape) * (2 * choices.integer(0, 1 << 40) + 1)
    for name, term, task in _asked(session, plugin):
        # Amounts around what the nodes offer, small ones, and nodes that are just full with the pod.
        rows = numbers % (3 + 5 * nodes.offered.max() // 4) - 2
        rows[:, ::2] = numbers[:, ::2] % 13
        full = nodes.offered - task.shape.request(nodes.axis)[:, None] + numbers[: len(nodes.offered)] % 2
        rows[2 * len(full) : 3 * len(full), ::3] = full[:, ::3]
        for view in (_whole(session, kind), NodeView(nodes, _whole(session, kind).index.copy(), rows, nodes.offered)):
            view.kind = kind
            single = _one_by_one(term, task, view)
            many: list[object] = answer(term, task, view)
            if isinstance(term, NodeFilter):
                many = [not refused for refused in many]
            require(
                single in (None, many), "single column",
                f"the {name} answers {many} for pod {task.key}, but {single} by its function for one node. Compute "
                "both by the same operations in the same order, or do not offer the function",
            )  # fmt: skip


def _one_by_one(term: Term, task: Task, view: NodeView) -> list[object] | None:
    ask = term.one_node_filter if isinstance(term, NodeFilter) else term.one_node_score
    of_node = ask(task, view.nodes)
    columns = zip(view.index.tolist(), view.rows.T.tolist(), view.offered.T.tolist(), strict=True)
    return None if of_node is None else [of_node(node, rows, alloc, view.kind) for node, rows, alloc in columns]


def check_scopes(session: Session, choices: Choices, plugin: str = "") -> None:
    """After some pods were placed, static terms answer as before, and node terms as before on all other nodes."""
    kind = choices.one_of(KINDS)
    before = {
        (name, task.key): answer(term, task, _whole(session, kind)) for name, term, task in _asked(session, plugin)
    }
    changed: set[int] = set()
    for task in _pending(session):
        how = choices.one_of(KINDS)
        nodes = _fitting(session, task, how)
        if nodes and choices.flip():
            node = choices.one_of(nodes)
            _place(session, task, node, how)
            changed.add(node)
    for name, term, task in _asked(session, plugin):
        if term.scope == Scope.CLUSTER or (name, task.key) not in before:
            continue
        was, now = before[name, task.key], answer(term, task, _whole(session, kind))
        for i, (old, new) in enumerate(zip(was, now, strict=True)):
            if old == new or (term.scope == Scope.NODE and i in changed):
                continue
            where = "on that node" if i in changed else "on other nodes"
            wider = "Scope.NODE" if i in changed else "Scope.CLUSTER"
            raise CheckFailed(
                "scope",
                f"the {name} declares Scope.{term.scope.name}, but its answer for pod {task.key} on node "
                f"{session.state.nodes.names[i]} changed from {old!r} to {new!r} when pods were placed {where}. "
                f"Declare scope = {wider}, or do not read what placements change",
            )


def check_copies(session: Session, choices: Choices, plugin: str = "") -> None:
    """COLUMNS: hypothetical columns give the answers that real placements would; ONCE: the next one is refused."""
    kind, copies = choices.one_of(KINDS), choices.integer(1, 3)
    tasks = _pending(session)
    if not tasks:
        return
    first = choices.one_of(tasks)
    equal = [t for t in tasks if session.signature(t) == session.signature(first)]
    fitting = _fitting(session, first, kind)
    if len(equal) <= copies or not fitting:
        return
    node, asker = choices.one_of(fitting), equal[-1]
    nodes = session.state.nodes
    thought = nodes.hypothetical(np.array([node]), asker.shape, kind, np.array([copies]))
    thought.kind = kind
    declared = [(name, term, term.batch(asker)) for name, term, task in _asked(session, plugin) if task is asker]
    expected = {
        name: answer(term, asker, thought if term.scope != Scope.CLUSTER else _whole(session, kind))
        for name, term, _ in declared
    }
    for task in equal[:copies]:
        if node not in _fitting(session, task, kind):
            break
        _place(session, task, node, kind)
    else:
        for name, term, batch in declared:
            if batch == Batch.COLUMNS:
                view = _some(session, [node], kind) if term.scope != Scope.CLUSTER else _whole(session, kind)
                real = answer(term, asker, view)
                require(
                    real == expected[name], "batch",
                    f"the {name} declares Batch.COLUMNS for pod {asker.key}, but with {copies} equal pods placed on "
                    f"node {nodes.names[node]} it answers {real}, and {expected[name]} when asked beforehand with the "
                    "view's columns. Return Batch.SINGLE from batch(), or compute from the view's columns",
                )  # fmt: skip
    placed = [t for t in equal[:copies] if t.status != Status.PENDING]
    for name, _, batch in declared:
        if placed and batch == Batch.ONCE:
            require(
                node not in _fitting(session, asker, kind), "batch",
                f"the {name} declares Batch.ONCE for pod {asker.key}, but a second such pod fits node "
                f"{nodes.names[node]}. Return Batch.COLUMNS or Batch.SINGLE from batch()",
            )  # fmt: skip


def check_signatures(session: Session, choices: Choices, plugin: str = "") -> None:
    """Pods of one signature get one answer, and pods with equal constraints get one answer from static terms."""
    view = _whole(session, choices.one_of(KINDS))
    asked = terms(session, plugin)
    static = [(name, term) for name, term in asked if term.scope == Scope.STATIC]
    _check_equal_answers(session, view, session.signature, asked, "signature")
    _check_equal_answers(session, view, session.placement.static_signature, static, "static signature")


def _check_equal_answers(
    session: Session, view: NodeView, sign: Callable[[Task], Hashable], asked: list[tuple[str, Term]], what: str
) -> None:
    first: dict[Hashable, Task] = {}
    for task in _pending(session):
        other = first.setdefault(sign(task), task)
        if other is task:
            continue
        for name, term in asked:
            batches = [term.batch(task), term.batch(other)]
            answers: list[object] = []
            if batches == [batches[0]] * 2:
                if batches[0] == Batch.SKIP:
                    continue
                answers = [answer(term, task, view), answer(term, other, view)]
                if answers[0] == answers[1]:
                    continue
            shown = answers or [batch.name for batch in batches]
            raise CheckFailed(
                "signature",
                f"the pods {task.key} and {other.key} have the same {what}, but the {name} answers {shown[0]} for "
                f"the one and {shown[1]} for the other. Pods of one signature share one answer, so one of them would "
                "be placed by the other's answer. Return from signature() everything that the filter or score reads "
                "of a pod besides its spec (labels, annotations, its job or queue). A term that declares "
                "constraints_only must not read requests either",
            )


def check_skips(session: Session, choices: Choices, plugin: str = "") -> None:
    """Checks that a filter that skips a pod refuses no node, and a score that skips it gives all nodes the same."""
    view = _whole(session, choices.one_of(KINDS))
    for task in _pending(session):
        for name, term in terms(session, plugin):
            if term.batch(task) != Batch.SKIP:
                continue
            try:
                given = set(answer(term, task, view))
            except (AssertionError, PluginError):
                continue  # the engine does not ask here, and a term may insist on that
            fine = given <= {""} if isinstance(term, NodeFilter) else len(given) <= 1 or _weightless(term)
            require(fine, "skip", f"the {name} returns Batch.SKIP for pod {task.key}, but it would answer {given}")


def _weightless(term: NodeScorer) -> bool:
    return getattr(term, "weight", getattr(term, "_weight", 1)) == 0
