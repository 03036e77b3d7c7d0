"""`muster simulate` as it is called."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from builders.files import PACKING, PREEMPTING, SPREADING, full_cluster, replica_set, text, write
from builders.manifests import manifest, node, pod
from muster.cli import main


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments])


def test_the_json_has_the_keys_of_the_contract(tmp_path: Path) -> None:
    result = call(*write(tmp_path, full_cluster(), PREEMPTING), "-o", "json")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    keys = ["binds", "pipelined", "evicts", "evictions", "pending", "devices", "shares", "cycles", "summary"]
    assert list(answer) == keys
    assert answer["binds"] == {"default/boss": "n1"}
    assert answer["evicts"] == ["default/low-2"]


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    options = write(tmp_path, full_cluster(), PREEMPTING)
    for form in ("json", "table", "html"):
        assert call(*options, "-o", form).stdout_bytes == call(*options, "-o", form).stdout_bytes


def test_a_configuration_is_not_needed(tmp_path: Path) -> None:
    result = call(*write(tmp_path, [node("n1", cpu=4), pod("p")]), "-o", "json")
    assert json.loads(result.stdout)["binds"] == {"default/p": "n1"}


def test_pending_pods_are_no_failure_unless_asked_for(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4), pod("p", cpu="9")])
    assert call(*options).exit_code == 0
    assert call(*options, "--fail-on-pending").exit_code == 1


def test_several_files_after_one_option(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4)])
    (tmp_path / "more.yaml").write_text(text(pod("p")))
    result = call(*options, str(tmp_path / "more.yaml"), "-o", "json")
    assert json.loads(result.stdout)["binds"] == {"default/p": "n1"}


def test_the_tables_show_placements_evictions_and_reasons(tmp_path: Path) -> None:
    table = call(*write(tmp_path, full_cluster(), PREEMPTING)).stdout
    for message in (
        "default/boss",
        "default/low-2",
        "preempt",
        "Insufficient cpu",
        "1 pod bound, 1 pending, 1 evicted",
    ):
        assert message in table
    assert "\x1b" not in table


def test_many_placements_are_reported_by_group(tmp_path: Path) -> None:
    pods = [pod(f"p{i:03}", cpu="10m") for i in range(80)]
    table = call(*write(tmp_path, [node("n1", cpu=4), node("n2", cpu=4), *pods])).stdout
    assert "(single pods)" in table
    assert "p079" not in table


def test_markup_in_names_is_not_markup(tmp_path: Path) -> None:
    table = call(*write(tmp_path, [node("n1", cpu=4), pod("p", nodeSelector={"[red]": "x"})])).stdout
    assert "1 pending" in table


def test_two_configurations_are_compared(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4), node("n2", cpu=4), pod("a"), pod("b")], PACKING)
    other = tmp_path / "other.yaml"
    other.write_text(SPREADING)
    answer = json.loads(call(*options, "--compare", str(other), "-o", "json").stdout)
    assert answer["differences"]["placements"]
    table = call(*options, "--compare", str(other)).stdout
    assert "Decisions that differ, by group" in table and "fragmentation" not in answer["differences"]["placements"]
    assert call(*options, "--compare", str(other), "-o", "html").stdout.startswith("<!doctype html>")


def test_a_broken_file_ends_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [1\nb: 2\n")
    result = call("-f", str(tmp_path / "broken.yaml"), "-o", "json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "broken.yaml:2: error:" in result.stderr


def test_a_bad_object_ends_the_run_unless_it_goes_on(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4), pod("fine"), pod("bad", cpu="-1")])
    stopped = call(*options)
    assert stopped.exit_code == 2
    assert "'-1' is negative" in stopped.stderr and "--keep-going" in stopped.stderr
    going = call(*options, "--keep-going", "-o", "json")
    assert going.exit_code == 0
    assert json.loads(going.stdout)["binds"] == {"default/fine": "n1"}
    assert "'-1' is negative" in going.stderr


def test_a_path_that_is_not_there_ends_the_run_even_then(tmp_path: Path) -> None:
    result = call(*write(tmp_path, [node("n1", cpu=4)]), "-f", str(tmp_path / "none.yaml"), "--keep-going")
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr


def test_a_misspelt_plugin_ends_the_run_with_the_nearest_name(tmp_path: Path) -> None:
    result = call(*write(tmp_path, [node("n1", cpu=4)], PREEMPTING.replace("gang", "gagn")))
    assert result.exit_code == 2
    assert "scheduler.yaml:5: error: plugin gagn" in result.stderr
    assert "did you mean gang?" in result.stderr


def test_an_unusable_argument_is_warned_of_and_the_run_goes_on(tmp_path: Path) -> None:
    text = PREEMPTING + "    arguments: {leastrequested.weight: heavy}\n"
    result = call(*write(tmp_path, [node("n1", cpu=4), pod("p")], text), "-o", "json")
    assert result.exit_code == 0
    assert "scheduler.yaml:10: warning" in result.stderr


def test_other_kinds_are_skipped_and_counted(tmp_path: Path) -> None:
    services = [manifest("v1", "Service", name) for name in "ab"]
    result = call(*write(tmp_path, [node("n1", cpu=4), *services]), "-o", "json")
    assert "skipped: 2 Service (v1)" in result.stderr


def test_log_lines_come_with_verbosity_on_stderr(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4), pod("p")])
    assert call(*options).stderr == ""
    assert "Enter allocate" in call(*options, "-v", "3").stderr


def test_names_of_schedulers_can_be_given(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4), pod("p", schedulerName="mine"), pod("q", schedulerName="muster")])
    answer = json.loads(call(*options, "--scheduler-name", "mine", "-o", "json").stdout)
    assert answer["binds"] == {"default/p": "n1"}
    assert answer["pending"] == {}


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    options = write(tmp_path, [node("n1", cpu=4)])
    assert call(*options, "--now", "2026-01-31T08:00:00Z").exit_code == 0
    assert call(*options, "--now", "1700000000").exit_code == 0
    assert "is not a time" in call(*options, "--now", "soon").stderr


def test_a_run_that_never_settles_is_reported_on_stderr(tmp_path: Path) -> None:
    again = replica_set("again", 1, pod("x", annotations={"muster.io/run-seconds": "5"}))
    result = call(*write(tmp_path, [node("n1", cpu=4), again]), "-o", "json")
    assert result.exit_code == 0
    assert "never settles" in result.stderr
    assert json.loads(result.stdout)["summary"]["settled"] is False
