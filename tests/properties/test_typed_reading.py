"""Objects that are decoded from bytes are those that are read as plain values, with the same findings and lines."""

from __future__ import annotations

import gzip
import json
from copy import deepcopy
from functools import lru_cache
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from documents import ROOT
from muster.cluster.manifests import Manifests, read
from muster.cluster.typed_objects import ObjectDecoder
from muster.model.yamltext import dump_all
from strategies.profiles import examples

CASES = ROOT / "tests" / "cases"
VALUES: list[Any] = [
    None, 0, -0.0, 1.5, 1e30, 10**20, "", "x", "a/b", "é", "\u2028", "\x7f", "😀", "yes", "1e3", "010", "1", "null",
    "- a", "a: b", "a #b", "&a", "*a", "'", '"', "a\nb", " a", True, [], {}, [1], [None], [[]], {"a": 1}, {"": None},
    {"a": {"b": []}}, "2026-01-31T08:00:00Z", "100m", "-1",
]  # fmt: skip
MARKS = ["{", "]", '"', ",", ":", "\t", "#", "\\", "\n", " ", "-", "\\u0041", "---\n"]
NAMES = ["name", "spec", "nodeName", "managedFields", "imagePullPolicy", "conatiners", "a b", "é", "<<", "1", "y", ""]


@lru_cache
def documents() -> list[Any]:
    files = [file for file in sorted(CASES.glob("*/*/cluster.yaml")) if not file.parent.name.startswith("bad-")]
    found: list[Any] = []
    for file in files[::8]:
        found += [one for one in yaml.load_all(file.read_text("utf-8"), yaml.CSafeLoader) if isinstance(one, dict)]
    return found


def holders(value: Any) -> list[Any]:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    inner = [holder for one in below for holder in holders(one)]
    return [value, *inner] if isinstance(value, dict | list) else inner


def mutate(value: Any, random: Random) -> None:
    """Changes, adds or removes one field or item of a value."""
    holder = random.choice(holders(value))
    if isinstance(holder, list):
        holder.append(deepcopy(random.choice(VALUES)))
    elif random.random() < 0.5 or not holder:
        holder[random.choice(NAMES)] = deepcopy(random.choice(VALUES))
    elif random.random() < 0.8:
        holder[random.choice(list(holder))] = deepcopy(random.choice(VALUES))
    else:
        del holder[random.choice(list(holder))]


def garbled(text: str, random: Random) -> str:
    """Repeats, inserts or removes a few characters."""
    at = random.randrange(len(text))
    return random.choice(
        (
            text[:at] + random.choice(MARKS) + text[at:],
            text[:at] + text[at + 1 :],
            text[:at] + text[max(at - 30, 0) :],
            text.replace('"name":', '"name":"twice","name":', 1),
            text.replace("name: ", "name: twice\n  name: ", 1),
            text.replace("spec:", "spec: &a", 1),
            text.replace('"metadata"', '"m\\u0065tadata"', 1),
        )
    )  # fmt: skip


def written(objects: list[Any], random: Random) -> str:
    """The objects in one of the forms in which manifests come."""
    ascii_only = random.random() < 0.5
    form = random.randrange(6)
    if form == 0:
        kind = random.choice(["List", "List", "PodList", "NodeList"])
        version = random.choice(["v1", "v1", "apps/v1"])
        whole = {"apiVersion": version, "kind": kind, "items": objects, **random.choice([{}, {"metadata": {}}])}
        return json.dumps(whole, ensure_ascii=ascii_only, indent=random.choice([None, 2]))
    if form == 1:
        return "\n".join(json.dumps(one, ensure_ascii=ascii_only) for one in objects)
    if form == 2:
        return "\n".join(json.dumps(one, ensure_ascii=ascii_only, indent=1) for one in objects)
    if form == 3:
        return "---\n".join(
            json.dumps(one, ensure_ascii=ascii_only, indent=random.choice([None, 1])) + "\n" for one in objects
        )
    return dump_all(objects)


def seen(manifests: Manifests) -> list[Any]:
    places = {at: manifests.where[at] for at in manifests.where}
    templates = [getattr(getattr(one, "spec", None), "template", None) for one in manifests]
    kept = [getattr(template, "written", None) for template in templates]
    return [manifests.objects, manifests.findings, manifests.skipped, places, kept]


@given(st.integers(0, 2**63))
@examples(1000)
def test_decoding_bytes_finds_what_reading_plain_values_finds(seed: int) -> None:
    random = Random(seed)
    objects = [deepcopy(one) for one in random.sample(documents(), random.randint(1, 6))]
    objects += deepcopy(objects[: random.randint(0, 2)])
    for _ in range(random.choice([0, 0, 1, 1, 3])):
        mutate(objects, random)
    text = written(objects, random)
    if random.random() < 0.4:
        text = garbled(text, random)
    data = text.encode("utf-8", "surrogatepass")
    if random.random() < 0.2:
        data = gzip.compress(data)
    fast = seen(read([("f", data)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectDecoder, "decode", None)
        assert fast == seen(read([("f", data)])), text
