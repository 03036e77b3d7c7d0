"""`import muster` and its three functions, as a notebook user has them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

import muster
from builders.manifests import node, pod
from muster.cli import main
from muster.model.kinds import decode
from muster.model.meta import Object

CONFIG = {"actions": "allocate", "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}]}]}


def objects() -> list[dict[str, Any]]:
    return [node("a", cpu=4), pod("p"), pod("big", cpu="900")]


def write(folder: Path) -> tuple[str, str]:
    cluster, config = folder / "cluster.json", folder / "scheduler.yaml"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects()}))
    config.write_text(json.dumps(CONFIG))
    return str(cluster), str(config)


def test_importing_muster_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import muster; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['muster']"


def test_every_public_name_is_there() -> None:
    assert {name for name in muster.__all__ if not hasattr(muster, name)} == set()
    assert set(dir(muster)) == set(muster.__all__)
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        muster.simulat  # type: ignore[attr-defined]  # noqa: B018


def printed(*arguments: str) -> object:
    return json.loads(CliRunner().invoke(main, [*arguments, "-o", "json"]).stdout)


def test_to_dict_is_what_the_command_prints(tmp_path: Path) -> None:
    cluster, config = write(tmp_path)
    given = ["-c", config, "-f", cluster]
    assert muster.simulate(cluster, config=config).to_dict() == printed("simulate", *given)
    assert muster.explain("big", cluster, config=config, sets=True).to_dict() == printed(
        "explain", "big", "--sets", *given
    )
    checked = muster.validate(cluster, config=config)
    assert checked.to_dict() == printed("validate", *given)
    assert checked.to_dict(effective=True) == printed("validate", "--effective", *given)


def test_objects_paths_and_plain_values_give_the_same_result(tmp_path: Path) -> None:
    cluster, config = write(tmp_path)
    expected = muster.simulate(cluster, config=config).decisions()
    models: list[Object] = [decode(one) for one in objects()]
    assert expected["binds"] == {"default/p": "a"}
    assert muster.simulate(objects(), config=CONFIG).decisions() == expected
    assert muster.simulate(models, config=CONFIG).decisions() == expected
    assert muster.simulate([Path(cluster)], config=Path(config)).decisions() == expected
    assert muster.simulate([models[0], *objects()[1:]], config=CONFIG).decisions() == expected


def test_objects_that_were_given_are_not_changed() -> None:
    given = objects()
    models = [decode(one) for one in objects()]
    before = json.dumps(given), msgspec.json.encode(models)
    muster.simulate(given)
    muster.simulate(models)
    assert (json.dumps(given), msgspec.json.encode(models)) == before


@pytest.mark.parametrize(
    ("cluster", "text"),
    [
        ("no-such-file.yaml", "no-such-file.yaml: error: cannot be read"),
        ({"kind": "Pod"}, "objects\\[0\\]: error: Pod: apiVersion is missing"),
        (
            [node("a", cpu=4), {**pod("p"), "spec": {"containers": 3}}],
            "objects\\[1\\]: error: Pod default/p: spec.containers",
        ),
        ([node("a", cpu=4), {**pod("p"), "metadata": {1: 2}}], "objects\\[1\\]: error"),
        (
            [node("a", cpu=4), {**pod("p"), "metadata": {"name": "p", "labels": {"a": object()}}}],
            "objects\\[1\\]: error",
        ),
        ([], "no usable object"),
        ([3], "objects\\[0\\] is neither a path nor an object"),
        (None, "not as NoneType"),
        (7, "not as int"),
    ],
)
def test_bad_input_raises_one_exception_that_says_where(cluster: Any, text: str) -> None:
    with pytest.raises(muster.InputError, match=text):
        muster.simulate(cluster)
    with pytest.raises(muster.InputError, match=text):
        muster.explain("p", cluster)


def test_the_exception_carries_the_findings(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  nodeselector: {}\n")
    with pytest.raises(muster.InputError) as caught:
        muster.simulate(file)
    assert [(f.file, f.line, bool(f.fix)) for f in caught.value.findings if f.severity == "error"] == [
        (str(file), 5, True)
    ]
    left_out = muster.simulate([file, node("a", cpu=4)], keep_going=True)
    assert [finding.severity for finding in left_out.findings] == ["error"]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ("no-such.yaml", "no-such.yaml: error: cannot be read"),
        ({"actions": "alocate"}, "config:1: error: .*alocate"),
        ({"actions": object()}, "config"),
        (7, "not as int"),
    ],
)
def test_a_bad_configuration_raises_the_same_exception(config: Any, text: str) -> None:
    with pytest.raises(muster.InputError, match=text):
        muster.simulate(objects(), config=config)


def test_a_pod_that_cannot_be_explained_raises_the_same_exception() -> None:
    with pytest.raises(muster.InputError, match=r"there is no pod default/q"):
        muster.explain("q", objects())


def test_a_time_is_a_number_or_a_timestamp() -> None:
    at = muster.simulate(objects(), now="2026-01-31T08:00:00Z").cluster.clock.now()
    assert muster.simulate(objects(), now=at).cluster.clock.now() == at
    with pytest.raises(muster.InputError, match="now: 'today' is not a timestamp"):
        muster.simulate(objects(), now="today")


def test_validate_finds_what_is_wrong_and_raises_nothing() -> None:
    found = muster.validate([{**node("a", cpu=4), "kind": "Nod"}, pod("p")])
    assert not found.ok
    assert muster.validate(config=CONFIG).ok


def test_an_object_without_a_kind_is_reported_as_such() -> None:
    with pytest.raises(muster.InputError, match=r"objects\[0\].*apiVersion and kind are missing"):
        muster.simulate([{}])
