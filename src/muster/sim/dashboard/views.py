"""The views of the page: the components of the static reports, each as a section with its heading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from muster.sim.report.pages import differences
from muster.sim.report.views import VIEWS as COMPONENTS
from muster.sim.report.views import View
from muster.sim.result import Comparison, Result


def _section(view: View, result: Result) -> str:
    section = replace(view, always=True).section(result)
    count = f" ({section.count})" if section.count else ""
    return replace(section, title=section.title + count).html()


VIEWS: dict[str, Callable[[Result], str]] = {view.name: partial(_section, view) for view in COMPONENTS}
"""Name of the view → how it is rendered."""


def comparison(compared: Comparison) -> str:
    """Returns what differs between the decisions of two configurations."""
    return "\n".join(section.html() for section in differences(compared))
