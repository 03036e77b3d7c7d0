"""What README.md and docs/ tell a reader to type works, and prints what they show; every configuration loads."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from documents import PAGES, ROOT, Reader, commands, plugins_page, says, targets
from muster.cli import VERBS
from muster.config import DEFAULT
from muster.cycle.configure import configure
from muster.cycle.scheduler import Scheduler

PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
SAMPLES = sorted((Path(__file__).parent / "data" / "designs-config").glob("*.yaml"))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=name)
def test_every_command_of_a_document_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    for command in commands(page):
        if command.typed.startswith("make "):
            assert command.typed.removeprefix("make ") in targets(), command.text
            continue
        code, printed = reader.type(command.typed)
        reported = "\n".join(printed)
        assert code == command.code, f"{name(page)}:{command.line}: {command.text}\n{reported}"
        assert says(command.output, printed), f"{name(page)}:{command.line}: {command.text} prints\n{reported}"
        assert "Traceback" not in reported


@pytest.mark.parametrize("page", [p for p in PAGES if PYTHON.search(p.read_text("utf-8"))], ids=name)
def test_every_python_block_of_a_document_runs(page: Path) -> None:
    for block in PYTHON.findall(page.read_text("utf-8")):
        done = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{name(page)}:\n{block}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_verb_that_a_document_names_is_there(page: Path) -> None:
    named = set(re.findall(r"`muster ([a-z][a-z-]*)", page.read_text("utf-8")))
    assert sorted(named - VERBS.keys()) == []


def configurations() -> list[tuple[str, str]]:
    """Every configuration in the documents and in the designs' samples."""
    found = [("default", DEFAULT), *((path.name, path.read_text("utf-8")) for path in SAMPLES)]
    for page in PAGES:
        for i, block in enumerate(BLOCK.findall(page.read_text("utf-8"))):
            if re.search(r"^\s*(actions|tiers):", block, re.MULTILINE):
                found.append((f"{name(page)} {i}", block))
    return found


@pytest.mark.parametrize(("where", "text"), configurations(), ids=lambda value: value if "\n" not in value else "")
def test_every_configuration_sample_loads(where: str, text: str) -> None:
    config, findings = configure(text, where)
    assert [finding for finding in findings if finding.severity == "error"] == []
    assert config.actions and config.plugins()
    faults = [finding for finding in Scheduler(config).findings() if finding.severity == "error"]
    assert faults == []


def test_the_page_of_plugins_is_what_the_command_says() -> None:
    assert (ROOT / "docs" / "plugins.md").read_text("utf-8") == plugins_page(), "run python tests/documents.py"


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ([], ["anything"], True),
        (["a  ", "b"], ["a", "b"], True),
        (["a", "…", "d"], ["a", "b", "c", "d"], True),
        (["a", "b"], ["a", "b", "c"], False),
        (["a", "…", "d"], ["a", "b"], False),
    ],
)
def test_output_is_compared_line_by_line_but_for_ellipses(expected: list[str], printed: list[str], same: bool) -> None:
    assert says(expected, printed) is same
