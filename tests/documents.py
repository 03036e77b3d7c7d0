"""README.md and docs/: their commands with what they print, the generated pages, and the rights of accounts.

`python tests/documents.py` writes the real output under every command again, and the generated pages; the tests only
look. A block of commands begins with ```console; a line `$ command` is run, the lines under it are its output. A line
`…` stands for any lines. All commands of a document are run one after the other, from a folder that looks like the
repository's root; `cd` holds for the commands after it. A block that begins with ```yaml and has the first line
`# file: NAME` is saved under that name in the current folder, for the commands after it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path

from click.testing import CliRunner

from muster.cli import main
from reference_pages import GENERATED

ROOT = Path(__file__).resolve().parent.parent
TOP_PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
PAGES = (*(ROOT / name for name in TOP_PAGES), *sorted((ROOT / "docs").rglob("*.md")))
# What commands may name.
IN_PLACE = (
    "src/muster/sim/demo/manifests", "tests/cases/nodegroup", "tests/cases/volcano-jobs", "tests/cases/native-groups",
    "tests/cases/workload-kinds", "docs/examples", "tests/cases/gpu-share",
)  # fmt: skip
ELLIPSIS = "…"
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
EXIT = re.compile(r"\s+# exit (\d+)$")
FILE = re.compile(r"# file: ([\w.-]+)$")
# Commands that end quickly and start no processes are run in this process, unless they need a shell.
IN_PROCESS = {"ask", "controllers", "distribute", "explain", "override", "plan", "queues", "simulate", "validate"}
SHELL = re.compile(r"[|<>$&;*?`~]")


@dataclass
class Command:
    """A line that a reader types, what a document says it prints, and which exit code it ends with."""

    line: int
    text: str
    output: list[str] = field(default_factory=list)

    @property
    def typed(self) -> str:
        return EXIT.sub("", self.text)

    @property
    def code(self) -> int:
        message = EXIT.search(self.text)
        return int(message.group(1)) if message else 0


@dataclass
class SavedFile:
    """A block that a reader saves as a file."""

    line: int
    name: str
    lines: list[str] = field(default_factory=list)


def steps(page: Path) -> list[Command | SavedFile]:
    """What a reader of the page types and saves, in order."""
    found: list[Command | SavedFile] = []
    fence = ""
    for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
        last = found[-1] if found else None
        if line.startswith("```"):
            fence = "" if fence else line
        elif fence == "```yaml" and (file := FILE.match(line)):
            found.append(SavedFile(number, file.group(1)))
            fence = "file"
        elif fence == "file" and isinstance(last, SavedFile):
            last.lines.append(line)
        elif fence == "```console" and line.startswith("$ "):
            found.append(Command(number, line[2:]))
        elif fence == "```console" and isinstance(last, Command):
            last.output.append(line)
    return found


def commands(page: Path) -> list[Command]:
    return [step for step in steps(page) if isinstance(step, Command)]


def saved_files(page: Path) -> list[SavedFile]:
    return [step for step in steps(page) if isinstance(step, SavedFile)]


class Reader:
    """Somebody who follows a document in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.here = folder
        for place in IN_PLACE:
            shutil.copytree(ROOT / place, folder / place)

    def type(self, text: str) -> tuple[int, list[str]]:
        """Exit code, and the lines on stdout and stderr without blanks at their ends."""
        if text.startswith("cd "):
            self.here = (self.here / text.removeprefix("cd ")).resolve(strict=True)
            return 0, []
        words = text.split(maxsplit=2)
        if words[0] == "muster" and words[1] in IN_PROCESS and not SHELL.search(text):
            with chdir(self.here):
                done = CliRunner(env={"NO_COLOR": "1"}).invoke(main, shlex.split(text)[1:], prog_name="muster")
            return done.exit_code, [line.rstrip() for line in done.output.splitlines()]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ended = subprocess.run(
            ["bash", "-o", "pipefail", "-c", text], cwd=self.here, env={**os.environ, "PATH": path, "NO_COLOR": "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
        )  # fmt: skip
        return ended.returncode, [line.rstrip() for line in ended.stdout.splitlines()]

    def save(self, file: SavedFile) -> None:
        (self.here / file.name).write_text("\n".join(file.lines) + "\n", "utf-8")


def says(expected: list[str], printed: list[str]) -> bool:
    """Is what was printed what the document shows? A document that shows nothing says nothing."""
    if not expected:
        return True
    parts = "\n".join(line.rstrip() for line in expected).split(ELLIPSIS)
    pattern = ".*".join(re.escape(part) for part in parts)
    return re.fullmatch(pattern, "\n".join(printed), re.DOTALL) is not None


def targets() -> set[str]:
    """What `make` can make."""
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def links(page: Path) -> list[tuple[str, str]]:
    """The links of a page to files: the path (empty: the page itself) and the anchor."""
    return LINK.findall(CODE.sub("", page.read_text("utf-8")))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as forges and mkdocs.yml's `slugify` make them."""
    headings = re.findall(r"^#+ +(.+?) *$", CODE.sub("", page.read_text("utf-8")), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def refresh(page: Path) -> None:
    """Write the real output under every command that shows one."""
    lines = page.read_text("utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder:
        reader = Reader(Path(folder))
        shift = 0
        for command in steps(page):
            if isinstance(command, SavedFile):
                reader.save(command)
                continue
            if command.typed.startswith("make "):
                continue
            code, printed = reader.type(command.typed)
            if code != command.code:
                sys.exit(f"{page}:{command.line}: exit {code}\n" + "\n".join(printed))
            if command.output and not says(command.output, printed):
                at = command.line + shift
                lines[at : at + len(command.output)] = printed
                shift += len(printed) - len(command.output)
    page.write_text("\n".join(lines) + "\n", "utf-8")


def refresh_rights() -> None:
    """Write the table of the security model again."""
    from oracles import account_rights

    page = ROOT / "docs" / "concepts" / "security-model.md"
    text = page.read_text("utf-8")
    before, _, rest = text.partition(account_rights.BEGIN)
    page.write_text(before + account_rights.table() + rest.partition(account_rights.END)[2], "utf-8")


if __name__ == "__main__":
    refresh_rights()
    for generated, write in GENERATED.items():
        generated.write_text(write(), "utf-8")
    for page in PAGES:
        refresh(page)
