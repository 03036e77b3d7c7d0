"""The static pages in a browser: `simulate -o html`, `--compare`, and the demo."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from browser.clusters import CLUSTERS, CONFIGURATION, LONG, NAME, large
from browser.conftest import accessible, by_keyboard, page_height, screenshot
from builders.replays import example
from fakes.sweep_cells import finished
from muster.sim.api import explain, simulate
from muster.sim.demo import chapters
from muster.sim.demo import page as demo_page
from muster.sim.replay.page import page as replay_page
from muster.sim.report import explanation
from muster.sim.report.frame import document
from muster.sim.report.pages import VIEWS, comparison_page, page
from muster.sim.result import Comparison, Result
from muster.sim.sweep.comparison import compare
from muster.sim.sweep.page import page as sweep_page
from muster.sim.sweep.page import warnings_of
from muster.sim.sweep.result_table import rows_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from browser.conftest import OpenPage

MAX_HEIGHT = {"demo": 12_000, "empty": 1_500, "large": 13_000, "errors": 8_000, "hostile": 16_000}
SHOWN = {
    "demo": [view.name for view in VIEWS if view.name != "warnings"],
    "empty": ["waiting", "evictions", "queues", "nodes"],
    "large": ["waiting", "evictions", "queues", "gangs", "nodes", "topology", "timeline", "placements"],
    "errors": ["warnings", "waiting", "evictions", "queues", "gangs", "nodes", "groups", "policies"],
    "hostile": ["waiting", "queues", "gangs", "nodes", "groups", "topology", "policies", "placements"],
}
RUNS: dict[str, Result] = {}


def run(name: str) -> Result:
    if name not in RUNS:
        config = CONFIGURATION if name == "demo" else None
        RUNS[name] = simulate(CLUSTERS[name](), config=config, keep_going=True)
    return RUNS[name]


def opened(open_page: OpenPage, folder: Path, text: str) -> Page:
    path = folder / "page.html"
    path.write_text(text, "utf-8")
    return open_page(path)


def nothing_ran(page: Page) -> None:
    """No text of the input became an element or a script."""
    assert page.evaluate("window.canary") is None
    assert page.locator("script, img, iframe, [onerror], [onload], [style]").count() == 0


@pytest.mark.parametrize("name", list(CLUSTERS))
def test_a_cluster_is_a_page(name: str, open_page: OpenPage, tmp_path: Path) -> None:
    origin = [("command", f"muster simulate -f {name}.yaml")]
    shown = opened(open_page, tmp_path, page(run(name), f"{name}.yaml", origin))
    nothing_ran(shown)
    sections = shown.locator("main > section").evaluate_all("all => all.map(one => one.id)")
    assert [one for one in [*SHOWN[name], "origin"] if one not in sections] == []
    assert sections.index("waiting") < sections.index("evictions") < sections.index("queues") < sections.index("nodes")
    contents = shown.locator("nav a").evaluate_all("all => all.map(one => one.hash.slice(1))")
    assert contents == sections
    assert page_height(shown) <= MAX_HEIGHT[name]
    # A wide table scrolls by itself; the page does not.
    assert shown.evaluate("document.documentElement.scrollWidth") <= shown.viewport_size["width"]  # type: ignore[index]
    screenshot(shown, f"simulate-{name}")
    if name == "demo":
        screenshot(shown, f"simulate-{name}", dark=True)
    if name != "large":
        accessible(shown, contrast=name == "demo")


def test_squares_are_accessible(open_page: OpenPage, tmp_path: Path) -> None:
    result = simulate(large(nodes=120, pods=300))
    shown = opened(open_page, tmp_path, page(result, "The large cluster, smaller"))
    assert shown.locator(".squares rect[data-node]").count() == 120
    accessible(shown)


def test_the_keyboard_reaches_the_contents_and_what_is_folded(open_page: OpenPage, tmp_path: Path) -> None:
    shown = opened(open_page, tmp_path, page(run("demo"), "demo"))
    assert by_keyboard(shown, 4) == ["#content", "#waiting", "#evictions", "#queues"]
    shown.keyboard.press("Enter")
    assert shown.evaluate("location.hash") == "#queues"
    shown.locator("summary").first.focus()
    before = shown.locator("details[open]").count()
    shown.keyboard.press("Enter")
    assert abs(shown.locator("details[open]").count() - before) == 1


def test_what_a_script_attaches_to_has_the_names_of_the_input(open_page: OpenPage, tmp_path: Path) -> None:
    shown = opened(open_page, tmp_path, page(run("hostile"), "hostile"))
    nodes = shown.locator(".node").evaluate_all("all => all.map(one => one.dataset.node)")
    assert LONG in nodes and NAME in nodes
    assert "[U+202E]" in shown.locator("#nodes").inner_text()


def test_two_runs_are_one_page(open_page: OpenPage, tmp_path: Path) -> None:
    both = Comparison(("default", "spread"), run("demo"), run("errors"))
    shown = opened(open_page, tmp_path, comparison_page(both))
    assert shown.locator("main > section").first.get_attribute("id") == "figures"
    assert shown.locator("#first-nodes").count() == shown.locator("#second-nodes").count() == 1
    accessible(shown, contrast=False)
    screenshot(shown, "compare")


@pytest.mark.parametrize("name, pod", [("demo", "demo/quartet-0"), ("hostile", "default/picky")])
def test_an_explanation_is_a_page(name: str, pod: str, open_page: OpenPage, tmp_path: Path) -> None:
    config = CONFIGURATION if name == "demo" else None
    found = explain(pod, CLUSTERS[name](), config=config, keep_going=True, sets=True)
    shown = opened(open_page, tmp_path, document(pod, [explanation.render(found)], "explain"))
    nothing_ran(shown)
    assert shown.locator("table").count() > 0
    accessible(shown, contrast=name == "demo")
    screenshot(shown, f"explain-{name}")


def test_the_demo_is_a_page(open_page: OpenPage, tmp_path: Path) -> None:
    shown = opened(open_page, tmp_path, demo_page(chapters(), [("command", "muster demo")]))
    nothing_ran(shown)
    assert shown.locator("nav a").count() == shown.locator("main > section").count() == 6
    assert shown.get_by_text("NOT AS DESIGNED").count() == 0
    accessible(shown, contrast=False)
    screenshot(shown, "demo")


def test_replays_are_a_page(open_page: OpenPage, tmp_path: Path) -> None:
    shown = opened(open_page, tmp_path, replay_page([example(), example("b.yaml", 3.0)], "Two configurations"))
    nothing_ran(shown)
    assert shown.locator("main > section").first.get_attribute("id") == "summary"
    assert page_height(shown) <= 8_000
    accessible(shown)
    screenshot(shown, "replay")


def test_a_sweep_is_a_page(open_page: OpenPage, tmp_path: Path) -> None:
    done = finished()
    rows, compared = rows_of(done), compare(done.cells, done.results)
    shown = opened(open_page, tmp_path, sweep_page("A sweep", rows, compared, warnings_of(done)))
    nothing_ran(shown)
    accessible(shown, contrast=False)
    screenshot(shown, "sweep")
