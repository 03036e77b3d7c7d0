"""What holds for every verb: lazy verbs, no traceback, verbosity, exit codes."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from muster import cli
from muster.cli import VERBS, main, options


def test_every_verb_has_help() -> None:
    for verb in VERBS:
        result = CliRunner().invoke(main, [verb, "--help"])
        assert result.exit_code == 0, verb
        assert "-v N" in result.stdout, verb


def test_the_help_lists_the_verbs_and_explains_completion() -> None:
    text = CliRunner().invoke(main, ["--help"]).stdout
    assert all(verb in text for verb in VERBS)
    assert "_MUSTER_COMPLETE=bash_source" in text


def test_a_misspelt_verb_is_refused_with_the_nearest() -> None:
    result = CliRunner().invoke(main, ["simulat"])
    assert result.exit_code == 2
    assert "did you mean simulate?" in result.stderr


@click.command()
@options.verbosity
def broken(verbosity: int) -> None:
    raise RuntimeError("two\nlines")


@pytest.mark.parametrize(("level", "traceback"), [("0", False), ("9", True)])
def test_an_unexpected_fault_is_one_line(monkeypatch: pytest.MonkeyPatch, level: str, traceback: bool) -> None:
    monkeypatch.setitem(VERBS, "broken", "here:broken")
    monkeypatch.setattr(cli, "import_module", lambda name: SimpleNamespace(broken=broken))
    result = CliRunner().invoke(main, ["broken", "-v", level])
    assert result.exit_code == 2
    assert "unexpected RuntimeError: two lines" in result.stderr
    assert ("Traceback" in result.stderr) is traceback


def test_without_the_extra_for_live_clusters_it_is_named() -> None:
    code = (
        "import sys\n"
        "for name in ('aiohttp', 'kubernetes', 'prometheus_client', 'cryptography'): sys.modules[name] = None\n"
        "from muster.cli import main; main()"
    )
    for verb in ("scheduler", "controllers", "webhook", "edge-gate", "snapshot", "crds --missing", "extender --port 0"):
        done = subprocess.run([sys.executable, "-c", code, *verb.split()], capture_output=True, text=True)
        assert done.returncode == 2, verb
        assert "pip install 'muster[live]'" in done.stderr, f"{verb}: {done.stderr}"


def test_help_imports_neither_numpy_nor_the_model() -> None:
    code = (
        "import sys; from muster.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'msgspec', 'rich', 'yaml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
