"""Debian's chromium through playwright: the fixtures of all browser tests. No browser is ever downloaded.

    def test_something(open_page: OpenPage) -> None:
        page = open_page(address)          # fails the test at its end if the page wrote an error to the console
        accessible(page)                   # axe finds nothing serious or critical, in light and in dark mode
        screenshot(page, "something")      # kept in build/screenshots
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

    OpenPage = Callable[..., Page]

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
WIDTH, HEIGHT = 1280, 900
SERIOUS = ("serious", "critical")
MAX_SHOT_HEIGHT = 6_000  # pixels of a screenshot


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Starts chromium; a missing chromium or playwright fails the test with what to install."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.fail("the Python package playwright is missing: run `make browser`, which installs the extra `browser`")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("there is no chromium on the PATH: install it with `apt-get install chromium`")
    # Chromium refuses its sandbox to root, who runs the tests in containers.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=arguments)
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A new session of the browser, without cookies and storage of other tests."""
    made = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    yield made
    made.close()


@pytest.fixture
def open_page(context: BrowserContext) -> Iterator[OpenPage]:
    """Returns a function that opens an address or a file. An error on the console or in a script fails the test.

    `allowed`: parts of console messages that are expected, such as the status of a request that must be refused.
    """
    errors: list[str] = []

    def opened(address: str | Path, allowed: tuple[str, ...] = (), **options: Any) -> Page:
        page = context.new_page()

        def note(text: str) -> None:
            if not any(part in text for part in allowed):
                errors.append(text)

        page.on("console", lambda message: note(f"{message.type}: {message.text}") if message.type == "error" else None)
        page.on("pageerror", lambda error: note(f"exception: {error}"))
        page.goto(address.as_uri() if isinstance(address, Path) else address, **options)
        return page

    yield opened
    assert errors == []


def accessible(page: Page, *, contrast: bool = True) -> None:
    """Fails if axe finds a serious or critical violation of WCAG, in light or in dark mode.

    The modes differ in colours only, and the contrast of colours takes most of the time: without `contrast` it is not
    checked, for pages whose components another test checks.
    """
    from axe_playwright_python.sync_playwright import Axe

    runs: list[tuple[str, dict[str, Any]]] = [("light", {"rules": {"color-contrast": {"enabled": False}}})]
    if contrast:
        runs = [("light", {}), ("dark", {"runOnly": ["color-contrast"]})]
    for scheme, options in runs:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
        bad = [one for one in found if one["impact"] in SERIOUS]
        lines = [f"{scheme}: {one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]}" for one in bad]
        assert not lines, "\n".join(lines)
    page.emulate_media(color_scheme="light")


def screenshot(page: Page, name: str, *, dark: bool = False) -> None:
    """Writes a screenshot of the page to build/screenshots, at most `MAX_SHOT_HEIGHT` pixels of it."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.emulate_media(color_scheme="dark" if dark else "light")
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": min(page_height(page), MAX_SHOT_HEIGHT)}
    page.screenshot(path=SCREENSHOTS / f"{name}{'-dark' * dark}.png", full_page=True, clip=clip)
    page.emulate_media(color_scheme="light")


def page_height(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollHeight"))


def by_keyboard(page: Page, presses: int) -> list[str]:
    """Presses the tabulator so many times; returns what has the focus after each: its address, else its tag."""
    found = []
    for _ in range(presses):
        page.keyboard.press("Tab")
        found.append(
            str(page.evaluate("(e => e.getAttribute('href') || e.tagName.toLowerCase())(document.activeElement)"))
        )
    return found
