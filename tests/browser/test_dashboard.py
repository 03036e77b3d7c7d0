"""The dashboard in a browser: every view of every cluster, explanations, the timeline, updates, keyboard and focus."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from browser.clusters import CLUSTERS, CONFIGURATION, LARGE_NODES
from browser.conftest import accessible, screenshot
from builders.manifests import node, pod
from fakes.dashboard_site import InThread, Site, source_of
from muster.model.yamltext import dump
from muster.sim.dashboard import worker
from muster.sim.dashboard.settings import MIN_TOKEN_CHARACTERS
from muster.sim.inputs import ConfigText, default_config

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from browser.conftest import OpenPage

Opened = Callable[..., "Page"]
PAGES = ("overview", "queues", "gangs", "nodes", "topology", "devices", "policies", "timeline")
MAX_BYTES = 5_000_000
MAX_FIRST_PAINT_MS = 1_000
DEMO = ConfigText(dump(CONFIGURATION), "demo.yaml")
SITES: dict[str, Site] = {}


@pytest.fixture(scope="module", autouse=True)
def sites() -> Iterator[dict[str, Site]]:
    """A dashboard for each cluster that is opened, until the last test ends."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "WorkerProcess", InThread)
        yield SITES
        for site in SITES.values():
            site.__exit__()


def site_of(name: str) -> Site:
    if name not in SITES:
        texts = (DEMO, default_config()) if name == "demo" else (default_config(),)
        SITES[name] = Site(source_of(CLUSTERS[name](), *texts)).__enter__()
    return SITES[name]


def address(name: str, view: str = "overview") -> str:
    return f"http://127.0.0.1:{site_of(name).listener.port}/#{view}"


def loaded(page: Page) -> None:
    page.wait_for_selector("main[aria-busy=false] section", timeout=20_000)


def go(page: Page, view: str) -> None:
    page.locator(f"nav a[href='#{view}']").click()
    page.wait_for_selector(f"nav a[href='#{view}'][aria-current=page]")
    loaded(page)


def nothing_ran(page: Page) -> None:
    assert page.evaluate("window.canary") is None
    assert page.locator("main img, main iframe, main script, [onerror], [onload], [style]").count() == 0


@pytest.mark.parametrize("name", ["demo", "empty", "errors", "hostile"])
def test_every_view_opens(name: str, open_page: OpenPage) -> None:
    page = open_page(address(name))
    for view in PAGES:
        go(page, view)
        nothing_ran(page)
        assert page.locator("main section h2").count() >= 1
        assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
        if name == "demo":
            accessible(page)
            screenshot(page, f"dashboard-demo-{view}")
    go(page, "overview")
    accessible(page)
    screenshot(page, f"dashboard-{name}", dark=True)


def test_5000_nodes_are_painted_within_a_second_and_5_mb(open_page: OpenPage) -> None:
    where = address("large")
    page = open_page("about:blank")
    session = page.context.new_cdp_session(page)
    sizes: list[int] = []
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    page.goto(where)
    loaded(page)
    painted = page.evaluate("performance.getEntriesByType('paint')[0].startTime")
    ready = page.evaluate("performance.getEntriesByName('loaded')[0].startTime")
    assert painted < MAX_FIRST_PAINT_MS
    for view in PAGES:
        go(page, view)
        nothing_ran(page)
    assert sum(sizes) < MAX_BYTES
    go(page, "nodes")
    assert page.locator(".squares [data-node]").count() == LARGE_NODES
    screenshot(page, "dashboard-large-nodes")
    print(f"first paint {painted:.0f} ms, the view after {ready:.0f} ms, {sum(sizes) / 1000:,.0f} kB")


def test_a_pod_is_explained_with_one_click_and_by_keyboard(open_page: OpenPage) -> None:
    page = open_page(address("demo", "overview"))
    loaded(page)
    waits = page.locator("#waiting [data-pod]").first
    details = page.locator("#waiting details").first
    if details.count():
        details.locator("summary").click()
    name = waits.get_attribute("data-pod")
    waits.click()
    dialog = page.locator("dialog[open]")
    dialog.locator("table").first.wait_for()
    assert name is not None and name in dialog.inner_text()
    accessible(page)
    screenshot(page, "dashboard-explain")
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    waits.focus()
    page.keyboard.press("Enter")
    page.locator("dialog[open] table").first.wait_for()
    assert "explanation of" in page.locator("#announce").inner_text()


def test_the_timeline_is_scrubbed_and_decided_again(open_page: OpenPage, tmp_path: Path) -> None:
    page = open_page(address("demo", "timeline"))
    loaded(page)
    page.locator("#cycle").focus()
    page.keyboard.press("Home")
    page.locator("#moment").wait_for()
    assert "after cycle 0" in page.locator("#moment").inner_text()
    assert page.evaluate("document.activeElement.id") == "cycle", "the focus stays"
    page.locator("main [data-cycle]").first.click()
    page.get_by_text("after cycle 1.").first.wait_for()
    page.locator("#configuration").select_option("built-in default")
    page.get_by_role("button", name="Decide again").click()
    page.locator("#placements-that-differ").wait_for()
    assert "decisions of built-in default after cycle 1" in page.locator("#moment").inner_text()
    assert page.locator("#cycle").input_value() == "1"
    accessible(page)
    screenshot(page, "dashboard-redecided")
    file = tmp_path / "mine.yaml"
    file.write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n')
    page.locator("#file").set_input_files(file)
    page.get_by_role("button", name="Decide again").click()
    page.get_by_text("decisions of mine.yaml").first.wait_for()
    page.get_by_role("button", name="Show the latest state").click()
    page.locator("#moment").wait_for(state="hidden")


def test_an_update_keeps_the_focus_and_what_is_open_and_is_announced(open_page: OpenPage) -> None:
    """The source of this site changes as a live cluster does."""
    waits = [pod(f"p-{i}", nodeSelector={"none": "yes"}) for i in range(6)]
    source = source_of([node(), *waits])
    with Site(source) as site:
        page = open_page(f"http://127.0.0.1:{site.listener.port}/#overview")
        loaded(page)
        page.locator("#waiting summary").click()
        page.locator("#waiting [data-pod='default/p-3']").focus()
        found = source_of([node(), node("n2"), *waits, pod("p-6", nodeSelector={"none": "yes"})]).display.result
        assert found is not None

        def publish() -> None:
            source.display.result = found
            source.display.publish(found, 1.0)

        began = time.monotonic()
        site.on_loop(publish)
        page.get_by_role("heading", name="Waiting pods (7)").wait_for()
        assert time.monotonic() - began < 2
        assert page.evaluate("document.activeElement.dataset.pod") == "default/p-3"
        assert page.locator("#waiting details").get_attribute("open") is not None
        assert "7 pods wait" in page.locator("#announce").inner_text()


def test_the_page_asks_for_the_token(open_page: OpenPage, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t" * MIN_TOKEN_CHARACTERS)
    with Site(source_of([node()]), token_file=str(tmp_path / "token")) as site:
        page = open_page(f"http://127.0.0.1:{site.listener.port}/", allowed=("401",))
        accessible(page)
        page.get_by_label("Token").fill("t" * MIN_TOKEN_CHARACTERS)
        page.get_by_role("button", name="Log in").click()
        loaded(page)
        assert page.locator("#top-figures").inner_text().startswith("0 pods")


def test_the_keyboard_reaches_every_view(open_page: OpenPage) -> None:
    page = open_page(address("demo"))
    loaded(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for view in PAGES:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.hash") == f"#{view}"
    page.keyboard.press("Enter")
    loaded(page)
    assert page.evaluate("document.activeElement.id") == "main"
