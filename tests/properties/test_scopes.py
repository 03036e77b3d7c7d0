"""Every filter and every score is what it declares: element-wise, as wide as its scope, as batchable as it says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from muster.cycle.scheduler import Scheduler
from muster.engine.core.hooks import Batch, NodeFilter, NodeScorer, Scope
from muster.engine.core.jobs import Status, Task
from muster.engine.core.nodes import MoveKind, NodeView
from muster.engine.core.session import Session
from strategies.any_cluster import NOW, clusters
from strategies.any_configuration import configurations
from strategies.profiles import examples

Term = NodeFilter | NodeScorer
NODE_TERMS = (
    "predicates", "nodeorder", "binpack", "nodegroup", "topology910", "resource-strategy-fit", "propagation",
)  # fmt: skip


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    config = draw(configurations(plugins=NODE_TERMS, actions=(("allocate",),)))
    return Scheduler(config).session(draw(clusters()).state(), NOW)


def terms(session: Session) -> list[tuple[str, Term]]:
    placement = session.placement
    both: list[tuple[str, Term]] = [*placement.filters, *placement.scorers]
    return [(f"{plugin} {type(term).__name__} {term.term}", term) for plugin, term in both]


def answer(term: Term, task: Task, view: NodeView) -> list[object]:
    """Per column the refusal's code (the reason, not its number), or the score."""
    if isinstance(term, NodeFilter):
        verdict = term.filter(task, view)
        return [verdict.reasons[code - 1].code if code else "" for code in verdict.code.tolist()]
    raw: list[object] = term.raw(task, view).tolist()
    return raw


def whole(session: Session, kind: MoveKind) -> NodeView:
    view = session.state.nodes.everything()
    view.kind = kind
    return view


def waiting(session: Session) -> list[Task]:
    return [t for t in session.state.tasks.values() if t.status == Status.PENDING and t.job is not None]


def asked(session: Session) -> list[tuple[str, Term, Task]]:
    return [
        (name, term, task)
        for task in waiting(session)
        for name, term in terms(session)
        if term.batch(task) != Batch.SKIP
    ]


def place(session: Session, task: Task, node: int, kind: MoveKind) -> None:
    """Where it fits or not: a term's honesty is not a matter of room. Chips and volumes only where they are."""
    statement = session.statement()
    (statement.allocate if kind == MoveKind.ALLOCATE else statement.pipeline)([task], [node])
    statement.commit()


def fitting(session: Session, task: Task, kind: MoveKind) -> list[int]:
    found: list[int] = np.flatnonzero(session.placement.fits(task, kind)).tolist()
    return found


kinds = st.sampled_from([MoveKind.ALLOCATE, MoveKind.PIPELINE])


@given(sessions(), st.data(), kinds)
@examples(80)
def test_an_answer_on_a_slice_is_the_answer_on_the_whole(session: Session, data: st.DataObject, kind: MoveKind) -> None:
    nodes = session.state.nodes
    index: NDArray[np.int64] = np.array(
        data.draw(st.lists(st.integers(0, len(nodes) - 1), min_size=1, max_size=6)), np.int64
    )
    part = nodes.some(index)
    part.kind = kind
    for name, term, task in asked(session):
        every = answer(term, task, whole(session, kind))
        assert answer(term, task, part) == [every[i] for i in index], name


@given(sessions(), st.data(), kinds)
@examples(120)
def test_answers_change_no_further_than_their_scope_reaches(
    session: Session, data: st.DataObject, kind: MoveKind
) -> None:
    """After some pods were placed: static terms answer as before, node terms as before on all other nodes."""
    before = {(name, task.key): answer(term, task, whole(session, kind)) for name, term, task in asked(session)}
    changed: set[int] = set()
    for task in waiting(session):
        how = data.draw(kinds)
        rooms = fitting(session, task, how)
        if rooms and data.draw(st.booleans()):
            node = data.draw(st.sampled_from(rooms))
            place(session, task, node, how)
            changed.add(node)
    for name, term, task in asked(session):
        if term.scope == Scope.CLUSTER or (name, task.key) not in before:
            continue
        after = answer(term, task, whole(session, kind))
        kept = [i for i in range(len(after)) if term.scope == Scope.STATIC or i not in changed]
        assert [after[i] for i in kept] == [before[name, task.key][i] for i in kept], name


@given(sessions(), st.data(), kinds, st.integers(1, 3))
@examples(150)
def test_copies_that_are_thought_of_are_copies_that_are_there(
    session: Session, data: st.DataObject, kind: MoveKind, copies: int
) -> None:
    """COLUMNS: hypothetical columns tell what real placements would; ONCE: the next one is refused there."""
    tasks = waiting(session)
    if not tasks:
        return
    first = data.draw(st.sampled_from(tasks))
    equal = [t for t in tasks if session.signature(t) == session.signature(first)]
    rooms = fitting(session, first, kind)
    if len(equal) <= copies or not rooms:
        return
    node, asker = data.draw(st.sampled_from(rooms)), equal[-1]
    nodes = session.state.nodes
    thought = nodes.hypothetical(np.array([node]), asker.shape, kind, np.array([copies]))
    thought.kind = kind
    declared = [(name, term, term.batch(asker)) for name, term, task in asked(session) if task is asker]
    expected = {
        name: answer(term, asker, thought if term.scope != Scope.CLUSTER else whole(session, kind))
        for name, term, _ in declared
    }
    for task in equal[:copies]:
        if node not in fitting(session, task, kind):
            break
        place(session, task, node, kind)
    else:
        here = nodes.some(np.array([node]))
        here.kind = kind
        for name, term, batch in declared:
            if batch == Batch.COLUMNS:
                real = answer(term, asker, here if term.scope != Scope.CLUSTER else whole(session, kind))
                assert real == expected[name], name
    placed = [t for t in equal[:copies] if t.status != Status.PENDING]
    if placed and any(batch == Batch.ONCE for _, _, batch in declared):
        assert node not in fitting(session, asker, kind)


@given(sessions(), kinds)
@examples(80)
def test_pods_of_one_signature_get_one_answer(session: Session, kind: MoveKind) -> None:
    first: dict[int, Task] = {}
    view = whole(session, kind)
    for task in waiting(session):
        other = first.setdefault(session.signature(task), task)
        if other is task:
            continue
        for name, term in terms(session):
            assert term.batch(task) == term.batch(other), name
            if term.batch(task) != Batch.SKIP:
                assert answer(term, task, view) == answer(term, other, view), name


@given(sessions())
@examples(50)
def test_a_term_that_skips_a_pod_has_nothing_to_say_of_it(session: Session) -> None:
    """A filter that skips refuses nothing, a score that skips tells no two nodes apart."""
    for task in waiting(session):
        for name, term in terms(session):
            if term.batch(task) != Batch.SKIP or "topology910" in name:  # its terms must not be asked without chips
                continue
            said = set(answer(term, task, whole(session, MoveKind.ALLOCATE)))
            assert said <= {""} if isinstance(term, NodeFilter) else len(said) <= 1 or _weightless(term), name


def _weightless(term: NodeScorer) -> bool:
    return getattr(term, "weight", getattr(term, "_weight", 1)) == 0
