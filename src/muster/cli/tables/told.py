"""The telling of `muster demo`: chapter by chapter, as each is played."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from muster.cli.tables.parts import plural, row, some, table
from muster.sim.demo.story import Chapter, Step, in_words

MARGIN = "  "


def show_chapter(console: Console, number: int, chapter: Chapter) -> None:
    console.print(Text(f"{number}. {chapter.title}", "bold"))
    console.print(Text(f"{MARGIN} {chapter.about}\n"))
    for i, step in enumerate(chapter.steps, start=1):
        _step(console, f"{number}.{i}", step)


def _step(console: Console, number: str, step: Step) -> None:
    console.print(Text(f"{number} {step.asks}", "bold cyan"))
    console.print(Text(f"{MARGIN} -c {step.config} -f {' '.join(step.files)}", "dim"))
    for grid in step.grids:
        console.print(Text(grid.title))
        shown = table("", *grid.head)
        shown.title = None
        for cells in grid.rows:
            row(shown, *cells)
        console.print(shown)
    for line in _decided(step):
        console.print(Text(f"{MARGIN} {line}"))
    for check in step.checks:
        if check.holds:
            console.print(Text(f"{MARGIN} as designed: {check.design}", "green"))
        else:
            console.print(Text(f"{MARGIN} NOT AS DESIGNED: {check.design}", "bold red"))
            console.print(Text(f"{MARGIN}   wanted {in_words(check.wanted)}, found {in_words(check.found)}", "red"))
    console.print()


def _decided(step: Step) -> list[str]:
    """Where pods went, what was evicted, what waits and why: the simulator's own answer."""
    lines = list(step.said)
    if step.result is None:
        return lines
    by_node: dict[str, list[str]] = {}
    for pod, node in sorted(step.result.binds.items()):
        ids = step.devices.get(pod)
        by_node.setdefault(node, []).append(f"{pod} (chips {', '.join(map(str, ids))})" if ids else pod)
    lines += [f"evicted from {e.node}: {e.pod}, by {e.rule}" for e in step.result.evictions]
    lines += [f"bound to {node}: {some(pods, 8)}" for node, pods in sorted(by_node.items())]
    by_reason: dict[str, list[str]] = {}
    for pod, why in sorted(step.waiting.items()):
        by_reason.setdefault(why, []).append(pod)
    return lines + [f"waits: {some(pods)}: {why}" for why, pods in by_reason.items()]


def show_end(console: Console, chapters: list[Chapter], report: str, manifests: str) -> None:
    checks = [check for chapter in chapters for step in chapter.steps for check in step.checks]
    holds = sum(check.holds for check in checks)
    console.print(f"The manifests are in {manifests}; try them with `muster simulate -c FILE -f FILE…`.")
    console.print(f"The report with pictures: {report}")
    style = "bold green" if holds == len(checks) else "bold red"
    console.print(Text(f"{plural(len(chapters), 'design')}: {holds} of {len(checks)} checks hold", style))
