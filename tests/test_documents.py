"""What README.md and docs/ tell a reader to type works, and prints what they show; every YAML example is read."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import click
import pytest
import yaml

from documents import PAGES, ROOT, Reader, SavedFile, anchors, commands, links, saved_files, says, steps, targets
from muster.cli import VERBS, main
from muster.config import DEFAULT
from reference_pages import GENERATED
from yaml_blocks import problems

PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
METRIC = re.compile(r"\b(?:muster|volcano)_[a-z0-9_]+[a-z]\b(?!\.)")
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
SAMPLES = sorted((Path(__file__).parent / "data" / "designs-config").glob("*.yaml"))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=name)
def test_every_command_of_a_document_does_what_it_shows(page: Path, tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    for command in steps(page):
        if isinstance(command, SavedFile):
            reader.save(command)
            continue
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
    lost = []
    for target, anchor in links(page):
        file = page.parent / target if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            lost.append(f"{target}#{anchor}")
    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_verb_that_a_document_names_is_there(page: Path) -> None:
    named = set(re.findall(r"`muster ([a-z][a-z-]*)", page.read_text("utf-8")))
    assert sorted(named - VERBS.keys()) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_option_that_a_document_gives_to_a_command_is_there(page: Path) -> None:
    typed = re.findall(r"(?:^|`|\| )muster ([a-z][a-z-]*)([^|`#$\n]*)", page.read_text("utf-8"), re.MULTILINE)
    given = {(verb, option) for verb, rest in typed for option in re.findall(r"(?<= )--?[a-zA-Z][\w-]*", rest)}
    assert sorted((verb, option) for verb, option in given if verb in VERBS and option not in options_of(verb)) == []


@cache
def options_of(verb: str) -> set[str]:
    """The options of a command and its sub-commands."""
    command = main.get_command(click.Context(main), verb)
    assert command is not None
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    options = [option for one in (command, *inner) for option in one.params]
    return {"-h", "--help", *(text for option in options for text in (*option.opts, *option.secondary_opts))}


def blocks() -> list[tuple[str, str]]:
    """Every ```yaml block of the documents, the designs' samples and the default configuration."""
    found = [("default", DEFAULT), *((path.name, path.read_text("utf-8")) for path in SAMPLES)]
    for page in PAGES:
        found += [(f"{name(page)} {i}", block) for i, block in enumerate(BLOCK.findall(page.read_text("utf-8")))]
    return found


@pytest.mark.parametrize(("where", "text"), blocks(), ids=lambda value: value if "\n" not in value else "")
def test_every_yaml_block_is_read_without_errors(where: str, text: str) -> None:
    assert problems(text, where) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_file_that_a_document_has_saved_is_used(page: Path) -> None:
    typed = [(step.line, step.typed) for step in commands(page)]
    files = saved_files(page)
    assert [file.name for file in files if not any(at > file.line and file.name in text for at, text in typed)] == []


@pytest.mark.parametrize("page", GENERATED, ids=name)
def test_a_generated_page_is_up_to_date(page: Path) -> None:
    assert page.read_text("utf-8") == GENERATED[page](), "run python tests/documents.py"


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


def test_every_code_of_a_reason_is_in_the_pages_about_pending_pods() -> None:
    folder = ROOT / "docs" / "troubleshooting"
    pages = [(folder / page).read_text("utf-8") for page in ("pending.md", "no-evictions.md")]
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src" / "muster").rglob("*.py"))
    codes = set(re.findall(r'(?:Reason|PlacementRefusal|\b_no)\(\s*"([a-z-]+)"', source))
    assert len(codes) > 50
    assert sorted(code for code in codes if not any(f"`{code}`" in page for page in pages)) == []


@pytest.mark.parametrize("page", [p for p in PAGES if METRIC.search(p.read_text("utf-8"))], ids=name)
def test_every_metric_that_a_document_names_is_in_the_reference(page: Path) -> None:
    known = set(METRIC.findall((ROOT / "docs" / "reference" / "metrics.md").read_text("utf-8")))
    text = re.sub(r"^```(python|toml).*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    named = {re.sub(r"_(bucket|sum)$", "", metric) for metric in METRIC.findall(text)}
    assert sorted(named - known) == []


def test_the_ready_workflow_runs_the_commands_that_its_page_tries() -> None:
    page = ROOT / "docs" / "tasks" / "ci.md"
    workflow = yaml.safe_load(re.findall(r"^```yml\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)[0])
    runs = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    tried = {command.typed for command in commands(page)}
    checks = [run for run in runs if run.startswith("muster") and "html" not in run]
    assert len(checks) == 2 and set(checks) <= tried
