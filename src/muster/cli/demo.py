"""`muster demo`: the designs' own examples, told step by step."""

from __future__ import annotations

from pathlib import Path

import click

from muster.cli import options


@click.command()
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), default=Path("muster-demo.html"), show_default=True,
    metavar="FILE", help="Where to write the report, one self-contained HTML page.",
)  # fmt: skip
@options.output("table", "json")
@options.verbosity
def demo(report: Path, form: str, verbosity: int) -> None:
    """Play the designs' own examples on an embedded cluster, step by step; exit 1 if one does not come out.

    Every step puts manifests into the cluster, lets the scheduler and the controllers act until nothing changes, and
    holds what came out against what the design says.
    """
    from muster.cli.answer import console, print_json
    from muster.cli.reading import BadInput
    from muster.cli.tables.told import show_chapter, show_end
    from muster.sim.demo import chapters
    from muster.sim.demo.report import page
    from muster.sim.demo.stage import MANIFESTS

    out = console()
    told = []
    for number, chapter in enumerate(chapters(), start=1):
        told.append(chapter)
        if form == "table":
            show_chapter(out, number, chapter)
    try:
        report.write_text(page(told), "utf-8")
    except OSError as fault:
        raise BadInput(f"{report}: cannot be written: {fault.strerror} (give another place with --report)") from None
    holds = all(chapter.holds for chapter in told)
    if form == "json":
        print_json({"chapters": [chapter.as_dict() for chapter in told], "holds": holds, "report": str(report)})
    else:
        show_end(out, told, str(report), _near(str(MANIFESTS)))
    if not holds:
        raise click.exceptions.Exit(1)


def _near(path: str) -> str:
    """The path as seen from here, if it is below."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
