"""The schemas are structural, closed, and say what the types say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from muster.model import scheduling
from muster.model.crd import OURS, PEERS
from muster.model.crd.schema import Definition, Demands, schema_of
from muster.model.kinds import CUSTOM

ALL = [*OURS, *PEERS]
names = [definition.name for definition in ALL]


def walk(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from walk(inner, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from walk(schema[name], f"{path}[]")


def whole(definition: Definition) -> dict[str, Any]:
    schema: dict[str, Any] = definition.plain()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def test_every_custom_kind_has_a_definition() -> None:
    assert {definition.cls for definition in ALL} == CUSTOM


@pytest.mark.parametrize("definition", ALL, ids=names)
def test_only_the_value_of_a_plaintext_override_may_hold_anything(definition: Definition) -> None:
    open_places = [p for p, schema in walk(whole(definition)) if schema.get("x-kubernetes-preserve-unknown-fields")]
    rules = ".spec.overrideRules[]"
    wanted = [f"{rules}.plaintext[].value", f"{rules}.overriders.plaintext[].value"]
    assert sorted(open_places) == (sorted(wanted) if definition.plural == "overridepolicies" else [])


@pytest.mark.parametrize("definition", ALL, ids=names)
def test_every_place_has_a_type_and_what_is_required_exists(definition: Definition) -> None:
    for place, schema in walk(whole(definition)):
        anything = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string")
        assert anything or "type" in schema, place
        assert set(schema.get("required", ())) <= set(schema.get("properties", {})), place


@pytest.mark.parametrize("definition", ALL, ids=names)
def test_a_kind_with_a_status_has_it_as_a_subresource(definition: Definition) -> None:
    version = definition.plain()["spec"]["versions"][0]
    assert ("subresources" in version) == ("status" in whole(definition)["properties"])


def test_defaults_are_those_of_the_types() -> None:
    queue = next(one for one in ALL if one.cls is scheduling.Queue)
    spec = whole(queue)["properties"]["spec"]
    assert spec["default"] == {}
    filled = {name: schema["default"] for name, schema in spec["properties"].items() if "default" in schema}
    assert filled == {"weight": scheduling.QueueSpec().weight, "dequeueStrategy": "traverse"}


def test_a_demand_on_a_field_that_does_not_exist_is_a_fault() -> None:
    with pytest.raises(KeyError, match="QueueSpec has no field wieght"):
        schema_of(scheduling.Queue, {scheduling.QueueSpec: Demands(fields={"wieght": {"minimum": 1}})})


STATE = {
    "NodeGroup": {"Nodes", "Ready", "Contained"},
    "PropagationPolicy": {"Strategy", "Resolved", "Satisfied", "Reason", "Message"},
    "OverridePolicy": {"Resolved", "Satisfied", "Reason", "Message"},
    "Queue": {"Parent", "Weight", "State", "Running", "Pending", "Inqueue", "Allocated", "Capability"},
    "PodGroup": {"Status", "MinMember", "Running", "Queue", "Reason"},
    "HyperNode": {"Tier", "Nodes"},
    "Topology": {"Levels"},
}


@pytest.mark.parametrize("definition", ALL, ids=names)
def test_kubectl_get_shows_the_state_of_every_kind(definition: Definition) -> None:
    plain = definition.plain()["spec"]
    columns = {one["name"]: one["jsonPath"] for one in plain["versions"][0]["additionalPrinterColumns"]}
    assert columns.keys() == {*STATE[plain["names"]["kind"]], "Age"}
    known = {path for path, _ in walk(whole(definition))}
    for name, path in columns.items():
        if name != "Age":
            assert re.sub(r"\[\?\([^)]*\)\]", "[]", path) in known, path
