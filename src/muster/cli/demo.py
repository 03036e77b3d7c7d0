"""`muster demo`: five examples, played step by step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli import options
from muster.cli.answer import plural, row, some, styled, table
from muster.cli.help import Command
from muster.model.natural_order import natural

if TYPE_CHECKING:
    from rich.console import Console

    from muster.sim.demo.chapter import Chapter, Step


@click.command(cls=Command, example="muster demo --report demo.html")
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), default=Path("muster-demo.html"), show_default=True,
    metavar="FILE", help="Where to write the report, one self-contained HTML page.",
)  # fmt: skip
@options.output("table", "json")
@options.verbosity
def demo(report: Path, form: str, verbosity: int) -> None:
    """Run five examples on an embedded cluster, step by step.

    Every step applies manifests to an embedded cluster, runs the scheduler and the controllers until nothing changes,
    and compares the outcome with the expected one. The exit code is 1 if an outcome differs.
    """
    from muster.cli.answer import console, print_json
    from muster.cli.origin import origin_rows
    from muster.cli.reading import BadInput
    from muster.sim.demo import chapters, page
    from muster.sim.demo.chapter import MANIFESTS

    out = console()
    played = []
    for number, chapter in enumerate(chapters(), start=1):
        played.append(chapter)
        if form == "table":
            show_chapter(out, number, chapter)
    try:
        report.write_text(page(played, origin_rows()), "utf-8")
    except OSError as fault:
        raise BadInput(f"{report}: cannot be written: {fault.strerror} (give another place with --report)") from None
    holds = all(chapter.holds for chapter in played)
    if form == "json":
        print_json({"chapters": [chapter.to_dict() for chapter in played], "holds": holds, "report": str(report)})
    else:
        show_end(out, played, str(report), _near(str(MANIFESTS)))
    if not holds:
        raise click.exceptions.Exit(1)


def _near(path: str) -> str:
    """Returns the path relative to the working directory, if it is below it."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


MARGIN = "  "


def show_chapter(console: Console, number: int, chapter: Chapter) -> None:
    console.print(styled(f"{number}. {chapter.title}", "bold"))
    console.print(styled(f"{MARGIN} {chapter.about}\n"))
    for i, step in enumerate(chapter.steps, start=1):
        _step(console, f"{number}.{i}", step)


def _step(console: Console, number: str, step: Step) -> None:
    from muster.sim.demo.chapter import in_words

    console.print(styled(f"{number} {step.asks}", "bold cyan"))
    console.print(styled(f"{MARGIN} -c {step.config} -f {' '.join(step.files)}", "dim"))
    for grid in step.grids:
        shown = table(grid.title, *grid.head)
        for cells in grid.rows:
            row(shown, *cells)
        console.print(shown)
    for line in _decided(step):
        console.print(styled(f"{MARGIN} {line}"))
    for check in step.checks:
        if check.holds:
            console.print(styled(f"{MARGIN} as designed: {check.design}", "green"))
        else:
            console.print(styled(f"{MARGIN} NOT AS DESIGNED: {check.design}", "bold red"))
            console.print(styled(f"{MARGIN}   wanted {in_words(check.wanted)}, found {in_words(check.found)}", "red"))
    console.print()


def _decided(step: Step) -> list[str]:
    """Returns the bindings, the evictions and the pending pods with their reasons, as the simulator reports them."""
    lines = list(step.messages)
    if step.result is None:
        return lines
    by_node: dict[str, list[str]] = {}
    for pod, node in sorted(step.result.binds.items(), key=lambda item: natural(item[0])):
        ids = step.devices.get(pod)
        by_node.setdefault(node, []).append(f"{pod} (chips {', '.join(map(str, ids))})" if ids else pod)
    lines += [f"evicted from {e.node}: {e.pod}, by {e.rule}" for e in step.result.evictions]
    lines += [f"bound to {node}: {some(by_node[node], 8)}" for node in sorted(by_node, key=natural)]
    by_reason: dict[str, list[str]] = {}
    for pod, why in sorted(step.waiting.items(), key=lambda item: natural(item[0])):
        by_reason.setdefault(why, []).append(pod)
    return lines + [f"waits: {some(pods)}: {why}" for why, pods in by_reason.items()]


def show_end(console: Console, chapters: list[Chapter], report: str, manifests: str) -> None:
    checks = [check for chapter in chapters for step in chapter.steps for check in step.checks]
    holds = sum(check.holds for check in checks)
    console.print(f"The manifests are in {manifests}; try them with `muster simulate -c FILE -f FILE…`.")
    console.print(f"The report with pictures: {report}")
    style = "bold green" if holds == len(checks) else "bold red"
    console.print(styled(f"{plural(len(chapters), 'example')}: {holds} of {len(checks)} checks hold", style))
