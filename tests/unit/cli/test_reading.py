"""Which configuration simulate, explain and validate use for a snapshot, and what they say about it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from builders.manifests import node, pod
from muster.cli import main
from muster.config.announced_config import AnnouncedConfig
from muster.cycle.configure import effective_hash, validate_configuration
from muster.model.kinds import plain

ENQUEUE = "actions: enqueue\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n"
ALLOCATE = ENQUEUE.replace("enqueue", "allocate")
SOURCE = "configmap:home/conf"


def hash_of(text: str) -> str:
    return effective_hash(validate_configuration(text, "x")[0])


RUNS = AnnouncedConfig("home/muster-scheduler", True, SOURCE, hash_of(ENQUEUE), ("muster",), ENQUEUE)


def snapshot(folder: Path, *schedulers: AnnouncedConfig) -> str:
    file = folder / "cluster.ndjson"
    lines = [json.dumps(one) for one in (node("a", cpu=4), pod("p"))]
    lines += [msgspec.json.encode(plain(one.config_map())).decode() for one in schedulers]
    file.write_text("\n".join(lines), encoding="utf-8")
    return str(file)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def used(*arguments: str) -> dict[str, object]:
    done = call(*arguments, "-o", "json")
    assert done.exit_code in (0, 1), done.output
    answer = json.loads(done.stdout)
    found = answer.get("configuration") or answer["summary"]["configuration"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("command", [("simulate",), ("explain", "p"), ("validate",)], ids=lambda one: str(one[0]))
def test_the_configuration_in_a_snapshot_is_used_and_named(command: tuple[str, ...], tmp_path: Path) -> None:
    file = snapshot(tmp_path, RUNS)
    assert used(*command, "-f", file) == {
        "source": SOURCE, "hash": hash_of(ENQUEUE), "lease": "home/muster-scheduler", "running": True
    }  # fmt: skip
    first = call(*command, "-f", file).stdout.splitlines()[0]
    assert first.startswith(f"configuration: {SOURCE} (hash {hash_of(ENQUEUE)}), of the running scheduler")


def test_the_option_wins(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(ALLOCATE, encoding="utf-8")
    arguments = ("simulate", "-f", snapshot(tmp_path, RUNS))
    assert json.loads(call(*arguments, "-o", "json").stdout)["binds"] == {}
    assert json.loads(call(*arguments, "-c", str(mine), "-o", "json").stdout)["binds"] == {"default/p": "a"}
    assert used(*arguments, "-c", str(mine)) == {"source": str(mine), "hash": hash_of(ALLOCATE)}
    assert call(*arguments, "-c", str(mine)).stdout.splitlines()[0] == f"configuration: {mine}"


def test_a_scheduler_that_has_ended_is_distinguished(tmp_path: Path) -> None:
    done = call("simulate", "-f", snapshot(tmp_path, replace(RUNS, running=False)))
    assert "of a scheduler that does not run (Lease home/muster-scheduler)" in done.stdout


def test_without_a_scheduler_the_default_is_used_and_it_is_reported(tmp_path: Path) -> None:
    done = call("simulate", "-f", snapshot(tmp_path, AnnouncedConfig()))
    assert "no scheduler runs there; the built-in default is used" in done.stderr
    assert done.stdout.splitlines()[0] == "configuration: built-in default"


def test_a_configuration_that_is_not_in_the_cluster_is_asked_for(tmp_path: Path) -> None:
    done = call("simulate", "-f", snapshot(tmp_path, replace(RUNS, source="/etc/scheduler.yaml", text=None)))
    assert "/etc/scheduler.yaml, the configuration of the Lease home/muster-scheduler, is not there" in done.stderr


def test_a_configmap_that_the_scheduler_does_not_use_yet_is_warned_of(tmp_path: Path) -> None:
    done = call("simulate", "-f", snapshot(tmp_path, replace(RUNS, text=ALLOCATE)))
    assert f"has the hash {hash_of(ALLOCATE)}, but the scheduler of the Lease" in done.stderr
    assert call("simulate", "-f", snapshot(tmp_path, RUNS)).stderr == ""


def test_a_configmap_that_the_scheduler_refuses_is_an_error(tmp_path: Path) -> None:
    done = call("simulate", "-f", snapshot(tmp_path, replace(RUNS, text="actions: alocate\n")))
    assert done.exit_code == 2 and "did you mean allocate?" in done.stderr
    assert f"the scheduler of the Lease home/muster-scheduler still uses {RUNS.hash} (give that with -c)" in done.stderr


def test_of_several_schedulers_the_name_chooses(tmp_path: Path) -> None:
    other = replace(RUNS, lease="home/other", names=("batch",), text=ALLOCATE, hash=hash_of(ALLOCATE))
    file = snapshot(tmp_path, RUNS, other)
    assert used("simulate", "-f", file)["lease"] == "home/muster-scheduler"
    assert used("simulate", "-f", file, "--scheduler-name", "batch")["lease"] == "home/other"
    done = call("simulate", "-f", file, "--scheduler-name", "batch", "--scheduler-name", "muster")
    assert done.exit_code == 2 and "choose with -c or --scheduler-name" in done.stderr
    stopped = snapshot(tmp_path, replace(RUNS, running=False), replace(other, names=("muster",)))
    assert used("simulate", "-f", stopped)["lease"] == "home/other"


def test_manifests_that_are_no_snapshot_have_the_default_without_a_message(tmp_path: Path) -> None:
    done = call("simulate", "-f", snapshot(tmp_path))
    assert done.stderr == "" and done.stdout.splitlines()[0] == "configuration: built-in default"


def test_without_the_extra_live_a_configmap_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('aiohttp', 'kubernetes', 'prometheus_client'): sys.modules[name] = None\n"
        "from muster.cli import main; main()"
    )
    file = snapshot(tmp_path, RUNS)
    for wanted, says in ((0, ""), (2, "needs the extra `live` (pip install 'muster[live]'")):
        more = ("-c", SOURCE) if wanted else ()
        command = [sys.executable, "-c", code, "simulate", "-f", file, *more]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == wanted and says in done.stderr, done.stderr
