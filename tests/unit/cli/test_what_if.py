"""`muster simulate` with changed inputs, two inputs, filters and `-o wide`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from builders.files import text, write
from builders.manifests import node, pod, queue
from muster.cli import main
from muster.cli.answer import console
from muster.cli.validate import show_findings
from muster.model.finding import Finding


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments])


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    objects = [
        node("n2", cpu=2), node("n10", cpu="1500m"), queue("a"), queue("b"),
        *(pod(f"p{i}", cpu="500m", namespace="one" if i % 2 else "two") for i in range(1, 12)),
    ]  # fmt: skip
    return list(write(tmp_path, objects))


def test_a_change_alone_shows_the_result_of_the_changed_input(files: list[str]) -> None:
    answer = json.loads(call(*files, "--clone-node", "n2", "--times", "2", "-o", "json").stdout)
    assert answer["pending"] == {}
    assert {"n2-clone-1", "n2-clone-2"} <= set(answer["binds"].values())


def test_a_difference_is_shown_by_group_and_in_figures(files: list[str]) -> None:
    text = call(*files, "--clone-node", "n2", "--diff").stdout
    for line in ("Decisions that differ, by group", "bound", "unchanged", "cpu in use"):
        assert line in text
    answer = json.loads(call(*files, "--remove", "node/n2", "--diff", "-o", "json").stdout)
    counts = answer["differences"]["counts"]
    assert counts["waiting"] == 4 and counts["evicted"] == 0
    assert sum(len(group["waiting"]) for group in answer["differences"]["groups"]) == 4


def test_two_inputs_are_compared(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(text(node("n3", cpu=8), pod("q")))
    answer = json.loads(call(*files, "--compare-input", str(tmp_path / "other.yaml"), "-o", "json").stdout)
    assert answer["other"]["binds"] == {"default/q": "n3"}
    assert answer["differences"]["counts"]["bound"] == 1
    changed = call(*files, "--compare-input", str(tmp_path / "other.yaml"), "--cordon", "n3", "-o", "json").stdout
    assert json.loads(changed)["other"]["binds"] == {}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--diff"], "--diff needs a change"),
        (["--cordon", "n2", "--diff", "--compare", "x.yaml"], "give one of"),
        (["--times", "2"], "--times belongs to --clone-node"),
        (["--cordon", "n3"], "--cordon n3: there is no node n3"),
        (["--node", "n3"], "there is no node n3 in the cluster"),
        (["--queue", "c"], "there is no queue c in the cluster"),
        (["-n", "three"], "there is no namespace three in the cluster"),
    ],
)
def test_what_cannot_be_done_is_refused(files: list[str], options: list[str], why: str) -> None:
    result = call(*files, *options)
    assert result.exit_code == 2
    assert why in result.stderr


def test_filters_restrict_the_decisions_and_not_the_summary(files: list[str]) -> None:
    answer = json.loads(call(*files, "-n", "one", "--node", "n2", "-o", "json").stdout)
    assert set(answer["binds"].values()) == {"n2"}
    assert all(name.startswith("one/") for name in answer["binds"])
    assert answer["summary"]["bound"] == 7
    assert "shown (namespace one): " in call(*files, "-n", "one").stdout
    difference = json.loads(call(*files, "--remove", "node/n2", "--diff", "-n", "two", "-o", "json").stdout)
    assert all(group["group"].startswith("two/") for group in difference["differences"]["groups"])


def test_names_are_in_natural_order_and_quantities_as_written(files: list[str]) -> None:
    lines = call(*files).stdout.splitlines()
    pods = [line.split()[0] for line in lines if line.startswith(("one/", "two/"))]
    assert pods.index("one/p9") < pods.index("one/p11") if "one/p11" in pods else pods == sorted(pods)
    assert "in use: 3500m of 3500m cpu" in lines


def test_wide_shows_every_pod_with_everything(files: list[str]) -> None:
    table = call(*files, "-o", "wide").stdout
    assert "one/p1    " in table and "cpu 500m" in table
    for name in (f"{'one' if i % 2 else 'two'}/p{i}" for i in range(1, 12)):
        assert name in table


def test_a_piped_table_has_no_spaces_at_the_ends_and_no_rule_wider_than_its_rows(files: list[str]) -> None:
    lines = call(*files).stdout.splitlines()
    assert [line for line in lines if line != line.strip() and line.startswith("─")] == []
    assert [line for line in lines if line.endswith(" ")] == []
    for i, line in enumerate(lines):
        if line.startswith("──"):
            assert len(line) <= max(map(len, lines[i - 1 : i] + lines[i + 1 :]))


def test_exact_amounts_stand_beside_the_rounded_ones(files: list[str]) -> None:
    summary = json.loads(call(*files, "-o", "json").stdout)["summary"]
    assert summary["utilisation"]["cpu"] == {"used": "3500m", "allocatable": "3500m"}
    share = summary["queues"]["default"]
    assert share["allocated"]["cpu"] == "3.5"
    assert share["exact"]["allocated"]["cpu"] == "3500m"


def explained(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explain", *arguments])


def test_explain_takes_the_changes_and_shows_one_node(files: list[str]) -> None:
    changed = explained("one/p1", *files, "--clone-node", "n2", "--node", "n2-clone-1", "-o", "json")
    assert list(json.loads(changed.stdout)["nodes"]) == ["n2-clone-1"]
    wrong = explained("one/p1", *files, "--node", "n3")
    assert wrong.exit_code == 2 and "--node n3: there is no such node" in wrong.stderr


def test_a_wide_explanation_has_the_terms_of_every_score(files: list[str]) -> None:
    table = explained("one/p1", *files, "-o", "wide").stdout
    assert "nodeorder/leastrequested" in table
    assert table.index("n2 ") < table.index("n10 ")


def test_ask_takes_the_changes(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(text(pod("late", cpu="6")))
    asked = ["ask", "-f", str(tmp_path / "job.yaml"), "--cluster", files[-1], "--first", "-o", "json"]
    before, after = (
        json.loads(CliRunner().invoke(main, [*asked, *more]).stdout)
        for more in ([], ["--set", "node/n2.status.allocatable.cpu=40"])
    )
    assert before != after


def test_no_color_leaves_no_escape_codes_on_a_terminal(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    show_findings(console(), [Finding("error", "f.yaml", 1, "", "code", "message", "fix")])
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.delenv("NO_COLOR")
    show_findings(console(), [Finding("error", "f.yaml", 1, "", "code", "message", "fix")])
    assert "\x1b[1" in capsys.readouterr().out
