"""The help of every command: complete sentences, groups, and an example that runs or parses."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from muster.cli import EXAMPLES, GROUPS, VERBS, main
from muster.sim.demo.chapter import MANIFESTS

CONTEXT = click.Context(main, info_name="muster")
# Commands that need a cluster, run until they are stopped, or take long: their examples are parsed only.
PARSED = {
    "scheduler", "pod-groups", "controllers", "webhook", "extender", "edge-gate", "snapshot", "bench", "demo",
    "sweep", "dashboard",
}  # fmt: skip
GANG = """
apiVersion: v1
kind: Pod
metadata: {name: train-0, namespace: default}
spec:
  schedulerName: muster
  containers: [{name: main, resources: {requests: {cpu: "1"}}}]
"""
GRID = """
configurations: [scheduler.yaml]
traces: [{file: trace.csv}]
clusters: [{nodes: nodes.yaml}]
"""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command and subcommand with its words."""
    for verb in VERBS:
        command = main.get_command(CONTEXT, verb)
        assert command is not None
        yield verb, command
        for name, below in getattr(command, "commands", {}).items():
            yield f"{verb} {name}", below


COMMANDS = dict(commands())


def typed(example: str) -> list[list[str]]:
    """The arguments of each `muster` in a line with pipes."""
    parts = (shlex.split(part) for part in re.split(r"\||&&", example))
    return [words[1:] for words in parts if words[0] == "muster"]


def help_of(words: str) -> str:
    return CliRunner().invoke(main, [*words.split(), "--help"]).stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    groups = Path(MANIFESTS) / "group-management"
    queues = Path(MANIFESTS) / "nodegroup"
    for source, name in (
        (queues / "departments.yaml", "cluster.yaml"), (queues / "departments.yaml", "nodes.yaml"),
        (queues / "departments.yaml", "prod.ndjson.gz"), (queues / "scheduler.yaml", "scheduler.yaml"),
        (groups / "propagationpolicy.yaml", "propagation.yaml"), (groups / "overridepolicy.yaml", "override.yaml"),
        (groups / "nginx.yaml", "deployment.yaml"),
    ):  # fmt: skip
        shutil.copy(source, tmp_path / name)
    (tmp_path / "job.yaml").write_text(GANG)
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "kinds.yaml").write_text("kinds: []\n")
    (tmp_path / "jobs.csv").write_text("timestamp,dur,num_gpus,vc\n0,60,1,a\n")
    (tmp_path / "trace.csv").write_text("submit,duration,gpus\n0,60,0\n")
    return tmp_path


@pytest.mark.parametrize("words", COMMANDS)
def test_the_example_of_a_command_runs(words: str, folder: Path) -> None:
    example = getattr(COMMANDS[words], "example", "")
    assert example.startswith(f"muster {words} "), f"give {words} an example: @click.command(cls=Command, example=…)"
    assert f"Example:\n  {example}\n" in help_of(words)
    run_or_parse(example)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_muster_itself_run(example: str, folder: Path) -> None:
    assert f"  {example}\n" in help_of("")
    run_or_parse(example)


def run_or_parse(example: str) -> None:
    for arguments in typed(example):
        if arguments[0] in PARSED or "--missing" in arguments:
            words = arguments
            command: click.Command = main
            while isinstance(command, click.Group) and words and (below := command.get_command(CONTEXT, words[0])):
                command, words = below, words[1:]
            command.make_context(example, list(words))
        else:
            result = CliRunner().invoke(main, arguments)
            assert result.exit_code == 0, f"{example}: {result.output}"


@pytest.mark.parametrize("words", ["", *COMMANDS])
def test_no_sentence_of_the_help_is_cut(words: str) -> None:
    text = help_of(words)
    assert "..." not in re.sub(r"^Usage:.*\n( {2,}.*\n)*", "", text)
    command = COMMANDS[words] if words else main
    assert command.get_short_help_str(1_000).endswith(".")
    for option in command.params:
        if isinstance(option, click.Option) and option.help:
            assert option.help.rstrip().endswith((".", "…")), f"{words} {option.name}: {option.help}"


def test_the_help_shows_every_command_once_in_its_group() -> None:
    text = help_of("")
    assert [line[:-1] for line in text.splitlines() if line[:-1] in GROUPS] == list(GROUPS)
    shown = re.findall(r"^  ([a-z][a-z-]*) {2,}[A-Z]", text, re.MULTILINE)
    assert shown == [verb for verbs in GROUPS.values() for verb in verbs]
    assert sorted(shown) == sorted(VERBS)


def test_a_sentence_about_a_command_fits_its_line() -> None:
    widest = max(map(len, VERBS))
    long = [f"{verb}: {len(text)}" for verb in VERBS
            if len(text := COMMANDS[verb].get_short_help_str(1_000)) > 80 - widest - 4]  # fmt: skip
    assert long == []
