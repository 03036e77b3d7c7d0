"""Makes docs/images/report.png, the screenshot in README.md: the HTML report of docs/examples/first.

    python docs/screenshot.py        (needs the extra `browser` and chromium on the PATH)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).resolve().parent
EXAMPLE = DOCS / "examples" / "first"
WIDTH, HEIGHT = 1100, 1500


def main() -> None:
    """Writes the image."""
    muster = Path(sys.executable).parent / "muster"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "report.html"
        command = [muster, "simulate", "-f", "cluster.yaml", "train.yaml", "-o", "html"]
        page.write_bytes(subprocess.run(command, cwd=EXAMPLE, check=True, capture_output=True).stdout)
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        opened = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        opened.goto(page.as_uri())
        (DOCS / "images").mkdir(exist_ok=True)
        opened.screenshot(path=DOCS / "images" / "report.png")
        browser.close()


if __name__ == "__main__":
    main()
