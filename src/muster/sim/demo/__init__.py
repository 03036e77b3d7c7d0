"""`muster demo`: the examples of the designs, played on the embedded cluster by the real scheduler and controllers.

A chapter is a function that plays one design: it applies manifests (in `manifests/`, one folder for each chapter) to a
cluster, runs until nothing changes, and compares the outcome with the design. Only the questions and the answers of the
design are written beforehand; if an outcome differs from its answer, the demo fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from muster.model.markup import escape
from muster.sim.demo.chapter import Chapter, Check, Step, in_words
from muster.sim.demo.group_management import group_management
from muster.sim.demo.plugin_chapters import nodegroup, nodesets, resource_strategy_fit, topology910
from muster.sim.report.elements import table
from muster.sim.report.frame import Section, document
from muster.sim.report.summary import warning_list

CHAPTERS: tuple[Callable[[], Chapter], ...] = (
    nodegroup,
    resource_strategy_fit,
    nodesets,
    topology910,
    group_management,
)


def chapters() -> Iterator[Chapter]:
    """Yields the chapters in order; each is played when it is yielded."""
    return (chapter() for chapter in CHAPTERS)


TITLE = "muster demo: five examples, step by step"


def page(chapters: Iterable[Chapter], origin: Sequence[tuple[str, str]] = ()) -> str:
    """Returns the page. `origin`: rows that say how it was made."""
    lead = (
        '<p class="lead">Every answer on this page was given by the scheduler and the controllers, on an embedded '
        "cluster, from the manifests named with it.</p>"
    )
    return document(TITLE, [_chapter(chapter) for chapter in chapters], verb="demo", lead=lead, origin=origin)


def _state(chapter: Chapter) -> str:
    checks = [check for step in chapter.steps for check in step.checks]
    return f"{sum(check.holds for check in checks)} of {len(checks)} checks hold"


def _chapter(chapter: Chapter) -> Section:
    steps = "\n".join(_step(i, step) for i, step in enumerate(chapter.steps, start=1))
    about = f'<p class="lead">{escape(chapter.about)}</p>\n'
    return Section(chapter.name, chapter.title, about + steps, _state(chapter))


def _step(number: int, step: Step) -> str:
    grids = "".join(table(g.head, g.rows, g.title) for g in step.grids)
    waits = table(("waits", "why"), sorted(step.waiting.items()), "Waiting pods") if step.waiting else ""
    messages = warning_list(step.messages)
    evicted = ""
    if step.result is not None and step.result.evictions:
        rows = [(e.pod, e.node, e.by or e.rule) for e in step.result.evictions]
        evicted = table(("evicted", "from", "for"), rows, "Evicted pods")
    files = ", ".join(step.files)
    body = [
        f"<h3>{number}. {escape(step.asks)}</h3>",
        f'<p class="soft">{escape(step.config)} with {escape(files)}</p>',
        grids,
        step.picture,
        evicted,
        waits,
        messages,
        _checks(step.checks),
    ]
    return "\n".join(part for part in body if part)


def _checks(checks: Iterable[Check]) -> str:
    rows = []
    for check in checks:
        verdict = "as designed" if check.holds else f"NOT AS DESIGNED: wanted {in_words(check.wanted)}"
        rows.append((check.design, in_words(check.found), verdict))
    return table(("the design says", "the cluster shows", ""), rows, "Checks")
