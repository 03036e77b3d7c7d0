"""The example package of docs/tasks/write-a-plugin.md, written to a folder and installed there as the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import muster

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tasks" / "write-a-plugin.md"
_BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
BLOCKS: dict[str, str] = dict(_BLOCK.findall(PAGE.read_text("utf-8")))
_SOURCE = Path(muster.__file__).parents[1]


class PluginPackage:
    """The files of the page in a folder; `install` does what `pip install ./muster-maintenance` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.installed = folder / "site-packages"
        path = os.pathsep.join([str(self.installed), str(_SOURCE)])
        self.environment = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
        for name, text in BLOCKS.items():
            if "." in name:
                file = folder / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, **self.environment}
        return subprocess.run(
            [sys.executable, *command], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )

    def muster(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("-c", "from muster.cli import main; main()", *arguments)

    def install(self) -> None:
        """Installs into the folder, without the network."""
        flags = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
        done = self.run("-m", "pip", "install", *flags, "--target", str(self.installed), "./muster-maintenance")
        assert done.returncode == 0, done.stderr
