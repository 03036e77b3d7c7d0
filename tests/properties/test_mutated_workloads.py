"""Workloads and tables of descriptions with random mistakes: simulate and validate report them and never raise."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import muster
from builders.manifests import node
from documents import ROOT
from muster.model.kinds import find
from strategies.profiles import examples

CASES = ROOT / "tests" / "cases"
FAMILIES = ("workload-kinds", "volcano-jobs", "native-groups")
VALUES: list[Any] = [
    None, 0, -1, 1.5, 10**12, float("inf"), "", "x", "\0", "{", "spec.[", "sum(`1`)", "{metadata.name}", True, [], {},
    [1], {"a": 1},
]  # fmt: skip


def documents(family: str) -> list[Any]:
    found: list[Any] = []
    for file in sorted((CASES / family).glob("*/cluster.yaml")):
        if not file.parent.name.startswith("bad-"):
            found += [one for one in yaml.load_all(file.read_text("utf-8"), yaml.CSafeLoader) if one]
    return [one for one in found if one["kind"] not in ("Node", "Pod")]


OBJECTS = {family: documents(family) for family in FAMILIES}
TABLE = yaml.load((ROOT / "src/muster/workloads/kinds.yaml").read_text("utf-8"), yaml.CSafeLoader)["kinds"]


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every part of a value; three times if it has no parts, as most mistakes are made there."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, part in parts:
        yield from [(*above, place)] * (1 if isinstance(part, dict | list) else 3)
        yield from places(part, (*above, place))


def mutate(value: Any, random: Random) -> Any:
    """Removes or replaces one to three parts of a value."""
    made = deepcopy(value)
    for _ in range(random.randint(1, 3)):
        *above, place = random.choice(list(places(made)) or [()])
        holder = made
        for step in above:
            holder = holder[step]
        if isinstance(holder, dict) and random.random() < 0.3:
            del holder[place]
        else:
            holder[place] = deepcopy(random.choice(VALUES))
    return made


def some_objects(family: str, random: Random) -> list[Any]:
    """Returns an object of each of six kinds."""
    by_kind: dict[Any, list[Any]] = {}
    for one in OBJECTS[family]:
        by_kind.setdefault((one["apiVersion"], one["kind"]), []).append(one)
    return [random.choice(by_kind[kind]) for kind in random.sample(sorted(by_kind), min(len(by_kind), 6))]


def accepted(objects: list[Any], kinds: list[str]) -> None:
    with contextlib.suppress(muster.InputError):
        muster.simulate(objects, workload_kinds=kinds, keep_going=True, cycles=3)
    muster.validate(objects, workload_kinds=kinds)


@pytest.mark.parametrize("family", FAMILIES)
@given(seed=st.integers(0, 2**32))
@examples(100)
def test_mistakes_in_workloads_are_reported(family: str, seed: int) -> None:
    random = Random(seed)
    objects = mutate(some_objects(family, random), random)
    accepted([node("n1"), *(one for one in objects if isinstance(one, dict))], [])


@given(seed=st.integers(0, 2**32))
@examples(100)
def test_mistakes_in_a_table_are_reported(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    random = Random(seed)
    table = mutate([one for one in TABLE if find(one["apiVersions"][0], one["kind"]) is None], random)
    file = tmp_path_factory.getbasetemp() / "kinds.yaml"
    file.write_text(yaml.safe_dump({"kinds": table}), "utf-8")
    accepted([node("n1"), *some_objects("workload-kinds", random)], [str(file)])
